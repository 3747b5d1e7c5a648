package scenarios

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPostStartOfTenMinutes: a postStart hook takes longer than any call of the agent. Its container
// is not restarted, and becomes ready afterwards. A pod that is deleted meanwhile ends as usual.
func TestPostStartOfTenMinutes(t *testing.T) {
	w, c := parallelCluster(t, 1)
	w.keepEvents = true
	slow := func(name string) *spec {
		s := aPod(name)
		s.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 600}}}
		return s
	}
	endless := aPod("endless").script("app", "exec-hang", "true")
	endless.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
		PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"for", "ever"}}},
	}
	c.create(slow("web"), slow("gone"), endless)
	w.until(time.Minute, "all run", func() bool {
		return w.runs("web", "app", 0) && w.runs("gone", "app", 0) && w.runs("endless", "app", 0)
	})
	w.run(5 * time.Minute)
	for _, name := range []string{"gone", "endless"} {
		c.delete(name, nil)
		took := w.until(time.Minute, name+" is gone", func() bool { return c.get(name) == nil })
		check.AtMost(t, took, 10*time.Second, "%s was gone after", name)
	}
	took := w.until(10*time.Minute, "the hook is over", func() bool { return c.ready("web") })
	check.AtLeast(t, took, 4*time.Minute, "ready %v after five minutes, want the ten minutes of its hook", took)
	if app := w.newest("web", "app"); app.State != observed.ContainerRunning || app.Attempt != 0 {
		t.Errorf("the container is %v, restarted %d times", app.State, app.Attempt)
	}
	w.clusterQuiet()
}
