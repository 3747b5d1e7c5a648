package podplan

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestSidecarEndsAfterItWasFound: a list finds a sidecar running that an earlier agent or actor started, and
// before the answer arrives the sidecar ends. Its postStart hook did not end, which the list can't say. The
// main container is started all the same, as by a kubelet that was restarted, and the sidecar again.
func TestSidecarEndsAfterItWasFound(t *testing.T) {
	for _, tc := range []struct {
		name    string
		inherit bool
		held    func(Effect) bool
	}{
		{"the start is under way when the actor crashes", true, func(e Effect) bool {
			s, is := e.(StartContainer)
			return is && s.Name == "i"
		}},
		{"the hook is under way when the agent ends", false, func(e Effect) bool {
			_, is := e.(RunPostStart)
			return is
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			always := v1.ContainerRestartPolicyAlways
			pod := basePod()
			pod.Spec.InitContainers = []v1.Container{{
				Name: "i", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent, RestartPolicy: &always,
				Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 9}}},
			}}
			w := newWorld(pod, t.Fatalf)
			w.plan()
			held := w.runUntil(tc.held)
			if _, start := held.action.(StartContainer); start {
				w.apply(held, false)
			}
			w.restart(tc.inherit)
			w.settleSidecars()
			w.plan()
			w.apply(w.under(func(e Effect) bool { _, is := e.(ObservePod); return is }), false)
			w.exit(w.newest("i"), 137)
			w.calm()
			a, i := w.newest("a"), w.newest("i")
			if !a.lives() || a.Attempt != 0 || !i.lives() || i.Attempt != 1 || !i.hooked {
				t.Errorf("a: %+v, i: %+v", a, i)
			}
			if a.ID > i.ID {
				t.Errorf("a was made as %s, after i was made again as %s", a.ID, i.ID)
			}
		})
	}
}

// runUntil lets everything work until a call is asked for that is to be held, and gives that.
func (w *world) runUntil(held func(Effect) bool) *call {
	for range 20 {
		for _, c := range slices.Clone(w.calls) {
			if held(c.action) {
				return c
			}
			w.apply(c, false)
			w.deliver(c)
			w.settleSidecars()
			w.plan()
		}
		w.pullImages()
		w.answerVolumes(false)
		w.plan()
	}
	w.fail("the call is not asked for")
	return nil
}

// under is the first call under way that meets f.
func (w *world) under(f func(Effect) bool) *call {
	return w.calls[slices.IndexFunc(w.calls, func(c *call) bool { return f(c.action) })]
}
