package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestSameForOthers: other programs on a node find of a pod what they find with a kubelet: in the runtime, at the node's
// server, in the Node and in events. Each finding is a line without what differs from run to run.
//
//tier:all the kubelet runs beside
func TestSameForOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	found := map[string]map[string]bool{}
	t.Run("both", func(t *testing.T) {
		ports, manifests := map[string]int{}, map[string]string{}
		onBoth(t, "others", func(agent string) []string {
			port := check.Value(lab.FreePort())(t)
			mu.Lock()
			defer mu.Unlock()
			ports[agent], manifests[agent] = port, t.TempDir()
			// A field that does not exist keeps neither from starting.
			return []string{fmt.Sprintf("readOnlyPort: %d", port), "staticPodPath: " + manifests[agent], "noSuchSetting: 1"}
		}, func(t *testing.T, b *bed, kubelet bool) {
			agent := map[bool]string{true: "kubelet", false: "troupe"}[kubelet]
			mu.Lock()
			base, dir := fmt.Sprintf("http://127.0.0.1:%d", ports[agent]), manifests[agent]
			mu.Unlock()
			lines := b.seenByOthers(t, base, dir)
			mu.Lock()
			defer mu.Unlock()
			found[agent] = lines
		})
	})
	if len(found) != 2 {
		return // told already
	}
	for _, line := range slices.Sorted(maps.Keys(found["kubelet"])) {
		if !found["troupe"][line] && !slices.ContainsFunc(notSame, func(d difference) bool { return strings.HasPrefix(line, d.prefix) }) {
			t.Errorf("only with a kubelet: %s", line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(found["troupe"])) {
		if !found["kubelet"][line] && !slices.ContainsFunc(besides, func(d difference) bool { return strings.HasPrefix(line, d.prefix) }) {
			t.Errorf("only with troupe: %s", line)
		}
	}
	t.Logf("%d findings with a kubelet, %d with troupe", len(found["kubelet"]), len(found["troupe"]))
}

// difference is what is found with one of the two alone, and why that is right.
type difference struct{ prefix, why string }

// notSame is what is found with a kubelet alone.
var notSame = []difference{
	{"summary .node.cpu.usageNanoCores", "a rate needs two questions: nothing is read between them"},
	{"summary .node.systemContainers[].cpu", "the same; and cgroup v1 has no pressure of its own"},
	{"summary .node.systemContainers[].memory.psi", "cgroup v1 has none, and a kubelet says 0"},
	{"summary .node.systemContainers[].io", "cgroup v1 has none, and a kubelet says 0"},
	{"summary .pods[].cpu.psi", "cgroup v1 has none, and a kubelet says 0"},
	{"summary .pods[].memory.psi", "cgroup v1 has none, and a kubelet says 0"},
	{"summary .pods[].io", "cgroup v1 has none, and a kubelet says 0"},
	{"summary .pods[].containers[].io", "cgroup v1 has none, and a kubelet says a time"},
	{"summary .pods[].cpu.usageNanoCores", "a rate needs two questions"},
	{"summary .pods[].containers[].cpu.usageNanoCores", "a rate needs two questions"},
	{"summary .pods[].volume", "only volumes that can fill up are measured: not those of tokens"},
	{"summary .pods[].containers[].memory.availableBytes", "without a limit of the container there is no such value; containerd says 0"},
	{"summary .pods[].containers[].swap.swapAvailableBytes", "the same"},
	{"sandbox annotation of web kubernetes.io/config.seen", "a pod has no start time yet when its sandbox is made; /pods has it"},
	{"event Node Normal NodeAllocatableEnforced", "the settings of these tests enforce nothing, and a kubelet says so all the same"},
	{"event Node Warning CgroupV1", "the same event in other words"},
	{"event Node Warning InvalidDiskCapacity", "a kubelet says so before it knows its disks"},
	{"event Node Warning FreeDiskSpaceFailed", "the disk of this machine may be full for a while"},
	{"event Node Warning ImageGCFailed", "the same"},
	{"pods .items[].status.resources", "the API has it of pods with resources of their own"},
}

// besides is what is found with troupe alone.
var besides = []difference{
	{"container annotation of static io.kubernetes.container.type", "its own: whether it is an init container"},
	{"container annotation of web io.kubernetes.container.type", "the same"},
	{"container annotation of static troupe.dev/", "its own: the hash of the spec"},
	{"container annotation of web troupe.dev/", "the same"},
	{"event Node Warning CgroupV1", "the words are ours"},
	{"pods .items[].apiVersion", "a kubelet leaves out what kind of object each is"},
	{"pods .items[].kind", "the same"},
	{"pods .items[].metadata.managedFields[].subresource", "a kubelet shows the pod as it was before its own writes"},
	{"pods .items[].status.hostIP", "the same"},
	{"summary .pods[].", "a kubelet measures volumes once a minute, and the rest when it is time for it"},
}

// seenByOthers runs a pod of the apiserver and a static one, and looks.
func (b *bed) seenByOthers(t *testing.T, base, manifests string) map[string]bool {
	t.Helper()
	b.create(t, b.pod("web", func(s *v1.PodSpec) {
		s.Containers[0].Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 8080}, {ContainerPort: 53, Protocol: v1.ProtocolUDP}}
	}))
	// Two of its fields do not exist.
	static := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static", "namespace": %q},
		"spec": {"HostNetwork": true, "noSuchField": 1, "containers": [{"name": "app", "image": %q, "args": ["sleep"]}]}}`, b.name, lab.WorkImage)
	check.Fatal(t, os.WriteFile(filepath.Join(manifests, "static.json"), []byte(static), 0o644))
	b.awaitPod(t, "web", "is ready", ready)
	b.awaitPod(t, "static-"+b.name, "is ready", ready)
	b.await(t, "events say that both have started", func() error {
		list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Started"})
		if err == nil && len(list.Items) < 2 {
			err = fmt.Errorf("%d of them", len(list.Items))
		}
		return err
	})
	out := map[string]bool{}
	b.seenInRuntime(t, out)
	b.seenInAPI(t, out)
	b.await(t, "the summary has containers", func() error {
		var s stats.Summary
		check.OK(json.Unmarshal(fetch(t, http.DefaultClient, base+"/stats/summary", ""), &s))
		if s.Node.Network == nil {
			return errors.New("no network yet")
		}
		for _, i := range s.Node.Network.Interfaces {
			if strings.HasPrefix(i.Name, "veth") {
				t.Errorf("the node's figures have the end of a pod's network, %s", i.Name)
			}
		}
		if len(s.Pods) < 2 || len(s.Pods[0].Containers) == 0 || s.Pods[0].Containers[0].Rootfs == nil {
			return errors.New("not yet")
		}
		return nil
	})
	for what, path := range map[string]string{"summary": "/stats/summary", "pods": "/pods"} {
		var v any
		check.Fatal(t, json.Unmarshal(fetch(t, http.DefaultClient, base+path, ""), &v))
		fieldsOf(v, what+" ", out)
	}
	b.movesManifests(t, manifests)
	check.Fatal(t, os.Remove(filepath.Join(manifests, "static.json")))
	return out
}

// movesManifests moves the manifest directory away: its pod ends. When the directory is back, the pod is too.
func (b *bed) movesManifests(t *testing.T, manifests string) {
	t.Helper()
	aside := manifests + ".aside"
	check.Fatal(t, os.Rename(manifests, aside))
	b.awaitGone(t, "static-"+b.name)
	check.Fatal(t, os.Rename(aside, manifests))
	b.awaitPod(t, "static-"+b.name, "is ready again", ready)
}

// seenInRuntime are the names of labels and annotations of sandboxes and containers.
func (b *bed) seenInRuntime(t *testing.T, out map[string]bool) {
	t.Helper()
	w := b.world(t)
	add := func(what, pod string, of map[string]string) {
		for name := range of {
			out[fmt.Sprintf("%s of %s %s", what, strings.TrimSuffix(pod, "-"+b.name), name)] = true
		}
	}
	for _, s := range w.Sandboxes {
		add("sandbox label", s.Metadata.Name, s.Labels)
		add("sandbox annotation", s.Metadata.Name, s.Annotations)
		for _, p := range b.portsOf(t, s.Id) {
			out[fmt.Sprintf("sandbox port of %s %s", strings.TrimSuffix(s.Metadata.Name, "-"+b.name), p)] = true
		}
	}
	for _, c := range w.Containers {
		pod := c.Labels["io.kubernetes.pod.name"]
		add("container label", pod, c.Labels)
		add("container annotation", pod, c.Annotations)
		s := check.Value(b.lab.Runtime().ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.Id}))(t)
		for _, m := range s.Status.Mounts {
			out[fmt.Sprintf("container mount of %s %s", strings.TrimSuffix(pod, "-"+b.name), m.ContainerPath)] = true
		}
	}
}

// portsOf are the ports of a sandbox, as crictl inspectp shows them.
func (b *bed) portsOf(t *testing.T, sandbox string) (out []string) {
	t.Helper()
	s := check.Value(
		b.lab.Runtime().PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox, Verbose: true}))(t)
	var info struct {
		Config struct {
			Ports []map[string]any `json:"port_mappings"`
		} `json:"config"`
	}
	if err := json.Unmarshal([]byte(s.Info["info"]), &info); err != nil {
		t.Fatalf("%v: %s", err, s.Info)
	}
	for _, p := range info.Config.Ports {
		out = append(out, fmt.Sprint(p))
	}
	return out
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(ms|s)?`)

// seenInAPI is what programs read of the Node, and the texts of events, without their numbers.
func (b *bed) seenInAPI(t *testing.T, out map[string]bool) {
	t.Helper()
	n := b.node(t)
	out["runtime "+n.Status.NodeInfo.ContainerRuntimeVersion] = true
	for _, c := range n.Status.Conditions {
		out[fmt.Sprintf("condition %s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)] = true
	}
	for _, of := range []string{b.name, metav1.NamespaceDefault} {
		list := check.Value(b.admin.CoreV1().Events(of).List(t.Context(), metav1.ListOptions{}))(t)
		for i := range list.Items {
			e := &list.Items[i]
			// Whether an image was there is a matter of who was faster.
			pulled := e.Reason == "Pulling" || e.Reason == "Pulled" && !strings.Contains(e.Message, "Image size")
			if e.Source.Component != "kubelet" || e.Source.Host != b.name || pulled {
				continue
			}
			text := number.ReplaceAllString(strings.ReplaceAll(e.Message, b.name, "NODE"), "N")
			if e.Reason == "Pulled" {
				text = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(text, "IMAGE")
			}
			out[fmt.Sprintf("event %s %s %s %s: %s", e.InvolvedObject.Kind, e.Type, e.Reason, e.InvolvedObject.FieldPath, text)] = true
		}
	}
}

// fieldsOf are the paths of the fields of a JSON value, without the names that users give.
func fieldsOf(v any, path string, out map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			fieldsOf(below, path+"."+name, out)
		}
	case []any:
		for _, below := range v {
			fieldsOf(below, path+"[]", out)
		}
	default:
		out[path] = true
	}
}
