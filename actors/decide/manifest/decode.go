package manifest

import (
	"fmt"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/manifest/strictyaml"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// MaxSize is the largest manifest that is decoded, in bytes: 10 MiB, the
// kubelet's own limit.
const MaxSize = 10 << 20

// Source names one manifest.
type Source struct {
	// Origin is File for a file below staticPodPath, which holds one Pod, or HTTP for
	// the answer of staticPodURL, which holds one Pod or a list of them.
	Origin podspec.Origin
	// Name is the path of the file or the URL. It goes into the UID of a pod:
	// a renamed file is another pod.
	Name string
}

// Node is what a static pod needs to know of its node.
type Node struct {
	// Name becomes spec.nodeName and the suffix of the pod's name.
	Name string
}

// Decoded is the result of one manifest: its pods, or its problems. A manifest with any problem
// gives no pods, so that a list is taken as a whole or not at all.
type Decoded struct {
	Pods     []*v1.Pod
	Problems []Problem
	// Ignored is what the pods run without, as with a kubelet: fields that a Pod does not have, all
	// but the last of keys given twice, documents after the first. Empty if there are Problems.
	Ignored []Problem
}

// Decode reads a manifest. now becomes the annotation kubernetes.io/config.seen
// and has no other effect: the same bytes from the same source on the same node
// give pods that are otherwise equal.
func Decode(data []byte, source Source, node Node, now time.Time) Decoded {
	if len(data) > MaxSize {
		return Reject(source.Name, fmt.Sprintf(
			"%d bytes long; the limit of a manifest is %d MiB: remove everything that does not belong to the pod",
			len(data), MaxSize>>20))
	}
	tree, forgiven, mistakes := strictyaml.ParseForgiving(data)
	if mistakes != nil {
		return failed(source, fromMistakes(source.Name, mistakes))
	}
	items, more, problems := podsOf(tree, source)
	if problems != nil {
		return failed(source, problems)
	}
	forgiven = append(forgiven, more...)
	var pods []*v1.Pod
	for _, item := range items {
		pod, more, itemProblems := decodePod(item, source, node, now)
		forgiven = append(forgiven, more...)
		if itemProblems != nil {
			problems = append(problems, itemProblems...)
			continue
		}
		pods = append(pods, pod)
	}
	if problems != nil {
		return failed(source, problems)
	}
	return Decoded{Pods: pods, Ignored: ignored(source, forgiven)}
}

// ignored is what was forgiven of a manifest, said as what happens.
func ignored(source Source, forgiven []strictyaml.Mistake) []Problem {
	if len(forgiven) == 0 {
		return nil
	}
	return bounded(source.Name, fromMistakes(source.Name, forgiven))
}

// Reject returns the Decoded of a manifest that could not be read, for a caller without bytes: a
// broken symlink, a FIFO, an HTTP error.
func Reject(source, message string) Decoded {
	return Decoded{Problems: []Problem{{Source: source, Message: message}}}
}

func failed(source Source, problems []Problem) Decoded {
	return Decoded{Problems: bounded(source.Name, problems)}
}

// item is one pod in a document: its tree and its path there.
type item struct {
	tree strictyaml.Tree
	at   string
}

const onlyPods = "only v1 Pod can run from a manifest"

// podsOf finds the pods of a document by its kind, and what it may have beside them.
func podsOf(tree strictyaml.Tree, source Source) ([]item, []strictyaml.Mistake, []Problem) {
	problem := func(field, value, message string) ([]item, []strictyaml.Mistake, []Problem) {
		return nil, nil, []Problem{{Source: source.Name, Field: field, Value: value, Message: message}}
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return problem("", strictyaml.Show(tree), "must be a Pod, a map with apiVersion, kind, metadata and spec")
	}
	kind, ok := root["kind"].(string)
	if !ok || kind == "" {
		return problem("kind", "", "must be given: a manifest begins with apiVersion: v1 and kind: Pod")
	}
	isList := kind == "PodList" || kind == "List"
	switch version := root["apiVersion"]; {
	case kind != "Pod" && !isList:
		return problem("kind", strictyaml.Show(kind), onlyPods)
	case version == nil:
		return problem("apiVersion", "", "must be given: v1")
	case version != "v1":
		return problem("apiVersion", strictyaml.Show(version), "must be v1")
	case !isList:
		return []item{{tree: tree}}, nil, nil
	case source.Origin == podspec.File:
		return problem("kind", strictyaml.Show(kind),
			"a file holds one Pod: put each pod of the list into a file of its own")
	}
	return listItems(root, kind, source)
}

func listItems(root map[string]any, kind string, source Source) ([]item, []strictyaml.Mistake, []Problem) {
	var shell v1.List // checks everything but the items
	rest := make(map[string]any, len(root))
	for k, v := range root {
		if k != "items" {
			rest[k] = v
		}
	}
	forgiven, mistakes := strictyaml.DecodeForgiving(rest, "", &shell)
	if mistakes != nil {
		return nil, nil, fromMistakes(source.Name, mistakes)
	}
	list, ok := root["items"].([]any)
	if !ok && root["items"] != nil {
		return nil, nil, []Problem{
			{Source: source.Name, Field: "items", Value: strictyaml.Show(root["items"]), Message: "must be a list of Pods"},
		}
	}
	var items []item
	var problems []Problem
	for i, v := range list {
		at := "items[" + strconv.Itoa(i) + "]"
		m, ok := v.(map[string]any)
		if !ok {
			problems = append(problems,
				Problem{Source: source.Name, Field: at, Value: strictyaml.Show(v), Message: "must be a Pod"})
			continue
		}
		// The items of a PodList need not say what they are.
		if given, has := m["kind"]; has && given != "Pod" || !has && kind == "List" {
			problems = append(problems, Problem{
				Source: source.Name, Field: at + ".kind", Value: strictyaml.Show(given),
				Message: onlyPods,
			})
		}
		if given, has := m["apiVersion"]; has && given != "v1" || !has && kind == "List" {
			problems = append(problems, Problem{
				Source: source.Name, Field: at + ".apiVersion", Value: strictyaml.Show(given), Message: "must be v1",
			})
		}
		items = append(items, item{tree: m, at: at})
	}
	return items, forgiven, problems
}

// decodePod takes one pod through all the steps.
func decodePod(it item, source Source, node Node, now time.Time) (*v1.Pod, []strictyaml.Mistake, []Problem) {
	pod := &v1.Pod{}
	forgiven, mistakes := strictyaml.DecodeForgiving(it.tree, it.at, pod)
	if mistakes != nil {
		return nil, nil, fromMistakes(source.Name, mistakes)
	}
	if errs := validateAsWritten(pod); len(errs) > 0 {
		return nil, nil, fromFieldErrors(source.Name, it.at, errs)
	}
	// What is ignored is not in the UID: whoever corrects it does not restart the pod.
	identify(pod, it.tree, source, node, now)
	SetDefaults(pod)
	errs := append(validate(pod), forbidAPIObjects(pod)...)
	if len(errs) > 0 {
		return nil, nil, fromFieldErrors(source.Name, it.at, errs)
	}
	return pod, forgiven, nil
}
