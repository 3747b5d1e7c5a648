package scenarios

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu v1.ResourceName = "nvidia.com/gpu"

// asks has the container app ask for so many of an extended resource.
func (s *spec) asks(name v1.ResourceName, n string) *spec {
	list := v1.ResourceList{name: resource.MustParse(n)}
	s.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	return s
}

// advertise patches the status of the Node, as a device plugin's kubelet or an operator does.
func (c *cluster) advertise(name v1.ResourceName, n string) {
	c.w.t.Helper()
	from := c.node()
	to := from.DeepCopy()
	to.Status.Capacity, to.Status.Allocatable = maps.Clone(to.Status.Capacity), maps.Clone(to.Status.Allocatable)
	to.Status.Capacity[name], to.Status.Allocatable[name] = resource.MustParse(n), resource.MustParse(n)
	key := port.APIKey{Kind: port.NodeKind, Name: nodeName}
	if _, err := c.api.Patch(port.APIPatch{Key: key, From: from, To: to, Status: true}); err != nil {
		c.w.failf("%v", err)
	}
}

// advertised is what the Node shows of a resource, -1 for nothing.
func (c *cluster) advertised(name v1.ResourceName) int64 {
	s := &c.node().Status
	q, is := s.Capacity[name]
	a := s.Allocatable[name]
	if !is || q.Cmp(a) != 0 {
		return -1
	}
	return q.Value()
}

// rejected waits until a pod was refused, and holds why against want.
func (c *cluster) rejected(name, reason string, words ...string) {
	c.w.t.Helper()
	c.w.until(10*time.Second, name+" is refused", func() bool { return finished(c.get(name)) })
	s := &c.get(name).Status
	if s.Phase != v1.PodFailed || s.Reason != reason {
		c.w.failf("%s: %s %s: %s", name, s.Phase, s.Reason, s.Message)
	}
	for _, word := range words {
		if !strings.Contains(s.Message, word) {
			c.w.failf("%s: the message does not have %s: %s", name, word, s.Message)
		}
	}
	if c.w.truthOf(name).Sandboxes != nil {
		c.w.failf("%s was started", name)
	}
}

// TestChangeoverWithDevices: the kubelet of a node with GPUs is replaced. The GPUs are advertised no more, no new pod
// starts without the one that it asks for, and what runs keeps running. A container of it that ends is not started
// without its GPU.
func TestChangeoverWithDevices(t *testing.T) {
	t.Parallel()
	left := check.Value(os.ReadFile("../../actors/decide/devicestate/testdata/kubelet-1.36.json"))(t)
	var devices *devicestate.State // the first agent plays the kubelet
	w, c := newClusterNode(t, 7, withConfig(func(a *agent.Config) { a.Devices = devices }))
	c.advertise(gpu, "8")
	c.advertise("example.com/dongle", "3")
	c.create(aPod("trains").asks(gpu, "1"), aPod("draws"))
	w.until(time.Minute, "what the kubelet started is Ready", func() bool { return c.allReady("trains", "draws") })
	c.changeStatus("draws", func(s *v1.PodStatus) {
		s.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{
			ResourceClaimName: "draws-x",
			RequestMappings:   []v1.ContainerExtendedResourceRequest{{ContainerName: "app", ResourceName: "example.com/screen"}},
		}
	})
	before := w.mainID("trains") + w.mainID("draws")
	w.kill()
	devices = check.Value(devicestate.Parse(left))(t)
	claims := aPod("claims")
	claims.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("shared")}}
	c.create(aPod("late").asks(gpu, "1"), claims, aPod("plugged").asks("example.com/dongle", "2"))
	seen := len(c.nodes)
	w.start()
	w.until(10*time.Second, "the node's status is written", func() bool { return len(c.nodes) > seen })
	check.Count(t, c.advertised(gpu), 0, "the first write advertises %d GPUs")
	check.Count(t, c.advertised("example.com/dongle"), 3, "%d of what an operator added")
	c.rejected("late", "UnexpectedAdmissionError", `container "app"`, "resources.limits[nvidia.com/gpu]", "no device plugin serves it")
	c.rejected("claims", "UnexpectedAdmissionError", "spec.resourceClaims[0]", `claim "gpu"`, `ResourceClaim "shared"`)
	w.until(time.Minute, "a pod with an operator's resource is Ready", func() bool { return c.ready("plugged") })
	c.create(aPod("greedy").asks("example.com/dongle", "2"))
	c.rejected("greedy", "OutOfexample.com/dongle", "requested: 2, used: 2, capacity: 3")
	w.run(3 * time.Minute)
	w.restart()
	w.run(3 * time.Minute)
	if after := w.mainID("trains") + w.mainID("draws"); after != before || !c.allReady("trains", "draws") {
		t.Errorf("what ran was touched: %s, then %s", before, after)
	}
	for name, words := range map[string][]string{
		"trains": {`container "app"`, "resources.limits[nvidia.com/gpu]"}, "draws": {"example.com/screen", `ResourceClaim "draws-x"`},
	} {
		w.end(name, "app", 1)
		w.until(time.Minute, name+" says why its container does not start again", func() bool {
			for _, s := range c.get(name).Status.ContainerStatuses {
				if wait := s.State.Waiting; wait != nil && wait.Reason == "CreateContainerConfigError" {
					return containsAll(wait.Message, words...)
				}
			}
			return false
		})
		if n := len(w.truthOf(name).Containers); n > 1 {
			t.Errorf("%s has %d containers", name, n)
		}
	}
}

func containsAll(s string, words ...string) bool {
	for _, word := range words {
		if !strings.Contains(s, word) {
			return false
		}
	}
	return true
}

// TestDevicesUnknown: the kubelet's checkpoint is gone or damaged, so nobody knows which resources of the Node were
// those of device plugins. All are set to 0, once: what an operator adds afterwards stays, also when the agent is
// restarted. Another damage counts as another loss.
func TestDevicesUnknown(t *testing.T) {
	t.Parallel()
	devices := devicestate.Unknown("none")
	w, c := newClusterNode(t, 8, withConfig(func(a *agent.Config) { a.Devices = devices }))
	c.advertise(gpu, "8")
	w.run(time.Minute)
	if n := c.advertised(gpu); n != 8 {
		t.Fatalf("%d: the Node is new, nobody else has advertised anything before", n)
	}
	c.create(aPod("trains").asks(gpu, "1"))
	w.until(time.Minute, "it is Ready", func() bool { return c.ready("trains") })
	w.restart()
	w.run(time.Minute)
	if n := c.advertised(gpu); n != 8 || !c.ready("trains") {
		t.Fatalf("%d after a restart", n)
	}
	before := w.mainID("trains")
	w.kill()
	devices = devicestate.Unknown("damaged:1")
	c.create(aPod("late").asks(gpu, "1"))
	seen := len(c.nodes)
	w.start()
	w.until(10*time.Second, "the node's status is written", func() bool { return len(c.nodes) > seen })
	check.Count(t, c.advertised(gpu), 0, "the first write advertises %d GPUs")
	c.rejected("late", "OutOfnvidia.com/gpu", "requested: 1, used: 1, capacity: 0")
	w.run(time.Second)
	c.advertise("example.com/dongle", "2")
	for range 3 {
		w.run(time.Minute)
		if g, d := c.advertised(gpu), c.advertised("example.com/dongle"); g != 0 || d != 2 {
			t.Fatalf("%d GPUs, %d dongles", g, d)
		}
		w.restart()
	}
	w.run(time.Minute)
	if after := w.mainID("trains"); after != before || !c.ready("trains") {
		t.Errorf("what ran was touched: %s, then %s", before, after)
	}
}
