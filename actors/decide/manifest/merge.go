package manifest

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Read is one manifest as it was just read.
type Read struct {
	// Source is the file path or URL, as given to Decode or Reject.
	Source string
	Decoded
}

// State is the last known content of a set of manifests. It is an immutable value: Merge returns
// the next one. It encodes as JSON, so that it survives a restart of the agent: a pod whose
// manifest is broken at that moment keeps running.
type State struct {
	// Manifests are sorted by source; each source is there once.
	Manifests []Manifest `json:"manifests"`
}

// Manifest is one source in a State.
type Manifest struct {
	Source string `json:"source"`
	// Pods are those of the last version without problems.
	Pods []*v1.Pod `json:"pods,omitempty"`
	// Problems are those of the newest version. While there are any, Pods are from an older version.
	Problems []Problem `json:"problems,omitempty"`
	// Ignored is what Pods run without: Decoded.Ignored of the version that they are from.
	Ignored []Problem `json:"ignored,omitempty"`
}

// Validate says what keeps s from being the result of Merge, after it was read from a disk. It sets the
// defaults of pods again, in place: an older agent had fewer.
func (s State) Validate() error {
	for i, m := range s.Manifests {
		if i > 0 && s.Manifests[i-1].Source >= m.Source {
			return fmt.Errorf("manifest %q is not after %q", m.Source, s.Manifests[i-1].Source)
		}
		for _, pod := range m.Pods {
			if pod == nil || pod.Name == "" || pod.Namespace == "" || pod.UID == "" {
				return fmt.Errorf("a pod of manifest %q has no name, namespace or UID", m.Source)
			}
			SetDefaults(pod)
			if problems := validate(pod); len(problems) > 0 {
				return fmt.Errorf("pod %s of manifest %q is invalid: %w", keyOf(pod), m.Source, problems.ToAggregate())
			}
		}
	}
	return nil
}

// Merge takes a complete reading of all manifests after prev:
//
//   - a manifest that is good replaces what it said before;
//   - one with problems keeps the pods of its last good version running;
//   - one that is not there any more takes its pods with it.
//
// A pod whose UID did not change stays the same value, so that only changes are new; the time it
// was first seen stays too.
func Merge(prev State, read []Read) State {
	next := State{Manifests: make([]Manifest, 0, len(read))}
	for _, r := range read {
		before, _ := prev.find(r.Source)
		m := Manifest{Source: r.Source, Pods: before.Pods, Problems: r.Problems, Ignored: before.Ignored}
		if len(r.Problems) == 0 {
			m.Pods, m.Ignored = keepUnchanged(before.Pods, r.Pods), r.Ignored
		}
		next.Manifests = append(next.Manifests, m)
	}
	slices.SortStableFunc(next.Manifests, func(a, b Manifest) int { return cmp.Compare(a.Source, b.Source) })
	for i := 1; i < len(next.Manifests); i++ {
		if source := next.Manifests[i].Source; source == next.Manifests[i-1].Source {
			panic(fmt.Sprintf("manifest: %s was read twice in one go", source))
		}
	}
	return next
}

func (s State) find(source string) (Manifest, bool) {
	i, ok := slices.BinarySearchFunc(s.Manifests, source, func(m Manifest, source string) int {
		return cmp.Compare(m.Source, source)
	})
	if !ok {
		return Manifest{}, false
	}
	return s.Manifests[i], true
}

func keepUnchanged(before, now []*v1.Pod) []*v1.Pod {
	pods := make([]*v1.Pod, len(now))
	for i, pod := range now {
		pods[i] = pod
		for _, old := range before {
			same := func(key string) bool { return old.Annotations[key] == pod.Annotations[key] }
			// A UID in the manifest does not identify the content. An older agent had the content hash in AnnotationHash.
			if old.UID == pod.UID && same(AnnotationManifest) && same(podspec.AnnotationHash) {
				pods[i] = old
			}
		}
	}
	return pods
}

// Unclear says whether nobody knows which pods some manifest wants: it never was valid.
func (s State) Unclear() bool {
	return slices.ContainsFunc(s.Manifests, func(m Manifest) bool { return len(m.Problems) > 0 && len(m.Pods) == 0 })
}

// Without are the UIDs of the pods that s has and next does not, in the order of s.
func (s State) Without(next State) (out []types.UID) {
	has := map[types.UID]bool{}
	for _, m := range next.Manifests {
		for _, pod := range m.Pods {
			has[pod.UID] = true
		}
	}
	for _, m := range s.Manifests {
		for _, pod := range m.Pods {
			if !has[pod.UID] {
				out = append(out, pod.UID)
			}
		}
	}
	return out
}

// Ignored is what the pods of the state run without.
func (s State) Ignored() []Problem {
	var out []Problem
	for _, m := range s.Manifests {
		out = append(out, m.Ignored...)
	}
	return out
}

// inTurn are manifests in the order in which they have a name that several of them give a pod. A copy of a manifest
// beside it has another ending mostly, or a longer name: kube-apiserver.yaml.bak, kube-apiserver-old.yaml. It must not
// take effect, whichever was written last.
func inTurn(manifests []Manifest) []Manifest {
	copies := func(m Manifest) int {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(m.Source)) {
			return 0
		}
		return 1
	}
	return slices.SortedStableFunc(slices.Values(manifests), func(a, b Manifest) int {
		return cmp.Or(cmp.Compare(copies(a), copies(b)), cmp.Compare(len(a.Source), len(b.Source)))
	})
}

// Desired returns the pods to run and all problems, over any number of states (files and URL). If
// two manifests name the same pod, the first one of inTurn wins, in the order of the
// states; the other is a problem that names both. The result is in the order of the sources.
func Desired(states ...State) (pods []*v1.Pod, problems []Problem) {
	byName := map[types.NamespacedName]string{}
	byUID := map[types.UID]string{}
	for _, state := range states {
		before, said := len(pods), len(problems)
		for _, m := range inTurn(state.Manifests) {
			var kept []string
			theirs := len(problems)
			problems = append(problems, m.Problems...)
			for _, pod := range m.Pods {
				if owner, taken := byName[keyOf(pod)]; taken {
					problems = append(problems, Problem{
						Source: m.Source, Field: "metadata.name", Value: keyOf(pod).String(),
						Message: fmt.Sprintf("%s also has a pod of this name, and that pod runs: rename one or remove a file", owner),
					})
					continue
				}
				if owner, taken := byUID[pod.UID]; taken {
					problems = append(problems, Problem{
						Source: m.Source, Field: "metadata.uid", Value: string(pod.UID),
						Message: fmt.Sprintf("%s also has a pod of this UID, and that pod runs: remove uid from both", owner),
					})
					continue
				}
				byName[keyOf(pod)], byUID[pod.UID] = m.Source, m.Source
				pods = append(pods, pod)
				kept = append(kept, keyOf(pod).String())
			}
			for i := range m.Problems {
				problems[theirs+i].Kept = strings.Join(kept, ", ")
			}
		}
		slices.SortStableFunc(pods[before:], func(a, b *v1.Pod) int {
			return cmp.Compare(byName[keyOf(a)], byName[keyOf(b)])
		})
		slices.SortStableFunc(problems[said:], func(a, b Problem) int { return cmp.Compare(a.Source, b.Source) })
	}
	return pods, problems
}
