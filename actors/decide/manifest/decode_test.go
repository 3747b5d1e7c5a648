package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

var (
	noon     = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	nodeA    = Node{Name: "Node-A"}
	fromFile = Source{Origin: podspec.File, Name: "/etc/pods/web.yaml"}
	fromURL  = Source{Origin: podspec.HTTP, Name: "https://example.com/pods"}
)

// base is a manifest with nothing wrong in it, as a tree that a case changes.
func base() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}},
		"spec": map[string]any{
			"volumes": []any{
				map[string]any{"name": "scratch"},
				map[string]any{"name": "host", "hostPath": map[string]any{"path": "/srv"}},
			},
			"initContainers": []any{
				map[string]any{"name": "prepare", "image": "busybox:1.36"},
				map[string]any{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
			},
			"containers": []any{
				map[string]any{
					"name": "web", "image": "registry.example.com:5000/team/web:v1",
					"ports":         []any{map[string]any{"name": "http", "containerPort": 80}},
					"env":           []any{map[string]any{"name": "A", "value": "1"}},
					"volumeMounts":  []any{map[string]any{"name": "scratch", "mountPath": "/tmp"}},
					"livenessProbe": map[string]any{"httpGet": map[string]any{"port": "http"}},
					"resources":     map[string]any{"requests": map[string]any{"cpu": "10m"}},
				},
			},
		},
	}
}

// set puts a value at a dotted path; digits index lists; nil removes.
func set(tree map[string]any, path string, value any) map[string]any {
	var at any = tree
	parts := strings.Split(path, ".")
	for i, part := range parts {
		last := i == len(parts)-1
		switch node := at.(type) {
		case map[string]any:
			switch {
			case last && value == nil:
				delete(node, part)
			case last:
				node[part] = value
			default:
				if node[part] == nil {
					node[part] = map[string]any{}
				}
				at = node[part]
			}
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil {
				panic("no index: " + path)
			}
			if last {
				node[n] = value
			}
			at = node[n]
		default:
			panic("no way to " + path)
		}
	}
	return tree
}

func encode(t testing.TB, tree any) []byte {
	t.Helper()
	return check.Value(yaml.Marshal(tree))(t)
}

func decodeOne(t testing.TB, tree any, source Source) *v1.Pod {
	t.Helper()
	d := Decode(encode(t, tree), source, nodeA, noon)
	if len(d.Problems) > 0 {
		t.Fatalf("problems: %v", d.Problems)
	}
	if len(d.Pods) != 1 {
		t.Fatalf("%d pods", len(d.Pods))
	}
	return d.Pods[0]
}

func TestDecodeDefaults(t *testing.T) {
	pod := decodeOne(t, set(base(), "spec.hostNetwork", true), fromFile)
	c := pod.Spec.Containers[0]
	probe := c.LivenessProbe
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"name", pod.Name, "web-node-a"},
		{"namespace", pod.Namespace, "default"},
		{"nodeName", pod.Spec.NodeName, "Node-A"},
		{"phase", pod.Status.Phase, v1.PodPending},
		{"source", pod.Annotations[podspec.AnnotationSource], "file"},
		{"hash", pod.Annotations[podspec.AnnotationHash], string(pod.UID)},
		{"seen", pod.Annotations[podspec.AnnotationSeen], "2026-01-02T12:00:00Z"},
		{"label", pod.Labels["app"], "web"},
		{"restartPolicy", pod.Spec.RestartPolicy, v1.RestartPolicyAlways},
		{"dnsPolicy", pod.Spec.DNSPolicy, v1.DNSClusterFirst},
		{"schedulerName", pod.Spec.SchedulerName, "default-scheduler"},
		{"grace", *pod.Spec.TerminationGracePeriodSeconds, int64(30)},
		{"enableServiceLinks", *pod.Spec.EnableServiceLinks, true},
		{"securityContext", pod.Spec.SecurityContext != nil, true},
		{"toleration", pod.Spec.Tolerations[0], v1.Toleration{Operator: "Exists", Effect: "NoExecute"}},
		{"emptyDir", pod.Spec.Volumes[0].EmptyDir != nil, true},
		{"hostPath.type", *pod.Spec.Volumes[1].HostPath.Type, v1.HostPathUnset},
		{"imagePullPolicy", c.ImagePullPolicy, v1.PullIfNotPresent},
		{"terminationMessagePath", c.TerminationMessagePath, "/dev/termination-log"},
		{"terminationMessagePolicy", c.TerminationMessagePolicy, v1.TerminationMessageReadFile},
		{"protocol", c.Ports[0].Protocol, v1.ProtocolTCP},
		{"hostPort", c.Ports[0].HostPort, int32(80)},
		{"timeout", probe.TimeoutSeconds, int32(1)},
		{"period", probe.PeriodSeconds, int32(10)},
		{"success", probe.SuccessThreshold, int32(1)},
		{"failure", probe.FailureThreshold, int32(3)},
		{"httpGet.path", probe.HTTPGet.Path, "/"},
		{"httpGet.scheme", probe.HTTPGet.Scheme, v1.URISchemeHTTP},
	} {
		if check.got != check.want {
			t.Errorf("%s is %v, want %v", check.what, check.got, check.want)
		}
	}
}

func TestDecodeFromURLHasNoToleration(t *testing.T) {
	pod := decodeOne(t, base(), fromURL)
	if len(pod.Spec.Tolerations) != 0 || pod.Annotations[podspec.AnnotationSource] != "http" {
		t.Errorf("tolerations %v, source %q", pod.Spec.Tolerations, pod.Annotations[podspec.AnnotationSource])
	}
}

func TestResourceDefaults(t *testing.T) {
	tree := set(base(), "spec.containers.0.resources", map[string]any{"limits": map[string]any{"cpu": "1.0005", "memory": "64Mi"}, "requests": map[string]any{"cpu": "100m"}})
	set(tree, "spec.resources", map[string]any{"limits": map[string]any{"cpu": 2, "memory": "128Mi"}})
	pod := decodeOne(t, tree, fromFile)
	r := pod.Spec.Containers[0].Resources
	for _, check := range []struct {
		what, got, want string
	}{
		{"cpu limit, rounded up to the milli scale", r.Limits.Cpu().String(), "1001m"},
		{"cpu request as given", r.Requests.Cpu().String(), "100m"},
		{"memory request from the limit", r.Requests.Memory().String(), "64Mi"},
		{"pod cpu request from its containers", pod.Spec.Resources.Requests.Cpu().String(), "100m"},
		{"pod memory request from its containers", pod.Spec.Resources.Requests.Memory().String(), "64Mi"},
	} {
		if check.got != check.want {
			t.Errorf("%s is %s, want %s", check.what, check.got, check.want)
		}
	}
}

func TestLists(t *testing.T) {
	second := set(base(), "metadata.name", "other")
	list := func(kind string, items ...any) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
	}
	for _, kind := range []string{"PodList", "List"} {
		d := Decode(encode(t, list(kind, base(), second)), fromURL, nodeA, noon)
		if len(d.Problems) > 0 || len(d.Pods) != 2 {
			t.Errorf("%s: %d pods, problems %v", kind, len(d.Pods), d.Problems)
		}
	}
	bare := set(set(base(), "kind", nil), "apiVersion", nil)
	cases := map[string]struct {
		tree   any
		source Source
		want   string
	}{
		"list in a file":       {list("PodList", base()), fromFile, `kind: "PodList": a file holds one Pod`},
		"other kind in a list": {list("List", base(), map[string]any{"kind": "Service", "apiVersion": "v1"}), fromURL, `items[1].kind: "Service": only v1 Pod`},
		"one bad pod":          {list("PodList", base(), set(second, "spec.containers.0.image", "")), fromURL, "items[1].spec.containers[0].image: must be given"},
		"no list":              {map[string]any{"apiVersion": "v1", "kind": "PodList", "items": 1}, fromURL, "items: 1: must be a list"},
		"bare item in List":    {list("List", bare), fromURL, "items[0].kind: null: only v1 Pod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := Decode(encode(t, c.tree), c.source, nodeA, noon)
			wantProblem(t, d, c.want)
		})
	}
	if d := Decode(encode(t, list("PodList", bare)), fromURL, nodeA, noon); len(d.Problems) > 0 {
		t.Errorf("an item of a PodList need not repeat its kind: %v", d.Problems)
	}
	if d := Decode(encode(t, list("PodList")), fromURL, nodeA, noon); len(d.Problems) > 0 || len(d.Pods) != 0 {
		t.Errorf("an empty list is no pods and no problem: %v", d)
	}
}

func wantProblem(t *testing.T, d Decoded, want string) {
	t.Helper()
	if len(d.Pods) != 0 {
		t.Errorf("%d pods in spite of problems", len(d.Pods))
	}
	for _, p := range d.Problems {
		if p.Source == "" || p.Message == "" {
			t.Errorf("problem without source or message: %+v", p)
		}
		if strings.Contains(p.Error(), want) {
			return
		}
	}
	t.Errorf("want a problem with\n%s\ngot\n%v", want, d.Problems)
}

func TestTooLargeIsNotDecoded(t *testing.T) {
	wantProblem(t, Decode(make([]byte, MaxSize+1), fromFile, nodeA, noon), "/etc/pods/web.yaml: 10485761 bytes long; the limit of a manifest is 10 MiB")
}

func TestProblemsAreBounded(t *testing.T) {
	tree := base()
	for i := range 100 {
		set(tree, fmt.Sprintf("spec.nope%d", i), 1)
	}
	d := Decode(encode(t, tree), fromFile, nodeA, noon)
	if len(d.Ignored) != maxProblems+1 {
		t.Errorf("%d are ignored", len(d.Ignored))
	}
	for i := range 100 {
		set(tree, fmt.Sprintf("metadata.labels.not valid %d", i), "x")
	}
	d = Decode(encode(t, tree), fromFile, nodeA, noon)
	if len(d.Problems) != maxProblems+1 || d.Ignored != nil {
		t.Errorf("%d problems, %d are ignored", len(d.Problems), len(d.Ignored))
	}
}

// TestIgnored: a manifest that a kubelet runs without a part of it runs here, is named, and the UID is that of
// the manifest without that part.
func TestIgnored(t *testing.T) {
	plain := string(encode(t, base()))
	whole := decodeOne(t, base(), fromFile)
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":               {plain, nil},
		"a field":               {plain + "nope: 1\n", []string{"/etc/pods/web.yaml: nope: unknown field"}},
		"a mistyped field":      {strings.Replace(plain, "image:", "imagee: {a: [b]}\n    image:", 1), []string{"imagee: unknown field: did you mean image?"}},
		"a field in wrong case": {strings.Replace(plain, "spec:\n", "spec:\n  HostNetwork: true\n", 1), []string{"spec.HostNetwork: unknown field: did you mean hostNetwork?"}},
		"a key twice":           {strings.Replace(plain, "kind: Pod\n", "kind: Deployment\nkind: Pod\n", 1), []string{"kind: given twice"}},
		"a second document":     {plain + "---\n!! rubbish: [\n", []string{"2 YAML documents found"}},
		"all of it":             {plain + "nope: 1\nnope: 2\n---\na: 1\n", []string{"2 YAML documents found", "nope: given twice", "nope: unknown field"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decode([]byte(c.text), fromFile, nodeA, noon)
			if len(d.Problems) > 0 || len(d.Pods) != 1 || len(d.Ignored) != len(c.want) {
				t.Fatalf("%d pods, problems %v, ignored %v", len(d.Pods), d.Problems, d.Ignored)
			}
			for i, want := range c.want {
				if !strings.Contains(d.Ignored[i].Error(), want) {
					t.Errorf("%s, want %s", d.Ignored[i].Error(), want)
				}
			}
			if !equality.Semantic.DeepEqual(d.Pods[0], whole) {
				t.Errorf("another pod: %v", d.Pods[0])
			}
		})
	}
	twice := `{"apiVersion":"v1","kind":"PodList","nope":1,"items":[{"metadata":{"name":"a","name":"b"},"spec":{"nope":1,"containers":[{"name":"c","image":"i"}]}}]}`
	d := Decode([]byte(twice), fromURL, nodeA, noon)
	if len(d.Problems) > 0 || len(d.Pods) != 1 || d.Pods[0].Name != "b-node-a" || len(d.Ignored) != 3 {
		t.Errorf("JSON: pods %v, problems %v, ignored %v", d.Pods, d.Problems, d.Ignored)
	}
}

func TestIdentity(t *testing.T) {
	first := decodeOne(t, base(), fromFile)
	if !safeUID.MatchString(string(first.UID)) || len(first.UID) != 36 {
		t.Errorf("UID %q", first.UID)
	}
	// The UID may never change between versions of the agent: every static
	// pod of every node would be replaced.
	if want := "d436d459-d310-5fcc-9ebd-95e69af79b54"; string(first.UID) != want {
		t.Errorf("UID of the base manifest is %s, was %s", first.UID, want)
	}
	same := map[string][]byte{
		"json":    []byte(`{"kind":"Pod",` + strings.TrimPrefix(string(mustJSON(t, set(base(), "kind", nil))), "{")),
		"comment": append([]byte("# hello\n---\n"), encode(t, base())...),
		"null":    encode(t, set(base(), "metadata.annotations", any(map[string]any(nil)))),
	}
	for _, name := range slices.Sorted(maps.Keys(same)) {
		d := Decode(same[name], fromFile, nodeA, noon.Add(time.Hour))
		if len(d.Problems) > 0 || d.Pods[0].UID != first.UID {
			t.Errorf("%s: another UID, problems %v", name, d.Problems)
		}
	}
	seen := map[string]string{string(first.UID): "base"}
	other := func(name string, d Decoded) {
		if len(d.Problems) > 0 {
			t.Fatal(d.Problems)
		}
		uid := string(d.Pods[0].UID)
		if with, taken := seen[uid]; taken {
			t.Errorf("%s has the UID of %s", name, with)
		}
		seen[uid] = name
	}
	other("edit", Decode(encode(t, set(base(), "spec.containers.0.image", "web:v2")), fromFile, nodeA, noon))
	other("file", Decode(encode(t, base()), Source{podspec.File, "/etc/pods/b.yaml"}, nodeA, noon))
	other("kind", Decode(encode(t, base()), Source{podspec.HTTP, fromFile.Name}, nodeA, noon))
	other("node", Decode(encode(t, base()), fromFile, Node{"b"}, noon))
	own := decodeOne(t, set(base(), "metadata.uid", "my-own"), fromFile)
	if own.UID != "my-own" || own.Annotations[podspec.AnnotationHash] != "my-own" {
		t.Errorf("UID %s, hash %s", own.UID, own.Annotations[podspec.AnnotationHash])
	}
	if len(own.Annotations["troupe.dev/manifest"]) != 36 || first.Annotations["troupe.dev/manifest"] != "" {
		t.Errorf("content hashes %v, %v", own.Annotations, first.Annotations)
	}
}

func mustJSON(t *testing.T, tree any) []byte {
	t.Helper()
	return check.Value(yaml.YAMLToJSON(encode(t, tree)))(t)
}
