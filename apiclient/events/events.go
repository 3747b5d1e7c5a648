// Package events writes the events of pods and of the node to the apiserver: those that kubectl
// describe shows. What is told often is counted, what is told in many words is
// put together, and what is told too often is dropped, all as client-go does it.
//
//	actors ──Record──► warnings ─────────────────────────one at a time──► correlate ──► Create, or
//	              └──► the others ──while it is not busy──►                             Patch of the count
//
// Nothing waits for an event. While the apiserver is away they are kept, up to a
// bound, and the first is tried again from time to time. If it only says that
// something went wrong, they are tried in turn: that may be about all of them, or
// about one, which is given up as soon as another was taken. While it is busy, all but
// warnings wait: of thirty pods that start at once they are more than half of what
// is written, and say what the pods' status says as well.
package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Config is what a Recorder is made of.
type Config struct {
	API   port.API
	Clock kernel.Clock
	// Component and Host say who tells: kubelet, and the node.
	Component, Host string
	// Queue bounds how many events may wait: more are dropped. 1000 if zero.
	Queue int
	// Cache bounds what is remembered for counting; client-go's default if zero.
	Cache int
	// Deadline bounds a call. Retry is the time between tries while the apiserver
	// is away.
	Deadline, Retry time.Duration
	// Busy says whether the apiserver has more important things to do; nil for
	// never. It must not block. Events that are no warnings then wait, each for
	// Patience at most. With it they wait for a moment in any case.
	Busy     func() bool
	Patience time.Duration
	// Also gets each event as well; nil for nobody.
	Also port.Recorder
	// Dropped is told of each event that could not be written, and why; nil for
	// nobody. It must not block.
	Dropped func(port.Event, error)
}

// Validate says what is missing.
func (c *Config) Validate() error {
	switch {
	case c.API == nil, c.Clock == nil:
		return errors.New("events: API and Clock are required")
	case c.Component == "", c.Host == "":
		return errors.New("events: Component and Host are required: users see who tells")
	case c.Deadline <= 0, c.Retry <= 0:
		return fmt.Errorf("events: Deadline %v, Retry %v: want both longer than nothing", c.Deadline, c.Retry)
	case c.Busy != nil && c.Patience <= 0:
		return fmt.Errorf("events: Patience %v: want longer than nothing", c.Patience)
	case c.Queue < 0, c.Cache < 0:
		return fmt.Errorf("events: Queue %d, Cache %d: want none negative", c.Queue, c.Cache)
	}
	return nil
}

const (
	defaultQueue = 1000
	// relook is how soon it is looked at again whether the apiserver is still busy, and
	// for the first time: what is written for the same reason begins before.
	relook = 500 * time.Millisecond
)

// ErrQueueFull says that too many events wait.
var ErrQueueFull = errors.New("too many events wait to be written")

// Recorder implements port.Recorder. Its methods may be called from anywhere.
type Recorder struct {
	config Config

	mu         sync.Mutex
	correlator *record.EventCorrelator
	// warnings and others wait, the oldest first; others is in order of their since.
	// busy: one that is in neither any more is under way.
	warnings, others []waiting
	busy             bool
	closed           bool
	// heard is when the apiserver last said something that can be understood.
	heard time.Time
	// stopLook ends the wait until the apiserver is not busy; nil if nobody waits.
	stopLook func() bool
	// end ends the call under way.
	end func(error)
	// last is the number in the name of the last event: of two at one instant each
	// needs its own.
	last int64
	// stopRetry ends the wait for the next try.
	stopRetry func() bool
}

// waiting is an event that waits, and since when.
type waiting struct {
	event port.Event
	since time.Time
	// object is what is to be written, nil while it was not tried; counted: it is
	// there, and its count is to be another.
	object  *v1.Event
	counted bool
	// troubled is when a try was last answered with nothing that can be understood.
	troubled time.Time
}

// New makes a recorder.
func New(c Config) (*Recorder, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	return &Recorder{config: c, correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
		Clock: passive{c.Clock}, LRUCacheSize: c.Cache,
	})}, nil
}

// passive is a clock as client-go wants it.
type passive struct{ kernel.Clock }

// Since implements clock.PassiveClock.
func (p passive) Since(t time.Time) time.Duration { return p.Now().Sub(t) }

// Record implements port.Recorder.
func (r *Recorder) Record(e port.Event) {
	if r.config.Also != nil {
		r.config.Also.Record(e)
	}
	if e.Pod == nil && e.Node == "" {
		return
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	full := len(r.warnings)+len(r.others) >= r.config.Queue-count(r.busy)
	var instead *port.Event
	if full && e.Warning && len(r.others) > 0 {
		oldest := pop(&r.others).event
		instead = &oldest
	}
	if full && instead == nil {
		r.mu.Unlock()
		r.dropped(e, ErrQueueFull)
		return
	}
	to := &r.others
	if e.Warning {
		to = &r.warnings
	}
	*to = append(*to, waiting{event: e, since: r.config.Clock.Now()})
	idle := !r.busy
	r.busy = true
	r.mu.Unlock()
	if instead != nil {
		r.dropped(*instead, ErrQueueFull)
	}
	if idle {
		r.next()
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ErrClosed says that an event still waited when the recorder was closed.
var ErrClosed = errors.New("the agent ended before the event could be written")

// Close ends it: what waits is dropped, and what is under way is not waited for.
func (r *Recorder) Close() {
	r.mu.Lock()
	left := slices.Concat(r.warnings, r.others)
	r.closed, r.warnings, r.others = true, nil, nil
	if end := r.end; end != nil {
		r.config.Clock.AfterFunc(0, func() { end(context.Canceled) })
	}
	for _, stop := range [...]func() bool{r.stopRetry, r.stopLook} {
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

// next writes the first event, or says that there is none to write now.
func (r *Recorder) next() {
	for {
		r.mu.Lock()
		w, is := r.firstLocked()
		if !is {
			r.busy = false
			r.mu.Unlock()
			return
		}
		if w.object != nil {
			r.mu.Unlock()
			r.write(w)
			return
		}
		result, err := r.correlator.EventCorrelate(r.event(&w.event))
		r.mu.Unlock()
		if err != nil {
			r.dropped(w.event, err)
			continue
		}
		if !result.Skip {
			w.object, w.counted = result.Event, result.Event.Count > 1
			r.write(w)
			return
		}
	}
}

// firstLocked takes the event that is to be written next. If there is none because
// the apiserver is busy, it is looked again after a moment.
func (r *Recorder) firstLocked() (waiting, bool) {
	switch {
	case len(r.warnings) > 0:
		return pop(&r.warnings), true
	case len(r.others) == 0:
		return waiting{}, false
	}
	waits := r.config.Clock.Now().Sub(r.others[0].since)
	again := min(relook, r.config.Patience-waits)
	switch {
	case r.config.Busy == nil, waits >= r.config.Patience, waits < 0: // the clock was set back
		return pop(&r.others), true
	case waits < relook:
		again = relook - waits
	case !r.config.Busy():
		return pop(&r.others), true
	}
	if r.stopLook == nil {
		r.stopLook = r.config.Clock.AfterFunc(again, r.look)
	}
	return waiting{}, false
}

// look goes on if nobody else does.
func (r *Recorder) look() {
	r.mu.Lock()
	r.stopLook = nil
	idle := !r.busy && !r.closed
	r.busy = r.busy || idle
	r.mu.Unlock()
	if idle {
		r.next()
	}
}

// pop takes the oldest.
func pop(list *[]waiting) waiting {
	first := (*list)[0]
	(*list)[0] = waiting{}
	if *list = (*list)[1:]; len(*list) == 0 {
		*list = nil
	}
	return first
}

// event is an event as the API has it.
func (r *Recorder) event(e *port.Event) *v1.Event {
	kind := v1.EventTypeNormal
	if e.Warning {
		kind = v1.EventTypeWarning
	}
	at := metav1.NewTime(e.At)
	r.last = max(e.At.UnixNano(), r.last+1)
	// Of a node tools look for its name as its UID, and in this namespace.
	namespace, about := metav1.NamespaceDefault, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.Node, UID: types.UID(e.Node)}
	if p := e.Pod; p != nil {
		namespace, about = p.Namespace, v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
			ResourceVersion: p.ResourceVersion, FieldPath: fieldPath(p, e.Container),
		}
	}
	return &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.Name, r.last)},
		InvolvedObject: about,
		Reason:         e.Reason, Message: cut(e.Message), Type: kind, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              v1.EventSource{Component: r.config.Component, Host: r.config.Host},
		ReportingController: r.config.Component, ReportingInstance: r.config.Host,
	}
}

// maxMessage is the longest message that the apiserver takes, in bytes.
const maxMessage = 1024

func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	const dots = "..."
	n := maxMessage - len(dots)
	for n > 0 && s[n]&0xC0 == 0x80 { // not within a letter
		n--
	}
	return s[:n] + dots
}

// fieldPath is where in the pod a container is, as kubectl shows it.
func fieldPath(p *v1.Pod, name string) string {
	if name == "" {
		return ""
	}
	for i := range p.Spec.InitContainers {
		if p.Spec.InitContainers[i].Name == name {
			return "spec.initContainers{" + name + "}"
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if p.Spec.EphemeralContainers[i].Name == name {
			return "spec.ephemeralContainers{" + name + "}"
		}
	}
	return "spec.containers{" + name + "}"
}

// write makes an event, or counts one that is there.
func (r *Recorder) write(w waiting) {
	ctx, end := kernel.NewContext(r.config.Clock)
	stop := r.config.Clock.AfterFunc(r.config.Deadline, func() { end(context.DeadlineExceeded) })
	r.mu.Lock()
	r.end = end
	closed := r.closed
	r.mu.Unlock()
	if closed {
		stop()
		return
	}
	done := func(got port.APIObject, err error) {
		stop()
		r.written(w, got, err)
	}
	o := w.object
	if !w.counted {
		fresh := *o
		fresh.ResourceVersion = ""
		r.config.API.Create(ctx, &fresh, done)
		return
	}
	from := *o // what differs is what has to be written
	from.Count, from.LastTimestamp, from.Message = o.Count-1, o.FirstTimestamp, ""
	r.config.API.Patch(ctx, port.APIPatch{
		Key: port.APIKey{Kind: port.EventKind, Namespace: o.Namespace, Name: o.Name}, From: &from, To: o,
	}, done)
}

// written goes on with the next event, or with the same once more.
func (r *Recorder) written(w waiting, got port.APIObject, err error) {
	again, trouble := false, false
	switch kind := port.KindOf(err); {
	case err == nil:
		r.correlator.UpdateState(got.(*v1.Event))
	case kind == port.AlreadyExists && !w.counted:
		// An earlier try has worked.
	case kind == port.NotFound && w.counted:
		w.counted = false
		r.write(w) // it was too long ago, and is gone
		return
	case kind == port.Unavailable, kind == port.Deadline, kind == port.Canceled, kind == port.TooManyRequests, kind == port.Unauthorized:
		again = true
	case kind == port.Other:
		trouble = true
	default:
		r.dropped(w.event, err) // the namespace is going, or whatever else won't get better
	}
	now := r.config.Clock.Now()
	r.mu.Lock()
	alone := trouble && (!w.troubled.IsZero() && r.heard.After(w.troubled) || now.Sub(w.since) > troubleMost)
	switch {
	case r.closed:
		r.busy = false
		r.mu.Unlock()
		return
	case again:
		r.stopRetry = r.config.Clock.AfterFunc(r.config.Retry, func() { r.write(w) })
		r.mu.Unlock()
		return
	case trouble && !alone:
		// After the others, be it a warning: else no other would be tried.
		w.troubled = now
		r.others = append(r.others, w)
		r.stopRetry = r.config.Clock.AfterFunc(r.config.Retry, r.next)
		r.mu.Unlock()
		return
	case !trouble:
		r.heard = now
	}
	r.mu.Unlock()
	if alone {
		r.dropped(w.event, err)
	}
	r.next()
}

// troubleMost is how long an event is tried that the apiserver neither takes nor
// refuses.
const troubleMost = 10 * time.Minute
