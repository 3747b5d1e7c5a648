package live

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/live"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

var shared = lab.Shared{Name: "live"}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// cases hold in both worlds, and end the same. Those that delete a pod as soon as it is Ready have a readiness probe:
// until its program has begun, a container in the real world does not notice a stop signal.
var cases = []string{
	"create a main=app ready=app; on a Ready: delete a",
	"create a main=app restart=Never app.run-for=1s app.exit-code=0; on a Succeeded: delete a",
	"create a main=app; on a Ready: exit a/app code=3; on a/app Ended +1s: kill-agent; on a Ready +1s: delete a",
	"create a main=app restart=Never; on a Ready: oom a/app; on a Failed: delete a",
	"create a init=setup main=app; on a Ready: kill-agent for=1s; delete a",
	"create a main=app; on a Ready: pause-agent for=2s; delete a",
	"create a main=app; on a Ready: cut-off for=2s; delete a",
	"write a main=app volume=data; on a Ready: remove a",
	"create a main=app restart=OnFailure app.term-exit-code=0; on a Ready: image a/app to=registry.test/app:2; " +
		"on a/app Ended +2s: delete a",
	"create a main=app ready=app; fault call StartContainer a/app #1 = fail; on a Ready: delete a",
	"create a main=app ready=app; fault call StopContainer a/app #1 = answer-late 1s; on a Ready: delete a",
	"create a main=app ready=app; fault call CreateContainer a/app #1 = kill; on a Ready: delete a",
	"create a main=app ready=app; fault call RunPodSandbox a #1 = work-late 1s; on a Ready: delete a",
	"create a main=app ready=app; fault api Patch-Pod-status a #2 = fail; fault api Delete-Pod a #1 = slow 1s; on a Ready: delete a",
	"create a main=app ready=app; fault event started a #2 = drop; fault event stopped a #1 = delay 2s; on a Ready: delete a",
}

// TestBothWorlds: cases hold in the simulator and on a real node, and their pods end the same.
//
//tier:real
func TestBothWorlds(t *testing.T) {
	s := session(t)
	for _, text := range cases {
		c := check.Value(plan.Parse(text))(t)
		begin := time.Now()
		r, err := s.Run(t.Context(), c)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		check.Equal(t, r.Verdict(), chaos.Held, "%s: %s %v %v", text, r.Verdict(), r.Violations, r.Unreached)
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), text)
	}
}

// session is one on a node of its own. What it leaves fails the test.
func session(t *testing.T) *live.Session {
	t.Helper()
	lab.Need(t, append(lab.Containerd2.Needs(), lab.Busybox)...)
	plane := lab.ForControlPlaneTest(t, lab.ControlPlaneConfig{ControllerManager: true})
	binary := check.Value(shared.Troupe())(t)
	registry := check.Value(shared.Registry())(t)
	ctx, cancel := context.WithTimeout(t.Context(), lab.BuildTime)
	defer cancel()
	bed := check.Value(
		New(ctx, Config{Dir: shared.Dir, Name: "live", Binary: binary, Plane: plane, Registry: registry, Log: t.Output()}))(t)
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(shared.Dir, "agent.log"))
			t.Logf("the end of the agent's log:\n%s", text[max(0, len(text)-6000):])
		}
		check.Error(t, bed.Close())
	})
	bed.Chaos.Settle = time.Second // each case ends with nothing that could still change
	s := check.Value(live.Start(ctx, bed.Chaos))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close the session: %v", err)
		}
	})
	return s
}
