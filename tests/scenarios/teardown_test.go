package scenarios

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/check"
)

// left counts the pods that the runtime still has a sandbox of that is up.
func (w *world) left() (n int) {
	for _, p := range w.rt.Truth().Runtime.Pods {
		for i := range p.Sandboxes {
			if p.Sandboxes[i].State == observed.SandboxReady {
				n++
			}
		}
	}
	return n
}

// TestManyPodsEndInTurn: of many pods that are to go at once, the first are gone
// long before the last: each is taken down as a whole, and not all at a time.
func TestManyPodsEndInTurn(t *testing.T) {
	t.Parallel()
	const n = 40
	w := newNode(t, 3)
	w.run(time.Second)
	w.add(specs(names("p", n), aPod)...)
	w.allUp(time.Minute)
	w.drop(names("p", n)...)
	half := w.until(time.Minute, "half of the pods are gone", func() bool { return w.left() <= n/2 })
	all := half + w.until(time.Minute, "all pods are gone", func() bool { return w.left() == 0 })
	t.Logf("half of the pods were gone after %v, all after %v", half, all)
	check.AtMost(t, half, all*6/10, "half of the pods were gone after %v, all after %v", half, all)
	if removed := w.rt.Calls(simcri.RemovePodSandbox) + w.rt.Calls(simcri.RemoveContainer); removed > 0 {
		t.Errorf("%d things were removed while pods had yet to end", removed)
	}
	w.allUp(time.Minute)
	w.quiet()
}

// TestWhatIsHalfDownGoesFirst: a pod that has begun to end does not wait, between
// two of its steps, for all that were asked to end after it, however old these are.
func TestWhatIsHalfDownGoesFirst(t *testing.T) {
	t.Parallel()
	const n = 60
	w := newNode(t, 5)
	w.run(time.Second)
	all := names("p", n)
	w.add(specs(all, aPod)...)
	w.allUp(time.Minute)
	slots := len(all) - 4
	// The look at what has died, which a runtime tells of before its call returns,
	// takes longer than the end of that call.
	w.fault = func(c simcri.Call) (f simcri.Fault) {
		if c.Method == simcri.ContainerStatus {
			f.Latency = 50 * time.Millisecond
		}
		return f
	}
	w.drop(all[slots:]...)
	w.until(time.Second, "the youngest are being stopped", func() bool { return w.rt.Calls(simcri.StopContainer) >= 4 })
	w.drop(all[:slots]...)
	w.until(time.Minute, "the youngest are gone", func() bool {
		for _, p := range w.rt.Truth().Runtime.Pods {
			if slices.Contains(all[slots:], p.Ref.Name[:strings.LastIndexByte(p.Ref.Name, '-')]) && p.Sandboxes[0].State == observed.SandboxReady {
				return false
			}
		}
		return true
	})
	if gone := n - w.left(); gone > n/3 {
		t.Errorf("%d of %d pods were gone before those that had begun first", gone, n)
	}
	w.until(time.Minute, "all are gone", func() bool { return w.left() == 0 })
	w.allUp(time.Minute)
	w.quiet()
}

// TestGracesRunSideBySide: pods that use all of their grace keep nobody waiting,
// however many they are.
func TestGracesRunSideBySide(t *testing.T) {
	t.Parallel()
	const n, grace = 60, 10 * time.Second
	w := newNode(t, 4)
	w.run(time.Second)
	w.add(specs(names("p", n), func(name string) *spec {
		return aPod(name).grace(int64(grace.Seconds())).script("app", "ignore-term", "true")
	})...)
	w.allUp(time.Minute)
	w.drop(names("p", n)...)
	took := w.until(time.Minute, "all pods are gone", func() bool { return w.left() == 0 })
	t.Logf("gone %v after the end of the first grace", took-grace)
	check.AtMost(t, took, grace+6*time.Second, "%d pods with a grace of %v were gone after", n, grace)
	w.allUp(time.Minute)
	w.quiet()
}

func specs(names []string, of func(string) *spec) (out []*spec) {
	for _, n := range names {
		out = append(out, of(n))
	}
	return out
}
