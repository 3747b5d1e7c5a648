package scenarios

import (
	"maps"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/tests/check"
)

// changeNode changes the object of the node, as a user does.
func (c *cluster) changeNode(f func(*v1.Node)) {
	c.w.t.Helper()
	from := c.node()
	to := from.DeepCopy()
	f(to)
	if _, err := c.api.Patch(port.APIPatch{Key: port.APIKey{Kind: port.NodeKind, Name: nodeName}, From: from, To: to}); err != nil {
		c.w.t.Fatal(err)
	}
	c.w.run(time.Second)
}

func zone(name string) func(*v1.Node) { return func(n *v1.Node) { n.Labels["zone"] = name } }

// zoned is a pod that may run only in zone b.
func zoned(name string) *spec {
	p := aPod(name)
	p.Spec.NodeSelector = map[string]string{"zone": "b"}
	return p
}

func cpus(name, n string) *spec {
	p := aPod(name)
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(n)}
	return p
}

// TestAdoptedBeforeTheNodeIsKnown: a pod that runs goes on while this node is not known, and when it is and has changed.
func TestAdoptedBeforeTheNodeIsKnown(t *testing.T) {
	w, c := parallelCluster(t, 1)
	c.changeNode(zone("b"))
	c.create(zoned("zoned"), aPod("plain"))
	w.until(time.Minute, "both are Ready", func() bool { return c.allReady("zoned", "plain") })
	for _, to := range []string{"b", "c"} {
		c.fault = refuseReads(simapi.List, simapi.Watch, simapi.Get)
		w.restart()
		c.changeNode(zone(to))
		w.run(time.Minute)
		if !c.ready("zoned") {
			w.failf("it was stopped before anybody knew where it runs")
		}
		c.fault = nil
		w.run(time.Minute)
		if !c.allReady("zoned", "plain") || c.restarts("zoned", "app") > 0 {
			w.failf("the node is in zone %s, and a pod that ran does not go on: %+v", to, c.get("zoned").Status)
		}
	}
}

// TestAdoptedWhateverTheNodeSays: at a restart of the agent, pods that run go on although a label of the node is gone, more
// of it is reserved than they leave, and it has a taint that they don't tolerate. What they use counts beside new pods.
// After a reboot they are judged as new ones.
func TestAdoptedWhateverTheNodeSays(t *testing.T) {
	t.Parallel()
	var room v1.ResourceList
	w, c := newClusterNode(t, 1, withConfig(func(c *agent.Config) { c.Admit.Allocatable = room }))
	has := func(cpus, pods string) {
		room = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus), v1.ResourcePods: resource.MustParse(pods)}
		now := *w.facts.Get()
		now.Allocatable = maps.Clone(now.Allocatable)
		maps.Copy(now.Allocatable, room)
		now.Capacity = now.Allocatable
		w.facts.Set(&now)
	}
	has("4", "10")
	w.restart()
	c.changeNode(zone("b"))
	c.create(zoned("zoned"), cpus("big", "3"), aPod("plain"))
	all := []string{"zoned", "big", "plain"}
	w.until(time.Minute, "all are Ready", func() bool { return c.allReady(all...) })
	has("2", "2")
	c.changeNode(func(n *v1.Node) {
		delete(n.Labels, "zone")
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "away", Effect: v1.TaintEffectNoExecute})
	})
	w.restart()
	w.run(time.Minute)
	if !c.allReady(all...) || c.restarts("zoned", "app")+c.restarts("big", "app")+c.restarts("plain", "app") > 0 {
		w.failf("pods that ran did not go on")
	}
	has("2", "10")
	w.restart()
	w.run(time.Minute)
	c.create(cpus("new", "1"))
	w.until(time.Minute, "there is no room", func() bool { return c.get("new").Status.Phase == v1.PodFailed })
	const full = "Pod was rejected: Node didn't have enough resource: cpu, requested: 1000, used: 3000, capacity: 2000"
	if s := c.get("new").Status; s.Message != full {
		w.failf("%+v", s)
	}
	c.changeNode(func(n *v1.Node) { n.Spec.Taints = nil })
	w.watch.restartsExpected = true
	w.node.PowerOff()
	w.run(10 * time.Second)
	w.node.PowerOn()
	w.until(2*time.Minute, "they are judged", func() bool {
		return c.get("zoned").Status.Phase == v1.PodFailed && c.get("big").Status.Phase == v1.PodFailed && c.ready("plain")
	})
	if s, big := c.get("zoned").Status, c.get("big").Status; s.Reason != "NodeAffinity" || big.Reason != "OutOfcpu" ||
		!strings.HasPrefix(big.Message, "Pod was rejected: ") {
		w.failf("%+v, %+v", s, big)
	}
	check.Count(t, len(w.eventsOf("big", "OutOfcpu")), 1, "%d events say why")
}
