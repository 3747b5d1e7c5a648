package podgc

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// world is a runtime with one pod, u1, that lives, and one, u2, that doesn't.
type world struct {
	u1, u2 observed.Pod
	living map[types.UID]bool
	policy Policy
}

func (w *world) list() observed.Runtime {
	return observed.Runtime{Pods: []observed.RuntimePod{
		{Ref: observed.PodRef{UID: "u2", Name: "two"}, Pod: w.u2},
		{Ref: observed.PodRef{UID: "u1", Name: "one"}, Pod: w.u1},
	}}
}

func ctr(name string, attempt uint32, box string, state observed.ContainerState) observed.Container {
	return observed.Container{
		ID: fmt.Sprintf("%s%d", name, attempt), Name: name, Attempt: attempt, SandboxID: box, State: state,
		CreatedAt: noon.Add(-time.Hour + time.Duration(attempt)*time.Minute),
	}
}

func box(id string, attempt uint32, state observed.SandboxState) observed.Sandbox {
	return observed.Sandbox{ID: id, Attempt: attempt, State: state, CreatedAt: noon.Add(-time.Hour)}
}

func baseWorld() *world {
	return &world{
		living: map[types.UID]bool{"u1": true}, policy: Default(),
		u1: observed.Pod{
			Sandboxes: []observed.Sandbox{box("s1", 1, observed.SandboxReady), box("s0", 0, observed.SandboxNotReady)},
			Containers: []observed.Container{
				ctr("a", 0, "s0", observed.ContainerExited), ctr("a", 3, "s1", observed.ContainerRunning),
				ctr("a", 2, "s1", observed.ContainerExited), ctr("a", 1, "s1", observed.ContainerExited),
			},
		},
		u2: observed.Pod{
			Sandboxes:  []observed.Sandbox{box("t0", 0, observed.SandboxNotReady)},
			Containers: []observed.Container{ctr("b", 0, "t0", observed.ContainerExited)},
		},
	}
}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name   string
		mutate func(*world)
		want   string
	}{
		{"base", func(*world) {}, "a0 a1 b0 [s0] [t0]"},
		{"keep none", func(w *world) { w.policy.MaxPerPodContainer = 0 }, "a0 a1 a2 b0 [s0] [t0]"},
		{"keep two", func(w *world) { w.policy.MaxPerPodContainer = 2 }, "a0 b0 [s0] [t0]"},
		{"keep all", func(w *world) { w.policy.MaxPerPodContainer = -1 }, "b0 [t0]"},
		{"the newest is dead, and is the one kept", func(w *world) { w.u1.Containers[1].State = observed.ContainerExited }, "a0 a1 a2 b0 [s0] [t0]"},
		{"the newest is dead, keep none", func(w *world) {
			w.u1.Containers[1].State = observed.ContainerExited
			w.policy.MaxPerPodContainer = 0
		}, "a0 a1 a2 b0 [s0] [t0]"},
		{"too young", func(w *world) { w.policy.MinAge = time.Hour }, "b0 [t0]"},
		{"some too young", func(w *world) { w.policy.MinAge = 59 * time.Minute }, "a0 b0 [s0] [t0]"},
		{"an old one that runs", func(w *world) { w.u1.Containers[0].State = observed.ContainerRunning }, "a1 b0 [t0]"},
		{"lost by the runtime, its pod lives", func(w *world) { w.u1.Containers[0].State = observed.ContainerUnknown }, "a1 b0 [t0]"},
		{"made and replaced", func(w *world) { w.u1.Containers[0].State = observed.ContainerCreated }, "a0 a1 b0 [s0] [t0]"},
		{"made and about to start", func(w *world) { w.u1.Containers[1].State = observed.ContainerCreated }, "a0 a1 b0 [s0] [t0]"},
		{"gone pod: runs", func(w *world) { w.u2.Containers[0].State = observed.ContainerRunning }, "a0 a1 [s0]"},
		{"gone pod: lost by the runtime", func(w *world) { w.u2.Containers[0].State = observed.ContainerUnknown }, "a0 a1 b0 [s0] [t0]"},
		{"gone pod: lost by the runtime, sandbox ready", func(w *world) {
			w.u2.Containers[0].State = observed.ContainerUnknown
			w.u2.Sandboxes[0].State = observed.SandboxReady
		}, "a0 a1 [s0]"},
		{"gone pod: only made", func(w *world) { w.u2.Containers[0].State = observed.ContainerCreated }, "a0 a1 b0 [s0] [t0]"},
		{"gone pod: sandbox ready", func(w *world) { w.u2.Sandboxes[0].State = observed.SandboxReady }, "a0 a1 b0 [s0]"},
		{"gone pod: the newest waits for the others", func(w *world) {
			w.u2.Containers = append(w.u2.Containers, ctr("b", 2, "t0", observed.ContainerExited), ctr("b", 1, "t0", observed.ContainerExited),
				ctr("c", 0, "t0", observed.ContainerExited))
		}, "a0 a1 b0 b1 c0 [s0]"},
		{"gone pod: the newest waits for one that may not be removed", func(w *world) {
			w.u2.Containers[0].State = observed.ContainerRunning
			w.u2.Containers = append(w.u2.Containers, ctr("b", 1, "t0", observed.ContainerExited))
		}, "a0 a1 [s0]"},
		{"gone pod: the newest waits, whatever the total", func(w *world) {
			w.u2.Containers = append(w.u2.Containers, ctr("b", 1, "t0", observed.ContainerExited))
			w.policy.MaxContainers = 0
		}, "a0 a1 b0 a2 [s0]"},
		{"no pod lives", func(w *world) { w.living = nil }, "a0 a1 a2 b0 [s0] [t0]"},
		{"all live", func(w *world) { w.living["u2"] = true }, "a0 a1 [s0]"},
		{"newest sandbox is down", func(w *world) { w.u1.Sandboxes[0].State = observed.SandboxNotReady }, "a0 a1 b0 [s0] [t0]"},
		{"one in all", func(w *world) {
			w.policy = Policy{MaxPerPodContainer: -1, MaxContainers: 1}
		}, "b0 a0 a1 [s0] [t0]"},
		{"none in all", func(w *world) {
			w.policy = Policy{MaxPerPodContainer: -1, MaxContainers: 0}
		}, "b0 a0 a1 a2 [s0] [t0]"},
		{"an equal share", func(w *world) {
			w.living["u2"] = true
			w.u2.Containers = append(w.u2.Containers, ctr("b", 1, "t0", observed.ContainerExited), ctr("b", 2, "t0", observed.ContainerExited))
			w.policy = Policy{MaxPerPodContainer: -1, MaxContainers: 3}
		}, "a0 a1 b0 b1 [s0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := baseWorld()
			c.mutate(w)
			var got []string
			for _, r := range Plan(w.list(), w.living, w.policy, noon) {
				if r.Container {
					got = append(got, r.ID)
				} else {
					got = append(got, "["+r.ID+"]")
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

func drawRuntime(rt *rapid.T) observed.Runtime {
	var list observed.Runtime
	for p := range rapid.IntRange(0, 3).Draw(rt, "pods") {
		pod := observed.RuntimePod{Ref: observed.PodRef{UID: types.UID(fmt.Sprintf("u%d", p))}}
		boxes := rapid.IntRange(0, 3).Draw(rt, "sandboxes")
		for i := range boxes {
			pod.Sandboxes = append(pod.Sandboxes, observed.Sandbox{
				ID: fmt.Sprintf("s%d-%d", p, i), Attempt: uint32(i),
				State: rapid.SampledFrom([]observed.SandboxState{observed.SandboxReady, observed.SandboxNotReady}).Draw(rt, "state"),
			})
		}
		for i := range rapid.IntRange(0, 8).Draw(rt, "containers") {
			pod.Containers = append(pod.Containers, observed.Container{
				ID: fmt.Sprintf("c%d-%d", p, i), Name: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name"), Attempt: uint32(i),
				SandboxID: fmt.Sprintf("s%d-%d", p, rapid.IntRange(0, 3).Draw(rt, "in")),
				State:     observed.ContainerState(rapid.IntRange(int(observed.ContainerCreated), int(observed.ContainerUnknown)).Draw(rt, "state")),
				CreatedAt: noon.Add(-time.Duration(rapid.IntRange(0, 100).Draw(rt, "age")) * time.Second),
			})
		}
		list.Pods = append(list.Pods, pod)
	}
	return list
}

// TestNothingNeededGoes: no container that lives or is about to, no newest
// incarnation of a living pod's container, no sandbox that is ready or in use;
// and the plan doesn't depend on the order of the list, nor changes it.
func TestNothingNeededGoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := drawRuntime(rt)
		living := map[types.UID]bool{}
		for i := range list.Pods {
			living[list.Pods[i].Ref.UID] = rapid.Bool().Draw(rt, "lives")
		}
		policy := Policy{
			MaxPerPodContainer: rapid.IntRange(-1, 3).Draw(rt, "each"), MaxContainers: rapid.IntRange(-1, 6).Draw(rt, "all"),
			MinAge: time.Duration(rapid.IntRange(0, 60).Draw(rt, "age")) * time.Second,
		}
		plan := Plan(list, living, policy, noon)
		r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
		r.Shuffle(len(list.Pods), func(i, j int) { list.Pods[i], list.Pods[j] = list.Pods[j], list.Pods[i] })
		for i := range list.Pods {
			cs := list.Pods[i].Containers
			r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
		}
		before := fmt.Sprint(list)
		if again := Plan(list, living, policy, noon); !slices.Equal(plan, again) {
			rt.Fatalf("%v, in another order %v", plan, again)
		}
		if fmt.Sprint(list) != before {
			rt.Fatal("the list was changed")
		}
		gone := map[string]bool{}
		boxes := false
		for _, x := range plan {
			if gone[x.ID] {
				rt.Fatalf("%s twice", x.ID)
			}
			gone[x.ID] = true
			if x.Container && boxes {
				rt.Fatal("a container after a sandbox")
			}
			boxes = boxes || !x.Container
		}
		for i := range list.Pods {
			check(rt, &list.Pods[i], living[list.Pods[i].Ref.UID], gone)
		}
	})
}

func check(rt *rapid.T, p *observed.RuntimePod, lives bool, gone map[string]bool) {
	p.Sort()
	kept := map[string]bool{}
	for i := range p.Containers {
		c := &p.Containers[i]
		newest := i == 0 || p.Containers[i-1].Name != c.Name
		switch {
		case !gone[c.ID]:
			kept[c.SandboxID] = true
		case c.State == observed.ContainerRunning:
			rt.Fatalf("%s runs", c.ID)
		case lives && newest:
			rt.Fatalf("%s is the newest of a pod that lives", c.ID)
		case newest && i+1 < len(p.Containers) && p.Containers[i+1].Name == c.Name:
			rt.Fatalf("%s goes with or before older ones: its number could be used again", c.ID)
		case lives && c.State == observed.ContainerUnknown:
			rt.Fatalf("%s may run", c.ID)
		}
	}
	for i := range p.Sandboxes {
		s := &p.Sandboxes[i]
		switch {
		case !gone[s.ID]:
		case s.State == observed.SandboxReady:
			rt.Fatalf("%s is ready", s.ID)
		case kept[s.ID]:
			rt.Fatalf("%s is in use", s.ID)
		case lives && i == 0:
			rt.Fatalf("%s is the newest of a pod that lives", s.ID)
		}
	}
}
