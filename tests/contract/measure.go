package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
)

// Measured is how long the calls of one method took, in order of length.
type Measured struct {
	Method string
	Took   []time.Duration
}

// Median and P99 are the 50th and 99th percentile (nearest rank).
func (m Measured) Median() time.Duration { return m.rank(50) }
func (m Measured) P99() time.Duration    { return m.rank(99) }

func (m Measured) rank(percent int) time.Duration {
	return m.Took[(len(m.Took)*percent+99)/100-1]
}

// Table writes what was measured as entries for the table of cri/simcri.
func Table(all []Measured) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "%s: Lognormal(%d*time.Microsecond, %d*time.Microsecond), // of %d\n",
			m.Method, m.Median().Microseconds(), m.P99().Microseconds(), len(m.Took))
	}
	return b.String()
}

// Measure makes n pods run and go, one after another, and says how long each
// call took of a runtime that has nothing else to do. A stop is one with no
// grace. Events.Delay is how long after a container's end its event comes, for a
// runtime that has events. What the runtime refuses to measure is logged and left out. For
// pulls see MeasurePulls.
func Measure(t *testing.T, subject Subject, n int) []Measured {
	s := &suite{T: t, Subject: subject}
	img := s.image(s.Forever.Image)
	var all []Measured
	took := func(method string, d time.Duration) {
		i := slices.IndexFunc(all, func(m Measured) bool { return m.Method == method })
		if i < 0 {
			i = len(all)
			all = append(all, Measured{Method: method})
		}
		all[i].Took = append(all[i].Took, d)
	}
	var stopped *ends
	if s.HasEvents {
		stopped = s.watchEnds()
	}
	for i := range n {
		program, command := s.Exec(0, "x")
		pod := s.pod(program)
		box := timed(s, took, func() *pending[string] { return s.run(pod, 0) })
		timed(s, took, func() *pending[observed.Sandbox] { return s.sandboxStatus(box) })
		id := timed(s, took, func() *pending[string] { return s.createFrom(img, pod, box, 0) })
		timed(s, took, func() *pending[struct{}] { return s.start(id) })
		timed(s, took, func() *pending[observed.Container] { return s.status(id) })
		timed(s, took, func() *pending[port.ExecResult] { return s.exec(id, command, 20*time.Second) })
		timed(s, took, func() *pending[observed.Runtime] {
			return begin(s, "List", func(done func(observed.Runtime, error)) {
				s.Runtime.List(context.Background(), "", done)
			})
		})
		timed(s, took, func() *pending[port.RuntimeVersion] {
			return begin(s, "Version", func(done func(port.RuntimeVersion, error)) {
				s.Runtime.Version(context.Background(), done)
			})
		})
		timed(s, took, func() *pending[port.RuntimeStatus] {
			return begin(s, "Status", func(done func(port.RuntimeStatus, error)) {
				s.Runtime.Status(context.Background(), done)
			})
		})
		timed(s, took, func() *pending[*observed.Image] { return s.imageStatus(img.ID) })
		timed(s, took, func() *pending[[]observed.Image] {
			return begin(s, "ListImages", func(done func([]observed.Image, error)) {
				s.Runtime.ListImages(context.Background(), done)
			})
		})
		ifAble(s, took, s.update(pod, id, i))
		ifAble(s, took, s.tell(pod, box, i))
		ifAble(s, took, s.memory(id))
		timed(s, took, func() *pending[struct{}] { return s.stop(id, 0) })
		if stopped != nil {
			at := stopped.wait(s, id)
			took("Events.Delay", max(at.Sub(s.status(id).noError().FinishedAt), 0))
		}
		timed(s, took, func() *pending[struct{}] { return s.remove(id) })
		timed(s, took, func() *pending[struct{}] { return s.stopSandbox(box) })
		timed(s, took, func() *pending[struct{}] { return s.removeSandbox(box) })
		s.pull(s.Pullable).noError()
		timed(s, took, func() *pending[struct{}] { return s.removeImage(s.Pullable) })
	}
	for _, m := range all {
		slices.Sort(m.Took)
	}
	return all
}

// limits are other ones each time.
func limits(i int) observed.Resources {
	const period = 100_000
	return observed.Resources{CPUShares: 128 + 128*int64(i%2), CPUQuota: period / 2, CPUPeriod: period, Memory: (64 + int64(i%2)) << 20}
}

// tell tells of other limits of a pod.
func (s *suite) tell(pod *v1.Pod, box string, i int) func() *pending[struct{}] {
	return func() *pending[struct{}] {
		return beginErr(s, "UpdateSandbox", func(done func(error)) {
			s.Runtime.UpdateSandbox(context.Background(), port.UpdateSandbox{ID: box, Pod: pod, To: limits(i)}, done)
		})
	}
}

// update changes the limits of a container.
func (s *suite) update(pod *v1.Pod, id string, i int) func() *pending[struct{}] {
	to := limits(i)
	return func() *pending[struct{}] {
		return beginErr(s, "UpdateContainer", func(done func(error)) {
			s.Runtime.UpdateContainer(context.Background(), port.UpdateContainer{ID: id, Pod: pod, Container: &pod.Spec.Containers[0], To: to}, done)
		})
	}
}

func (s *suite) memory(id string) func() *pending[int64] {
	return func() *pending[int64] {
		return begin(s, "ContainerMemory", func(done func(int64, error)) {
			s.Runtime.ContainerMemory(context.Background(), id, done)
		})
	}
}

// ends is when events came that say that a container has stopped.
type ends struct {
	mu   sync.Mutex
	came map[string]time.Time
}

// watchEnds reads events until the test is over.
func (s *suite) watchEnds() *ends {
	e := &ends{came: map[string]time.Time{}}
	ctx, cancel := s.context()
	opened := make(chan struct{}, 1)
	done := beginErr(s, "Events", func(done func(error)) {
		s.Runtime.Events(ctx, func() { opened <- struct{}{} }, func(v port.RuntimeEvent) {
			now := s.Now()
			e.mu.Lock()
			defer e.mu.Unlock()
			if _, twice := e.came[v.ContainerID]; v.Kind == observed.ContainerStoppedEvent && !twice {
				e.came[v.ContainerID] = now
			}
		}, done)
	})
	eventually(s, "the stream of events opens", opened)
	s.Cleanup(func() {
		cancel()
		done.kind(port.Canceled)
	})
	return e
}

func (e *ends) wait(s *suite, id string) (at time.Time) {
	s.until("an event says that "+id+" has stopped", func() (there bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		at, there = e.came[id]
		return there
	})
	return at
}

// ifAble is timed, of a call that not every runtime can do.
func ifAble[T any](s *suite, took func(string, time.Duration), call func() *pending[T]) {
	begun := s.Now()
	p := call()
	if _, err := p.result(); err != nil {
		s.Logf("%s can't be measured: %v", p.what, err)
		return
	}
	took(p.what, s.Now().Sub(begun))
}

func timed[T any](s *suite, took func(string, time.Duration), call func() *pending[T]) T {
	begun := s.Now()
	p := call()
	v := p.noError()
	took(p.what, s.Now().Sub(begun))
	return v
}
