package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubelet "k8s.io/kubelet/config/v1beta1"

	decide "github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// ownCPUs is how many CPUs containers can have alone on the machine of these tests: all but the system's.
const ownCPUs = 15

// withOwnCPUs is a node with the static policy, on a machine with two NUMA nodes of eight CPUs.
func withOwnCPUs() option { return func(s *setting) { s.spec.Assign = twoNUMANodes() } }

func twoNUMANodes() *decide.Config {
	m := &topology.Machine{Nodes: []topology.Node{{ID: 0}, {ID: 1}}}
	for id := range ownCPUs + 1 {
		m.CPUs = append(m.CPUs, topology.CPU{ID: id, Core: id / 2 * 2, Cache: id / 8 * 8, Socket: id / 8, Node: id / 8})
	}
	return &decide.Config{Machine: m, Static: true, ReservedMilli: 1000, Topology: kubelet.NoneTopologyManagerPolicy}
}

// needs has each container ask for so many CPUs, and be Guaranteed.
func (s *spec) needs(each string) *spec {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(each), v1.ResourceMemory: resource.MustParse("1Mi")}
	for c := range podspec.Lasting(&s.Spec) {
		c.Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	}
	return s
}

// checkAssigned compares, of a node at rest, the state files with what pods ask for and with what their containers have.
func (w *world) checkAssigned() {
	w.t.Helper()
	wrong := invariants.Assignments(w.rt, w.checkpoints, ownCPUs+1, func(ref observed.PodRef) *v1.Pod {
		p := w.watch.wanted[plainName(ref.Name)]
		if p == nil || w.pod(p.Name).UID != ref.UID {
			return nil
		}
		return &p.Pod
	})
	if wrong != "" {
		w.failf("%s", wrong)
	}
}

// checkHeld fails the test if a container runs on CPUs now that are not its own any more.
func (w *world) checkHeld(held *invariants.Held) {
	w.t.Helper()
	if wrong := held.Wrong(w.rt, w.checkpoints); wrong != "" {
		w.failf("%s", wrong)
	}
}

// TestExploreCPUs: pods with and without exclusive CPUs come and go, the agent is killed after any message, actors
// crash and calls fail. No CPU is lost or has two owners, and all containers run where the state says.
func TestExploreCPUs(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			// A call of a killed agent that takes effect after those of the next is not noticed: see docs/decisions/0048.
			h := newHavoc(t, seed, withOwnCPUs(), withLateEffects(0))
			h.trouble, h.panics = float64(seed%3)*0.05, float64(seed%4)*0.001
			held := invariants.Held{Fixed: true}
			had, free, n := map[string]int{}, ownCPUs, 0
			for range 60 {
				switch names := sorted(had); h.rng.IntN(5) {
				case 0, 1, 2:
					name, each := fmt.Sprint("p", n), h.rng.IntN(4)
					if n++; each > free {
						continue
					}
					s := aPod(name)
					if each > 0 {
						s.needs(fmt.Sprint(each))
					}
					had[name], free = each, free-each
					h.say("add %s with %d CPUs", name, each)
					h.add(s)
				case 3:
					if len(names) == 0 {
						continue
					}
					name := names[h.rng.IntN(len(names))]
					free += had[name]
					delete(had, name)
					h.say("drop %s", name)
					h.drop(name)
				case 4:
					h.say("kill")
					h.restart()
				}
				for range h.rng.IntN(400) {
					h.step(h.v.Now().Add(time.Second))
					h.checkHeld(&held)
				}
			}
			h.heal()
			h.checkAssigned()
			h.kill()
		})
	}
}
