package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
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
	const n = 40
	w := newNode(t, 3)
	w.run(time.Second)
	w.add(specs(names("p", n), aPod)...)
	w.allUp(time.Minute)
	w.drop(names("p", n)...)
	half := w.until(time.Minute, "half of the pods are gone", func() bool { return w.left() <= n/2 })
	all := half + w.until(time.Minute, "all pods are gone", func() bool { return w.left() == 0 })
	t.Logf("half of the pods were gone after %v, all after %v", half, all)
	if half > all*6/10 {
		t.Errorf("half of the pods were gone after %v, all after %v", half, all)
	}
	w.allUp(time.Minute)
	w.quiet()
}

// TestGracesRunSideBySide: pods that use all of their grace keep nobody waiting,
// however many they are.
func TestGracesRunSideBySide(t *testing.T) {
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
	if took > grace+6*time.Second {
		t.Errorf("%d pods with a grace of %v were gone after %v", n, grace, took)
	}
	w.allUp(time.Minute)
	w.quiet()
}

func specs(names []string, of func(string) *spec) (out []*spec) {
	for _, n := range names {
		out = append(out, of(n))
	}
	return out
}
