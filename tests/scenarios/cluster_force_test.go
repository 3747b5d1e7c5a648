package scenarios

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestClusterForcedWhileAStartHangs: a call of a pod's start hangs, somebody deletes the pod by force,
// and another of its name takes its place, as a StatefulSet has it. Others come and go meanwhile; when
// the call has come to its end, of whatever kind, only the second pod is left.
func TestClusterForcedWhileAStartHangs(t *testing.T) {
	t.Parallel()
	for _, m := range []simcri.Method{simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.PullImage} {
		t.Run(m.String(), func(t *testing.T) {
			w, c := newClusterNode(t, 1)
			hangs := true
			var first types.UID
			w.fault = func(call simcri.Call) simcri.Fault {
				mine := call.Pod.UID == first || m == simcri.PullImage && call.Object == "registry.test/web-0:1"
				return simcri.Fault{Hang: hangs && first != "" && call.Method == m && mine}
			}
			c.create(aPod("web-0").image("registry.test/web-0:1"))
			first = c.get("web-0").UID
			w.run(5 * time.Second)
			if c.ready("web-0") {
				t.Fatal("nothing hangs")
			}
			hangs = false // what hangs does so until its deadline
			c.delete("web-0", new(int64))
			c.create(aPod("web-0").image("registry.test/web-0:1"))
			w.run(time.Second)
			c.create(aPod("other"))
			w.until(20*time.Second, "another pod is Ready", func() bool { return c.ready("other") })
			c.delete("other", nil)
			w.until(time.Minute, "another pod is gone", func() bool { return c.get("other") == nil })
			w.until(90*time.Minute, "the next one is Ready", func() bool { return c.ready("web-0") })
			if c.get("web-0").UID == first {
				t.Error("it is the old one")
			}
			w.until(2*time.Minute, "nothing else is left", func() bool {
				return len(w.rt.Truth().Runtime.Pods) == 1 && w.host.Pods() == 1
			})
		})
	}
}
