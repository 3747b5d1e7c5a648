package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
// grace, a pull one of an image that is there.
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
	for range n {
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
		timed(s, took, func() *pending[string] { return s.pull(s.Forever.Image) })
		timed(s, took, func() *pending[struct{}] { return s.stop(id, 0) })
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

func timed[T any](s *suite, took func(string, time.Duration), call func() *pending[T]) T {
	begun := s.Now()
	p := call()
	v := p.noError()
	took(p.what, s.Now().Sub(begun))
	return v
}
