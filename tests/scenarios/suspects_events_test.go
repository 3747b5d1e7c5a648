package scenarios

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// TestEventStreamThatCannotBeOpened: the runtime refuses each event stream, now early and now late. A
// container that ends is found by a list all the same.
func TestEventStreamThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	for _, late := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond, 5 * time.Second} {
		w := newNode(t, 1)
		w.fault = func(c simcri.Call) (f simcri.Fault) {
			if c.Method == simcri.Events {
				f.Fail, f.Kind, f.Latency = true, port.Unavailable, late
			}
			return f
		}
		w.add(aPod("web"))
		w.allUp(10 * time.Second)
		w.rt.Kill() // the stream that stands ends
		w.rt.Restart()
		w.run(time.Minute)
		w.end("web", "app", 1)
		if took := w.until(time.Minute, "it runs again", func() bool { return w.runs("web", "app", 1) }); took > 1100*time.Millisecond {
			t.Errorf("streams fail after %v: it ran again after %v", late, took)
		}
		w.fault = nil
		w.run(time.Minute)
		w.quiet()
	}
}
