// Package events writes events of pods, of their claims and of the node to the apiserver; kubectl describe
// shows them. Equal events are counted, similar events are aggregated, and too frequent
// events are dropped, as in client-go. Events with different annotations are not equal.
//
//	actors ──Record──► queue ──a few at a time──► correlate ──► Create, or Patch of the count
//
// Callers do not wait for an event. Events of one pod are written in order, one at a
// time. A warning is written immediately, after the earlier events of its pod. Other
// events are delayed for a moment, so that the corresponding status is written first. If
// the apiserver is overloaded, they are delayed longer, but at most by Config.Patience.
//
// While the apiserver does not answer, events are queued up to a bound, and one of them
// is retried periodically. If the apiserver answers with an unspecific error, the events
// are tried in turn: the error may concern all of them or only one. That one is dropped
// as soon as another event was written.
package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/record"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Config is what a Recorder is made of.
type Config struct {
	API   port.API
	Clock kernel.Clock
	// Component and Host are the source of the events: kubelet, and the node.
	Component, Host string
	// Queue bounds the waiting events, and a part of it those of one object; beyond that events are dropped. 1000 if
	// zero.
	Queue int
	// Calls bounds the concurrent writes, each about another object; 16 if zero.
	Calls int
	// Cache bounds the memory for counting; client-go's default if zero.
	Cache int
	// Deadline bounds a call. Retry is the time between calls while the apiserver is away.
	Deadline, Retry time.Duration
	// Wait is the shortest delay of an event that is no warning.
	Wait time.Duration
	// Busy reports whether the apiserver is under write load; nil for never. It must not block.
	// Events that are no warnings are then delayed, each for Patience at most.
	Busy     func() bool
	Patience time.Duration
	// Also gets each event too; nil if unused.
	Also port.Recorder
	// Dropped is called for each event that could not be written, with the reason; nil if unused.
	// It must not block.
	Dropped func(port.Event, error)
}

// Validate says what is missing.
func (c *Config) Validate() error {
	switch {
	case c.API == nil, c.Clock == nil:
		return errors.New("events: API and Clock are required")
	case c.Component == "", c.Host == "":
		return errors.New("events: Component and Host are required: users see them as the source of an event")
	case c.Deadline <= 0, c.Retry <= 0:
		return fmt.Errorf("events: Deadline %v, Retry %v: want both longer than nothing", c.Deadline, c.Retry)
	case c.Busy != nil && c.Patience < c.Wait:
		return fmt.Errorf("events: Patience %v: want no less than Wait, %v", c.Patience, c.Wait)
	case c.Queue < 0, c.Calls < 0, c.Cache < 0, c.Wait < 0:
		return fmt.Errorf("events: Queue %d, Calls %d, Cache %d, Wait %v: want none negative", c.Queue,
			c.Calls, c.Cache, c.Wait)
	}
	return nil
}

// A hundred pods with present images cause a hundred events at once. An apiserver that shares a
// small machine with them takes a tenth of a second for each. With only a few concurrent writes,
// the last would be late.
const (
	defaultQueue = 1000
	defaultCalls = 16
)

// An object has at most an eighth of a queue, so that while the apiserver is away one pod with thousands of containers,
// or one that crashes again and again, does not take the places of others. It loses nothing by that: client-go drops
// what exceeds 25 events of an object at once.
const (
	objectShare = 8
	objectLeast = 32
)

// Wait is a node agent's setting: longer than the write of a status, and short compared to the
// two seconds in which users should see an event (docs/decisions/0010).
const Wait = 500 * time.Millisecond

// Reasons to drop an event, other than the apiserver's refusal.
var (
	ErrQueueFull = errors.New("the event queue is full")
	ErrClosed    = errors.New("the agent stopped before the event was written")
)

// Recorder implements port.Recorder. It is safe for concurrent use.
type Recorder struct {
	config Config

	mu         sync.Mutex
	correlator *record.EventCorrelator
	queue      queue
	calls      []*call
	// troubled are events that got an unspecific error. They, and later events of the same
	// object, wait for retry.
	troubled []waiting
	closed   bool
	// away: the last call got no answer, or an unspecific error. Then one call at a time tries
	// again; retry is the timer for the next, nil if it is not set. heard is when the apiserver
	// last answered properly.
	away  bool
	retry func() bool
	heard time.Time
	// look is the timer for the next due event; nil if it is not set.
	look func() bool
	// flushed is called when no more events can be written now; nil while no Flush waits for
	// that.
	flushed func()
	// last is the number in the name of the last event, which makes names of the same instant
	// unique.
	last int64
}

// New makes a recorder.
func New(c Config) (*Recorder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.Calls == 0 {
		c.Calls = defaultCalls
	}
	return &Recorder{
		config: c, queue: newQueue(),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{Clock: passive{c.Clock},
			LRUCacheSize: c.Cache}),
	}, nil
}

// passive is a clock with client-go's interface.
type passive struct{ kernel.Clock }

// Since implements clock.PassiveClock.
func (p passive) Since(t time.Time) time.Duration { return p.Now().Sub(t) }

// Record implements port.Recorder.
func (r *Recorder) Record(e port.Event) {
	if r.config.Also != nil {
		r.config.Also.Record(e)
	}
	if e.Pod == nil && e.Of == nil && e.Node == "" {
		return
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	var instead *port.Event
	w := waiting{event: e, since: r.config.Clock.Now()}
	crowded := r.queue.of[w.about()] >= max(r.config.Queue/objectShare, objectLeast)
	if crowded || len(r.queue.list)+len(r.troubled)+len(r.calls) >= r.config.Queue {
		if e.Warning {
			instead = r.queue.makeRoom(func(o *waiting) bool { return !crowded || o.about() == w.about() })
		}
		if instead == nil {
			r.mu.Unlock()
			r.dropped(e, ErrQueueFull)
			return
		}
	}
	r.queue.add(w)
	r.mu.Unlock()
	if instead != nil {
		r.dropped(*instead, ErrQueueFull)
	}
	r.advance()
}

// Flush writes all waiting events at once, also under load. It calls done, once, when no more can
// be written now: all are written, or the apiserver does not answer.
func (r *Recorder) Flush(done func()) {
	r.mu.Lock()
	if r.flushed, r.away = done, false; r.retry != nil {
		r.retry()
		r.untroubleLocked()
	}
	r.mu.Unlock()
	r.advance()
}

// Close drops the waiting events, and does not wait for running calls.
func (r *Recorder) Close() {
	r.mu.Lock()
	left := slices.Concat(r.troubled, r.queue.list)
	r.closed, r.troubled, r.queue.list = true, nil, nil
	for _, c := range r.calls {
		r.config.Clock.AfterFunc(0, func() { c.end(context.Canceled) })
	}
	for _, stop := range [...]func() bool{r.retry, r.look} {
		if stop != nil {
			stop()
		}
	}
	r.mu.Unlock()
	for i := range left {
		r.dropped(left[i].event, ErrClosed)
	}
}

func (r *Recorder) dropped(e port.Event, err error) {
	if r.config.Dropped != nil {
		r.config.Dropped(e, err)
	}
}
