package contract

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// recorder keeps the events of one stream.
type recorder struct {
	mu     sync.Mutex
	events []port.RuntimeEvent
	opened chan struct{}
	done   *pending[struct{}]
}

func (s *suite) record(ctx context.Context) *recorder {
	r := &recorder{opened: make(chan struct{}, 2)}
	r.done = beginErr(s, "Events", func(done func(error)) {
		s.Runtime.Events(ctx, func() { r.opened <- struct{}{} }, func(e port.RuntimeEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		}, done)
	})
	return r
}

// find gives an event that came.
func (r *recorder) find(kind observed.EventKind, id string) (port.RuntimeEvent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == kind && e.ContainerID == id {
			return e, true
		}
	}
	return port.RuntimeEvent{}, false
}

func testEventsUnsupported(s *suite) {
	if s.HasEvents {
		return // EndWithContext sees that there is a stream
	}
	s.record(context.Background()).done.kind(port.Unsupported)
}

func testEvents(s *suite) {
	if !s.HasEvents {
		testEventsUnsupported(s)
		return
	}
	ctx, cancel := s.context()
	r := s.record(ctx)
	eventually(s, "the stream opens", r.opened)
	begun := s.Now()
	pod, _, id := s.running(s.Exits(4, 200*time.Millisecond))
	for _, kind := range []observed.EventKind{observed.ContainerCreatedEvent, observed.ContainerStartedEvent, observed.ContainerStoppedEvent} {
		s.until("an event says "+kind.String(), func() bool {
			_, ok := r.find(kind, id)
			return ok
		})
		e, _ := r.find(kind, id)
		if e.Pod.UID != pod.UID || e.At.Before(begun.Add(-time.Second)) || e.At.After(s.Now().Add(time.Second)) {
			s.Errorf("event is %+v, want one of pod %s, now", e, pod.UID)
		}
	}
	s.remove(id).noError()
	s.until("an event says deleted", func() bool {
		_, ok := r.find(observed.ContainerDeletedEvent, id)
		return ok
	})
	cancel()
	r.done.kind(port.Canceled)
}

func testEventsEnd(s *suite) {
	if !s.HasEvents {
		testEventsUnsupported(s)
		return
	}
	ctx, cancel := s.context()
	r := s.record(ctx)
	eventually(s, "the stream opens", r.opened)
	cancel()
	r.done.kind(port.Canceled)
	check.Equal(s, len(r.opened), 0, "opened was called twice")
}
