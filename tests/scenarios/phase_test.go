package scenarios

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPhaseInAnotherSandbox: the sandbox of a running pod dies, while the agent runs or is dead. While its
// init containers run in the next one, and between them, it is Pending; then it runs again.
func TestPhaseInAnotherSandbox(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pod  *spec
		want []v1.PodPhase
	}{
		{"init containers", emptyPod("web").init("one").init("two").script("one", "run-for", "5s").script("two", "run-for", "5s"),
			[]v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodRunning}},
		{"OnFailure", emptyPod("web").init("one").restarts(v1.RestartPolicyOnFailure), []v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodRunning}},
		{"a sidecar", emptyPod("web").sidecar("one").init("two"), []v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodRunning}},
		{"none", emptyPod("web"), []v1.PodPhase{v1.PodRunning}},
	} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, agent dead: %t", tc.name, dead), func(t *testing.T) {
				w, c := parallelCluster(t, 1)
				w.watch.restartsExpected = true
				c.create((&spec{*tc.pod.DeepCopy()}).main("app"))
				w.until(time.Minute, "it is up", func() bool { return c.ready("web") })
				var phases []v1.PodPhase
				c.see(port.PodKind, func(e simapi.Event) {
					if p := e.Object.(*v1.Pod).Status.Phase; len(phases) == 0 || phases[len(phases)-1] != p {
						phases = append(phases, p)
					}
				})
				box, _ := w.sandboxOf("web")
				if dead {
					w.kill()
				}
				check.Fatal(t, w.rt.EndSandbox(box.ID))
				if dead {
					w.start()
				}
				w.until(time.Minute, "it is down", func() bool { return !c.ready("web") })
				w.until(time.Minute, "it is up again", func() bool { return c.ready("web") })
				w.run(time.Minute)
				check.Same(t, phases, tc.want, "phases")
			})
		}
	}
}
