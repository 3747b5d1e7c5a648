package scenarios

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// large is a pod with a variable of two mebibytes.
func large(name string) *spec {
	p := aPod(name)
	p.Spec.Containers[0].Env = []v1.EnvVar{
		{Name: "A", Value: strings.Repeat("x", 1<<10)}, {Name: "B", Value: strings.Repeat("$(A)", 2<<10)},
	}
	return p
}

// TestLargeContainersWaitForEachOther: of containers that take megabytes to create two are created at once, whatever
// becomes of them, and no other pod waits for that.
func TestLargeContainersWaitForEachOther(t *testing.T) {
	w := parallelNode(t, 1, withFiles())
	w.fault = func(c simcri.Call) simcri.Fault {
		return simcri.Fault{Hang: c.Method == simcri.CreateContainer && strings.HasPrefix(c.Pod.Name, "large")}
	}
	under := func() (n int) {
		for _, a := range w.system.Snapshot("") {
			for _, e := range a.Effects {
				if e.Kind == "CreateContainer" && e.Phase == kernel.EffectStarted {
					n++
				}
			}
		}
		return n
	}
	w.add(many("large", 12, large)...)
	w.until(time.Minute, "some are being created", func() bool { return under() > 0 })
	w.run(20 * time.Second)
	if n := under(); n != 2 {
		t.Errorf("%d are being created, want 2", n)
	}
	w.add(many("plain", 10, aPod)...)
	w.until(10*time.Second, "the others run", func() bool {
		for _, name := range names("plain", 10) {
			if w.newest(name, "app").State != observed.ContainerRunning {
				return false
			}
		}
		return true
	})
	w.fault = nil // those that hang end at their deadline
	w.allUp(10 * time.Minute)
	w.quiet()
}
