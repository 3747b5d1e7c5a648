package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
)

// genManifest draws a manifest that is good.
func genManifest(rt *rapid.T) map[string]any {
	tree := base()
	text := rapid.StringMatching(`[ -~äß€\n\t]{0,12}`) // a YAML file may hold no control characters
	label := rapid.StringMatching(`[a-z]([a-z0-9]{0,8}[a-z0-9])?`)
	set(tree, "metadata.name", label.Draw(rt, "name"))
	set(tree, "spec.terminationGracePeriodSeconds", rapid.IntRange(0, 600).Draw(rt, "grace"))
	set(tree, "spec.restartPolicy", rapid.SampledFrom([]any{"Always", "OnFailure", "Never", nil}).Draw(rt, "restart"))
	set(tree, "spec.hostNetwork", rapid.SampledFrom([]any{true, false, nil}).Draw(rt, "hostNetwork"))
	var containers []any
	for i := range rapid.IntRange(1, 3).Draw(rt, "containers") {
		c := map[string]any{
			"name":  fmt.Sprintf("%s-%d", label.Draw(rt, "container"), i),
			"image": label.Draw(rt, "image") + rapid.SampledFrom([]string{"", ":latest", ":1"}).Draw(rt, "tag"),
			"env":   []any{map[string]any{"name": "A", "value": text.Draw(rt, "value")}},
			"args":  rapid.SliceOfN(text, 0, 3).Draw(rt, "args"),
		}
		if rapid.Bool().Draw(rt, "limited") {
			limit := rapid.IntRange(1, 5000).Draw(rt, "limit")
			c["resources"] = map[string]any{"limits": map[string]any{"cpu": fmt.Sprintf("%dm", limit), "memory": fmt.Sprintf("%dKi", limit)}}
		}
		containers = append(containers, c)
	}
	return set(tree, "spec.containers", containers)
}

// TestDecodeIsAFunctionOfWhatIsSaid: YAML or JSON, now or later, the same
// manifest is the same pod; another one is another.
func TestDecodeIsAFunctionOfWhatIsSaid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := genManifest(rt)
		asYAML := check.Value(yaml.Marshal(tree))(rt)
		asJSON := check.Value(json.Marshal(tree))(rt)
		a := Decode(asYAML, fromFile, nodeA, noon)
		b := Decode(asJSON, fromFile, nodeA, noon)
		if len(a.Problems) > 0 {
			rt.Fatalf("%v\n%s", a.Problems, asYAML)
		}
		if !reflect.DeepEqual(a, b) {
			rt.Fatalf("YAML and JSON differ:\n%s", asYAML)
		}
		later := Decode(asYAML, fromFile, nodeA, noon.Add(time.Hour))
		if later.Pods[0].UID != a.Pods[0].UID {
			rt.Fatal("the UID depends on the time")
		}
		set(tree, "metadata.annotations", map[string]any{"edited": "true"})
		edited := check.Value(yaml.Marshal(tree))(rt)
		if Decode(edited, fromFile, nodeA, noon).Pods[0].UID == a.Pods[0].UID {
			rt.Fatal("an edit kept the UID")
		}
	})
}

// TestEncodedPodDecodesToItself: what Decode made, written out as a manifest,
// is the same pod again but for the name, which is given its suffix again.
func TestEncodedPodDecodesToItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		asJSON := check.Value(json.Marshal(genManifest(rt)))(rt)
		first := Decode(asJSON, fromFile, nodeA, noon).Pods[0]
		again := first.DeepCopy()
		again.Name = strings.TrimSuffix(again.Name, "-node-a")
		encoded := check.Value(json.Marshal(again))(rt)
		second := Decode(encoded, fromFile, nodeA, noon)
		if len(second.Problems) > 0 {
			rt.Fatalf("%v", second.Problems)
		}
		delete(second.Pods[0].Annotations, AnnotationManifest) // it has a UID, the first had none
		x, _ := json.Marshal(first)
		y, _ := json.Marshal(second.Pods[0])
		if string(x) != string(y) {
			rt.Fatalf("changed by a round trip:\n%s\n%s", x, y)
		}
	})
}

func TestDefaultsTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		asJSON := check.Value(json.Marshal(genManifest(rt)))(rt)
		pod := Decode(asJSON, fromFile, nodeA, noon).Pods[0]
		again := pod.DeepCopy()
		SetDefaults(again)
		if !reflect.DeepEqual(pod, again) {
			rt.Fatal("defaulting a second time changed the pod")
		}
	})
}

func FuzzDecode(f *testing.F) {
	good := encode(f, base())
	for _, seed := range []string{
		string(good), string(good[:len(good)/2]), "", "---", "null", "[]", "a: &a [*a]", "{}", "kind: Pod", "\x00", "\xff\xfe",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}",
		"apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}, spec: {containers: [null]}}]",
		"apiVersion: v1\nkind: List\nitems: [null, 1, {}]", "kind: Pod\nkind: Pod", "kind: Pod\n---\nkind: Pod", "? [a]\n: b",
		"kind: Deploy\n\n ment",
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","deletionTimestamp":"x"},"spec":{"volumes":[{"hostPath":null}]}}`,
		"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: system-node-critical, containers: [{name: c, image: i, securityContext: {}, lifecycle: {preStop: {sleep: {}}}}]}",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, file bool) {
		source := fromURL
		if file {
			source = fromFile
		}
		d := Decode(data, source, nodeA, noon)
		if len(d.Problems) > 0 && len(d.Pods) > 0 {
			t.Fatal("pods and problems at once")
		}
		if file && len(d.Problems) == 0 && len(d.Pods) != 1 {
			t.Fatalf("a file gave %d pods and no problem", len(d.Pods))
		}
		for _, p := range d.Problems {
			if p.Source != source.Name || p.Message == "" {
				t.Fatalf("problem without source or message: %+v", p)
			}
			if strings.ContainsAny(p.Error(), "\n\r") {
				t.Fatalf("a problem is one line: %q", p.Error())
			}
		}
		for _, pod := range d.Pods {
			if pod.UID == "" || pod.Name == "" || pod.Namespace == "" || len(pod.Spec.Containers) == 0 {
				t.Fatalf("incomplete pod %+v", pod)
			}
		}
	})
}
