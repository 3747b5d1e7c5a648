package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestAgentEnds shows that a killed agent, and one that is asked to end, disturb no pod, and that
// the next one goes on where it was: also with what changed in between.
//
//tier:real
func TestAgentEnds(t *testing.T) {
	onNewest(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		ends := map[string]func(*testing.T){
			"killed":     b.kill,
			"terminated": func(t *testing.T) { check.Error(t, b.Stop(t.Context())) },
		}
		for _, how := range []string{"killed", "terminated"} {
			keep, edit, gone, dies, late := "keep-"+how, "edit-"+how, "gone-"+how, "dies-"+how, "late-"+how
			for _, name := range []string{keep, edit, gone, dies} {
				b.apply(t, name+".yaml", restarts(name, "Always", "trap"))
			}
			before := map[string]Pod{}
			for _, name := range []string{keep, edit, gone, dies} {
				before[name] = b.awaitRunning(t, name)
				b.awaitLines(t, name, 1)
			}
			ran := b.look(t).RunningIDs()

			ends[how](t)
			if now := b.look(t).RunningIDs(); !slices.Equal(now, ran) {
				t.Errorf("%s: while no agent ran, what ran was\n%v\nbefore\n%v", how, now, ran)
			}
			b.apply(t, edit+".yaml", restarts(edit, "Always", "sleep")) // another program: another pod
			b.remove(t, gone+".yaml")
			b.apply(t, late+".yaml", restarts(late, "Always", "sleep"))
			b.killOne(t, dies)
			b.start(t)

			after := b.awaitRunning(t, keep)
			if !slices.EqualFunc(after.Containers, before[keep].Containers, sameContainer) || after.UID != before[keep].UID {
				t.Errorf("%s: the pod was %+v and is %+v", how, before[keep], after)
			}
			b.awaitLines(t, late, 1)
			b.awaitLines(t, edit, 2)
			b.awaitLines(t, dies, 2)
			b.awaitGone(t, gone, before[gone].UID)
			if p := b.awaitRunning(t, edit); p.UID == before[edit].UID {
				t.Errorf("%s: the edited pod is the old one", how)
			}
			b.awaitPod(t, dies, "was restarted once", func(p Pod) error {
				if p.Container("main").Restarts != 1 {
					return errors.New("it was not")
				}
				return p.Running()
			})
			check.Count(t, len(b.lines(keep)), 1, "%s: a program that nobody touched was started %d times", how)
			b.noneDoubled(t)
		}
	})
}

func sameContainer(a, b Container) bool {
	return a.Name == b.Name && a.ID == b.ID && a.Restarts == b.Restarts && a.State == b.State
}

// TestKilledAnywhere kills the agent again and again while pods come and go, at moments that
// nobody chose. In the end everything is as it should be, once.
//
//tier:real
func TestKilledAnywhere(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		const pods = 4
		for round := range 6 {
			begin := time.Now()
			for i := range pods {
				name := fmt.Sprintf("p%d", i)
				// Every round each pod is a new one; some rounds it is not wanted.
				if (round+i)%3 == 2 {
					if err := b.Remove(name + ".yaml"); err != nil && round > 0 {
						t.Log(err) // not there since the round before
					}
					continue
				}
				b.apply(t, name+".yaml", restarts(name, "Always", fmt.Sprintf("print, %q, then, sleep", fmt.Sprint("round", round))))
			}
			// The moment is given by how far the pods of this round are: their sandboxes, or none.
			b.await(t, "the agent is at work", func() error {
				fresh := 0
				for _, s := range b.look(t).Sandboxes {
					if s.CreatedAt > begin.UnixNano() {
						fresh++
					}
				}
				return check.That(fresh >= round%3, "it has not begun")
			})
			b.kill(t)
			b.start(t)
		}
		var wanted []string
		for i := range pods {
			name := fmt.Sprintf("p%d", i)
			if (5+i)%3 == 2 {
				continue
			}
			wanted = append(wanted, name)
			b.awaitRunning(t, name)
		}
		b.await(t, "what runs is what is wanted", func() error {
			world := b.look(t)
			if len(world.Ready()) != len(wanted) || len(world.Running()) != len(wanted) {
				return fmt.Errorf("wanted are %v; there is %w", wanted, world.Empty())
			}
			return nil
		})
		b.noneDoubled(t)
	})
}

// TestRuntimeRestarts shows that pods live through a runtime that is killed, and that what was to
// be done meanwhile is done when it is back.
//
//tier:real
func TestRuntimeRestarts(t *testing.T) {
	onEach(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		for _, name := range []string{"keep", "dies", "gone"} {
			b.apply(t, name+".yaml", restarts(name, "Always", "sleep"))
		}
		before := map[string]Pod{}
		for _, name := range []string{"keep", "dies", "gone"} {
			before[name] = b.awaitRunning(t, name)
			b.awaitLines(t, name, 1)
		}
		pid := check.Value(ContainerPID(t.Context(), b.lab, b.look(t).Of("dies").Running()[0].Id))(t)
		check.Fatal(t, b.lab.Kill(t.Context()))
		killPID(t, pid)
		b.remove(t, "gone.yaml")
		b.apply(t, "late.yaml", restarts("late", "Always", "sleep"))
		b.await(t, "the agent has seen the new manifest, or says that the runtime is down", func() error {
			view := check.Must(b.Pods(t.Context()))
			_, there := view.Pod("late")
			return check.That(there, "it has not")
		})
		check.Fatal(t, b.lab.Start(t.Context()))
		b.awaitLines(t, "late", 1)
		b.awaitLines(t, "dies", 2)
		b.awaitGone(t, "gone", before["gone"].UID)
		for _, name := range []string{"keep", "late", "dies"} {
			b.awaitRunning(t, name)
		}
		view := check.Value(b.Pods(t.Context()))(t)
		if p, _ := view.Pod("keep"); !slices.EqualFunc(p.Containers, before["keep"].Containers, sameContainer) {
			t.Errorf("a pod that nobody touched was %+v and is %+v", before["keep"], p)
		}
		b.noneDoubled(t)
	})
}

// TestPanickingPod shows that an actor that panics on every message costs no other pod anything.
//
//tier:real
func TestPanickingPod(t *testing.T) {
	t.Parallel()
	b := started(t, lab.Containerd2, func(c *Config) { c.Flags = []string{"--chaos-panic-pod", "default/sick"} })
	b.apply(t, "well.yaml", restarts("well", "Always", "sleep"))
	well := b.awaitRunning(t, "well")
	b.apply(t, "sick.yaml", restarts("sick", "Always", "sleep"))
	b.await(t, "the sick pod is quarantined", func() error {
		tree := check.Must(b.Tree(t.Context()))
		for _, a := range tree.Actors {
			if strings.Contains(strings.ToLower(a.Status), "quarantin") {
				return nil
			}
		}
		return fmt.Errorf("no actor is: %+v", tree.Actors)
	})
	b.awaitPod(t, "sick", "says what is wrong", func(p Pod) error { return check.That(p.Problem != "", "it does not") })
	b.apply(t, "new.yaml", restarts("new", "Always", "sleep"))
	b.awaitRunning(t, "new")
	b.remove(t, "new.yaml")
	b.await(t, "the new pod is gone", func() error { return b.look(t).Of("new").Empty() })
	if now := b.awaitRunning(t, "well"); !slices.EqualFunc(now.Containers, well.Containers, sameContainer) || now.Restarts != 0 {
		t.Errorf("another pod was %+v and is %+v", well, now)
	}
	// An agent without the fault finds the pod as any other.
	check.Error(t, b.Stop(t.Context()))
	b.SetFlags()
	b.start(t)
	b.awaitRunning(t, "sick")
	b.noneDoubled(t)
}
