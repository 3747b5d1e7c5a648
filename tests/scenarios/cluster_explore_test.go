package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
)

// clusterHavoc is a node with an apiserver that a lot happens to.
type clusterHavoc struct {
	*havoc
	c *cluster
}

func newClusterHavoc(t testing.TB, seed uint64) *clusterHavoc {
	bad := func(c *simapi.Config) {
		c.LateEffect = float64(seed%3) / 2
		c.WatchSkip = float64(seed%4) / 4
		if seed%5 == 0 {
			c.WatchBuffer, c.History = 3, 5
		}
	}
	h := &clusterHavoc{havoc: newHavoc(t, seed, withAPI(bad))}
	h.c, h.acts = h.cluster, h.act
	h.c.fault = func(call simapi.Call) simapi.Fault {
		if h.trouble == 0 || h.rng.Float64() > h.trouble {
			return simapi.Fault{}
		}
		n := h.rng.IntN(6)
		if call.Verb == simapi.List || call.Verb == simapi.Watch {
			n = max(n, 2) // nobody ends one that hangs: that is for a client to see to
		}
		switch n {
		case 0:
			return simapi.Fault{Hang: true}
		case 1:
			return simapi.Fault{LoseReply: true}
		case 2:
			return simapi.Fault{Fail: true, Kind: port.Conflict, Detail: "havoc"}
		case 3:
			return simapi.Fault{Fail: true, Kind: port.TooManyRequests, Detail: "havoc"}
		case 4:
			return simapi.Fault{Fail: true, Kind: port.Forbidden, Detail: "havoc"}
		default:
			return simapi.Fault{Fail: true, Kind: port.Unavailable, Detail: "havoc"}
		}
	}
	return h
}

// act does one thing to the apiserver or to the node.
func (h *clusterHavoc) act() {
	name := fmt.Sprintf("q-%d", h.rng.IntN(10))
	switch n := h.rng.IntN(26); {
	case n < 6:
		if h.c.get(name) == nil {
			h.say("create %s", name)
			s := h.anyPod(name)
			if h.rng.IntN(4) == 0 {
				s.restarts(v1.RestartPolicyNever).script("app", "run-for", "2s")
			}
			if h.rng.IntN(2) == 0 {
				h.sizes(&s.Spec, h.rng.IntN(4) == 0)
			}
			h.c.create(s)
		}
	case n < 10:
		if h.c.get(name) != nil {
			h.say("delete %s", name)
			h.c.delete(name, nil)
		}
	case n < 11:
		if h.c.get(name) != nil {
			h.say("force %s", name)
			h.c.delete(name, new(int64))
		}
	case n < 12:
		if p := h.c.get(name); p != nil {
			h.say("another's condition on %s", name)
			h.c.changeStatus(name, func(s *v1.PodStatus) {
				s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.PodConditionType(fmt.Sprintf("example.com/c%d", h.rng.IntN(1000))), Status: v1.ConditionTrue})
			})
		}
	case n >= 24:
		if p := h.c.get(name); p != nil && p.Spec.Containers[0].Resources.Requests != nil {
			h.say("resize %s", name)
			if _, err := h.c.api.ResizePod("default", name, func(s *v1.PodSpec) { h.sizes(s, s.Resources != nil) }); err != nil {
				h.failf("%v", err)
			}
		}
	case n < 13 && h.trouble > 0:
		link := []simapi.Link{simapi.Refused, simapi.Silent}[h.rng.IntN(2)]
		h.say("link %v", link)
		h.c.api.SetLink(nodeName, link)
		h.run(time.Duration(h.rng.IntN(90)) * time.Second)
		h.c.api.SetLink(nodeName, simapi.Up)
	case n < 14 && h.trouble > 0:
		h.say("expire")
		h.c.api.Expire()
		h.c.api.CloseWatches(nodeName)
	case n < 15 && h.trouble > 0:
		h.c.lag = time.Duration(h.rng.IntN(3000)) * time.Millisecond
		h.say("lag %v", h.c.lag)
	case n < 16 && h.trouble > 0:
		if h.c.node() != nil {
			h.say("delete the node")
			if err := h.c.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: nodeName}}); err != nil {
				h.failf("%v", err)
			}
		}
	case n < 17:
		if m := h.c.get(fmt.Sprintf("p-%d-%s", h.rng.IntN(12), nodeName)); m != nil {
			h.say("delete the mirror %s", m.Name)
			h.c.delete(m.Name, nil)
		}
	default:
		h.havoc.act()
	}
}

// sizes gives a pod's containers resources, and the pod as a whole if it is to be.
// Now and then it is more than there is room for, or than the node has.
func (h *clusterHavoc) sizes(s *v1.PodSpec, whole bool) {
	some := func() v1.ResourceRequirements {
		cpu := []string{"500m", "1", "2", "24", "70"}[h.rng.IntN(5)]
		return bounds(cpu, []string{"64Mi", "128Mi", "256Mi"}[h.rng.IntN(3)])
	}
	for i := range s.Containers {
		s.Containers[i].Resources = some()
	}
	if whole {
		s.Resources = new(some())
	}
}

// mend ends all trouble, and wants the node to be well within bounded time: what
// the apiserver has runs, or has ended; nothing else is there.
func (h *clusterHavoc) mend() {
	h.trouble, h.panics, h.c.lag = 0, 0, 0
	for _, name := range sorted(h.watch.wanted) {
		h.manifests.Write(name+".yaml", []byte(h.watch.wanted[name].yaml()))
	}
	h.revive()
	h.until(30*time.Minute, "all is well", func() bool { return h.c.well() == "" })
	h.run(6 * time.Minute)
	h.until(10*time.Minute, "all is well again", func() bool { return h.c.well() == "" })
	h.clusterQuiet()
}

// well says what is missing.
func (c *cluster) well() string {
	known := map[string]bool{}
	for _, p := range c.pods {
		switch {
		case p.DeletionTimestamp != nil:
			return p.Name + " is being deleted"
		case finished(p):
			known[string(p.UID)] = true
		case p.Status.Phase != v1.PodRunning || !isReady(p) && p.Spec.RestartPolicy != v1.RestartPolicyNever:
			return p.Name + " is not Ready"
		case isMirror(p) && c.w.watch.wanted[plainName(p.Name)] == nil:
			return p.Name + " is still there"
		case isMirror(p):
			known[p.Annotations["kubernetes.io/config.hash"]] = true
		default:
			known[string(p.UID)] = true
		}
	}
	for _, name := range sorted(c.w.watch.wanted) {
		if p := c.get(name + "-" + nodeName); p == nil {
			return name + " has no mirror"
		}
	}
	for _, rp := range c.w.rt.Truth().Runtime.Pods {
		if !known[string(rp.Ref.UID)] {
			return fmt.Sprintf("the runtime still has pod %s", rp.Ref)
		}
	}
	if n := c.w.host.Pods(); n > len(known) {
		return fmt.Sprintf("the host has directories of %d pods", n)
	}
	return ""
}

func troubledCluster(t testing.TB, seed uint64, trouble, panics float64) *clusterHavoc {
	h := newClusterHavoc(t, seed)
	h.trouble, h.panics = trouble, panics
	return h
}

func TestClusterExploreLife(t *testing.T)   { explore(t, 11000, 0, 0, troubledCluster) }
func TestClusterExploreFaults(t *testing.T) { explore(t, 12000, 0.05, 0, troubledCluster) }
func TestClusterExplorePanics(t *testing.T) { explore(t, 13000, 0, 0.002, troubledCluster) }
func TestClusterExploreAll(t *testing.T)    { explore(t, 14000, 0.05, 0.002, troubledCluster) }
