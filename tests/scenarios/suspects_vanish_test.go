package scenarios

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPodsVanishWhilePodsetIsDown: pods are deleted by force while the podset actor restarts: one that
// runs, and three that have nothing in the runtime yet and wait for an object, an image and a volume.
// Nobody goes on with what they needed.
func TestPodsVanishWhilePodsetIsDown(t *testing.T) {
	w, c := parallelCluster(t, 1, withConfig(func(c *agent.Config) { c.Cluster.Objects.NoServices = true }))
	c.secret("password")
	w.registry.Withdraw("registry.test/none:1")
	w.host.Fault = func(call machine.Call) (f machine.Fault) {
		if call.Verb == "MountVolume" && call.Volume == "bad" {
			f.Err = errors.New("no such device")
		}
		return f
	}
	w.fault = func(call simcri.Call) (f simcri.Fault) {
		f.Fail = call.Method == simcri.RunPodSandbox && call.Pod.Name != "runs"
		return f
	}
	c.create(aPod("runs").fromSecret("password"), aPod("object").fromMap("none"),
		aPod("image").image("registry.test/none:1"), aPod("volume").volume("bad"), aPod("stays").fromMap("none"))
	w.until(time.Minute, "one runs", func() bool { return c.ready("runs") })
	w.run(30 * time.Second)

	w.around = func(who string, _ any, _ bool) {
		if who == "podset" && w.crashes < 4 {
			panic(planted)
		}
	}
	for _, name := range []string{"runs", "object", "image", "volume"} {
		c.delete(name, new(int64))
	}
	w.run(5 * time.Minute)
	w.onlyRestarted("podset", 4)

	want := []string{"WatchConfigMap default/none"}
	check.Same(t, w.watches(), want, "watches")
	pulls, mounts := w.rt.Calls(simcri.PullImage), w.count("volume", "FailedMount")
	w.run(30 * time.Minute)
	check.Count(t, w.rt.Calls(simcri.PullImage)-pulls, 0, "%d more pulls for a pod that is gone")
	check.Count(t, w.count("volume", "FailedMount")-mounts, 0, "%d more mounts for a pod that is gone")
	for _, a := range w.system.Snapshot("") {
		if strings.Contains(a.Path, "pods/") && a.Label != "default/stays" {
			t.Errorf("actor %s is still there", a.Label)
		}
	}
}
