package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func read(t testing.TB, file, name, image string, at time.Time) Read {
	tree := set(set(base(), "metadata.name", name), "spec.containers.0.image", image)
	return Read{file, Decode(encode(t, tree), Source{podspec.File, file}, nodeA, at)}
}

func names(pods []*v1.Pod) string {
	var s []string
	for _, p := range pods {
		s = append(s, p.Name+"="+p.Spec.Containers[0].Image)
	}
	return strings.Join(s, " ")
}

// TestMergeStory is one directory over time: each step is a reading and what
// must run after it.
func TestMergeStory(t *testing.T) {
	broken := Read{"b.yaml", Reject("b.yaml", "half written")}
	steps := []struct {
		what     string
		read     []Read
		run      string
		problems []string
	}{
		{"two files", []Read{read(t, "b.yaml", "b", "i:1", noon), read(t, "a.yaml", "a", "i:1", noon)}, "a-node-a=i:1 b-node-a=i:1", nil},
		{"an edit", []Read{read(t, "a.yaml", "a", "i:2", noon), read(t, "b.yaml", "b", "i:1", noon)}, "a-node-a=i:2 b-node-a=i:1", nil},
		{"one breaks: its last valid version keeps running", []Read{read(t, "a.yaml", "a", "i:2", noon), broken}, "a-node-a=i:2 b-node-a=i:1", []string{"b.yaml: half written (still running from the last valid version: default/b-node-a)"}},
		{"still broken", []Read{read(t, "a.yaml", "a", "i:2", noon), broken}, "a-node-a=i:2 b-node-a=i:1", []string{"b.yaml: half written (still running from the last valid version: default/b-node-a)"}},
		{"repaired", []Read{read(t, "a.yaml", "a", "i:2", noon), read(t, "b.yaml", "b", "i:3", noon)}, "a-node-a=i:2 b-node-a=i:3", nil},
		{"a duplicate: the first file wins", []Read{read(t, "a.yaml", "a", "i:2", noon), read(t, "b.yaml", "b", "i:3", noon), read(t, "c.yaml", "a", "i:9", noon)}, "a-node-a=i:2 b-node-a=i:3",
			[]string{"c.yaml: metadata.name: default/a-node-a: a.yaml also has a pod of this name, and that pod runs: rename one or remove a file"}},
		{"the winner goes: the other runs", []Read{read(t, "b.yaml", "b", "i:3", noon), read(t, "c.yaml", "a", "i:9", noon)}, "b-node-a=i:3 a-node-a=i:9", nil},
		{"new and broken from the start", []Read{{"d.yaml", Reject("d.yaml", "a FIFO")}}, "", []string{"d.yaml: a FIFO"}},
		{"all gone", nil, "", nil},
	}
	var state State
	for _, step := range steps {
		state = Merge(state, step.read)
		pods, problems := Desired(state)
		if got := names(pods); got != step.run {
			t.Errorf("%s: runs %q, want %q", step.what, got, step.run)
		}
		var got []string
		for _, p := range problems {
			got = append(got, p.Error())
		}
		if !slices.Equal(got, step.problems) {
			t.Errorf("%s: problems %q, want %q", step.what, got, step.problems)
		}
		// A State survives a restart of the agent.
		b := check.Value(json.Marshal(state))(t)
		var back State
		check.Fatal(t, json.Unmarshal(b, &back))
		after, _ := Desired(back)
		if names(after) != step.run {
			t.Errorf("%s: after a restart runs %q", step.what, names(after))
		}
	}
}

// TestCopiesBesideAManifest: a backup beside a manifest does not take effect, also if it is newer, or read first.
func TestCopiesBesideAManifest(t *testing.T) {
	for _, name := range []string{
		"web.yaml.bak", "web.bak", "web.backup", "web.yaml~", "web-old.yaml", "web copy.yaml", "0-web.yaml", "web.yaml.2026-11-29", "backup.web.json",
	} {
		state := Merge(State{}, []Read{read(t, "/m/"+name, "web", "i:copy", noon.Add(time.Hour)), read(t, "/m/web.yaml", "web", "i:1", noon)})
		pods, problems := Desired(state)
		if len(pods) != 1 || len(problems) != 1 || names(pods) != "web-node-a=i:1" || problems[0].Source != "/m/"+name {
			t.Errorf("%s beside web.yaml: %s, %v", name, names(pods), problems)
		}
	}
}

func TestMergeKeepsAnUnchangedPod(t *testing.T) {
	first := Merge(State{}, []Read{read(t, "a.yaml", "a", "i:1", noon)})
	again := Merge(first, []Read{read(t, "a.yaml", "a", "i:1", noon.Add(time.Minute))})
	if first.Manifests[0].Pods[0] != again.Manifests[0].Pods[0] {
		t.Error("an unchanged manifest gave another pod: when it was seen must stay")
	}
	own := func(image string) Read {
		tree := set(set(base(), "metadata.uid", "mine"), "spec.containers.0.image", image)
		return Read{"a.yaml", Decode(encode(t, tree), Source{podspec.File, "a.yaml"}, nodeA, noon)}
	}
	edited := Merge(Merge(State{}, []Read{own("i:1")}), []Read{own("i:2")})
	if pods, _ := Desired(edited); names(pods) != "web-node-a=i:2" {
		t.Errorf("an edit under the same UID was lost: %s", names(pods))
	}
}

// TestMergeAfterAnUpgrade: an older agent had the content hash of a pod with a UID of its own where the UID belongs. The
// pod gets the annotations of today, and nothing that restarts it.
func TestMergeAfterAnUpgrade(t *testing.T) {
	now := Read{"a.yaml", Decode(encode(t, set(base(), "metadata.uid", "mine")), fromFile, nodeA, noon)}
	old := now.Pods[0].DeepCopy()
	old.Annotations[podspec.AnnotationHash] = old.Annotations[AnnotationManifest]
	delete(old.Annotations, AnnotationManifest)
	before := State{Manifests: []Manifest{{Source: "a.yaml", Pods: []*v1.Pod{old}}}}
	check.Fatal(t, before.Validate())
	after := Merge(before, []Read{now})
	got := after.Manifests[0].Pods[0]
	check.Equal(t, got.Annotations[podspec.AnnotationHash], "mine", "the hash")
	check.Deep(t, got.Spec, old.Spec, "the spec")
	check.Equal(t, len(before.Without(after)), 0, "pods that end")
}

func TestDesiredOverFilesAndURL(t *testing.T) {
	files := Merge(State{}, []Read{read(t, "z.yaml", "a", "i:1", noon)})
	url := Merge(State{}, []Read{{"https://x", Decode(encode(t, set(base(), "metadata.name", "a")), Source{podspec.HTTP, "https://x"}, nodeA, noon)}})
	pods, problems := Desired(files, url)
	if len(pods) != 1 || len(problems) != 1 || problems[0].Source != "https://x" {
		t.Errorf("%s, %v", names(pods), problems)
	}
	list := map[string]any{"apiVersion": "v1", "kind": "PodList", "items": []any{base(), base(), set(base(), "metadata.name", "b")}}
	twice := Merge(State{}, []Read{{"https://x", Decode(encode(t, list), Source{podspec.HTTP, "https://x"}, nodeA, noon)}})
	if pods, problems := Desired(twice); len(pods) != 2 || len(problems) != 1 || problems[0].Field != "metadata.name" {
		t.Errorf("a list with a pod twice: %s, %v", names(pods), problems)
	}
	tree := set(set(base(), "metadata.uid", "same"), "metadata.name", "one")
	one := Read{"1", Decode(encode(t, tree), Source{podspec.File, "1"}, nodeA, noon)}
	two := Read{"2", Decode(encode(t, set(tree, "metadata.name", "two")), Source{podspec.File, "2"}, nodeA, noon)}
	if _, problems := Desired(Merge(State{}, []Read{one, two})); len(problems) != 1 || problems[0].Field != "metadata.uid" {
		t.Errorf("same UID twice: %v", problems)
	}
}

// TestMergeProperties: whatever happened before, what runs is good, unique,
// and independent of the order in which files were read.
func TestMergeProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var state State
		lastGood := map[string]string{}
		for range rapid.IntRange(1, 6).Draw(rt, "readings") {
			var reading []Read
			present := map[string]bool{}
			for i := range rapid.IntRange(0, 4).Draw(rt, "files") {
				file := fmt.Sprintf("%d.yaml", i)
				present[file] = true
				if rapid.Bool().Draw(rt, "broken") {
					reading = append(reading, Read{file, Reject(file, "broken")})
					continue
				}
				name, image := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name"), fmt.Sprintf("i:%d", rapid.IntRange(1, 3).Draw(rt, "tag"))
				reading = append(reading, read(t, file, name, image, noon))
				lastGood[file] = name + "-node-a=" + image
			}
			for file := range lastGood {
				if !present[file] {
					delete(lastGood, file)
				}
			}
			shuffled := rapid.Permutation(reading).Draw(rt, "order")
			next := Merge(state, shuffled)
			if !reflect.DeepEqual(next, Merge(state, reading)) {
				rt.Fatal("the order of reading matters")
			}
			state = next
			pods, problems := Desired(state)
			seen := map[string]bool{}
			for _, p := range pods {
				if seen[p.Name] {
					rt.Fatalf("%s runs twice", p.Name)
				}
				seen[p.Name] = true
			}
			var want []string
			taken := map[string]bool{}
			for i := range 4 {
				good, ok := lastGood[fmt.Sprintf("%d.yaml", i)]
				name, _, _ := strings.Cut(good, "=")
				if ok && !taken[name] {
					taken[name] = true
					want = append(want, good)
				}
			}
			if got := names(pods); got != strings.Join(want, " ") {
				rt.Fatalf("runs %q, want %q (problems %v)", got, want, problems)
			}
		}
	})
}
