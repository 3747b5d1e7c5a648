package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/assign"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/cpustate"
	"github.com/troupe-dev/troupe/actors/decide/machine"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/placement"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// ownCPUs is how many CPUs containers can have alone on the machine of these tests: all but the system's.
const ownCPUs = 15

// withOwnCPUs is a node with the static policy, on a machine with two NUMA nodes of eight CPUs.
func withOwnCPUs() option { return func(s *setting) { s.spec.Assign = twoNUMANodes() } }

func twoNUMANodes() *assign.Config {
	m := &machine.Topology{Nodes: []machine.Node{{ID: 0}, {ID: 1}}}
	for id := range ownCPUs + 1 {
		m.CPUs = append(m.CPUs, machine.CPU{ID: id, Core: id / 2 * 2, Cache: id / 8 * 8, Socket: id / 8, Node: id / 8})
	}
	return &assign.Config{Machine: m, Static: true, ReservedMilli: 1000, Topology: kubelet.NoneTopologyManagerPolicy}
}

// needs has each container ask for so many CPUs, and be Guaranteed.
func (s *spec) needs(each string) *spec {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(each), v1.ResourceMemory: resource.MustParse("1Mi")}
	for c := range podspec.Lasting(&s.Spec) {
		c.Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	}
	return s
}

// checkCPUs compares, of a node at rest, the state file with what pods ask for and with where their containers run.
func (w *world) checkCPUs() {
	w.t.Helper()
	state, err := cpustate.Parse(w.checkpoints.Get(cpustate.Name))
	if err != nil {
		w.failf("%s: %v", cpustate.Name, err)
	}
	taken := cpuset.New()
	living := map[types.UID]bool{}
	for _, rp := range w.rt.Truth().Runtime.Pods {
		p := w.watch.wanted[plainName(rp.Ref.Name)]
		if p == nil || w.pod(p.Name).UID != rp.Ref.UID {
			continue // what is left of one that is gone
		}
		uid := rp.Ref.UID
		living[uid] = true
		for c := range podspec.Lasting(&p.Spec) {
			own, want := state.Own[uid][c.Name], cpus.Exclusive(&p.Pod, c, false)
			if own.Size() != want {
				w.failf("%s/%s has CPUs %s, and asks for %d", p.Name, c.Name, own, want)
			}
			if twice := taken.Intersection(own); !twice.IsEmpty() {
				w.failf("%s/%s has CPUs %s, which another container has too", p.Name, c.Name, twice)
			}
			taken = taken.Union(own)
			at := placement.Container{CPUs: own.String()}
			if want == 0 {
				at.CPUs = state.Shared.String()
			}
			n, has := rp.Newest(c.Name)
			if got := w.rt.Placement(n.ID); has && n.State == observed.ContainerRunning && got != at {
				w.failf("%s/%s runs on %v, and should on %v", p.Name, c.Name, got, at)
			}
		}
	}
	for uid := range state.Own { // order-free: any is an error
		if !living[uid] {
			w.failf("pod %s is gone, and has CPUs %v", uid, state.Own[uid])
		}
	}
	if all := taken.Union(state.Shared).Size(); all != ownCPUs+1 || !taken.Intersection(state.Shared).IsEmpty() {
		w.failf("shared are %s, and taken %s", state.Shared, taken)
	}
}

// TestExploreCPUs: pods with and without CPUs of their own come and go, the agent is killed after any message, actors
// crash and calls fail. No CPU is lost or has two owners, and all containers run where the state says.
func TestExploreCPUs(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 1, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			// A call of a killed agent that takes effect after those of the next is not noticed: see docs/decisions/0048.
			h := newHavoc(t, seed, withOwnCPUs(), withLateEffects(0))
			h.trouble, h.panics = float64(seed%3)*0.05, float64(seed%4)*0.001
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
				}
			}
			h.heal()
			h.checkCPUs()
			h.kill()
		})
	}
}
