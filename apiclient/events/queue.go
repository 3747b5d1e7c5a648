package events

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// queue are the waiting events, the oldest first. Events of one object are taken in order;
// objects are taken in any order.
type queue struct {
	list []waiting
	// of counts them by object, and warnings the warnings. Invariant: none is 0.
	of, warnings map[about]int
	// turn: the last one taken was a warning, or an event before a warning of its object. Then
	// the oldest other due event is next, so that a storm of warnings does not starve the others.
	turn bool
}

func newQueue() queue { return queue{of: map[about]int{}, warnings: map[about]int{}} }

// waiting is a waiting event, and since when it waits.
type waiting struct {
	event port.Event
	since time.Time
	// object is the object to write, nil before the first call. counted: the object exists, and
	// its count must be updated.
	object  *v1.Event
	counted bool
	// troubled is when a call last got an unspecific error.
	troubled time.Time
}

// about is the object of an event: a pod, a claim or a node.
type about struct {
	uid  types.UID
	node string
}

func (w *waiting) about() about {
	switch e := &w.event; {
	case e.Pod != nil:
		return about{uid: e.Pod.UID}
	case e.Of != nil:
		return about{uid: e.Of.UID}
	default:
		return about{node: e.Node}
	}
}

func (q *queue) add(w waiting) {
	q.list = append(q.list, w)
	q.count(&w, 1)
}

// putBack puts an event back in the first place.
func (q *queue) putBack(w waiting) {
	q.list = slices.Insert(q.list, 0, w)
	q.count(&w, 1)
}

// putLast puts an event back, and moves all events of its object behind those of others.
func (q *queue) putLast(w waiting) {
	of := w.about()
	others, same := make([]waiting, 0, len(q.list)+1), []waiting{w}
	for i := range q.list {
		if e := &q.list[i]; e.about() == of {
			same = append(same, *e)
		} else {
			others = append(others, *e)
		}
	}
	q.list = append(others, same...)
	q.count(&w, 1)
}

func (q *queue) count(w *waiting, n int) {
	in := []map[about]int{q.of}
	if w.event.Warning {
		in = append(in, q.warnings)
	}
	of := w.about()
	for _, counts := range in {
		if counts[of] += n; counts[of] == 0 {
			delete(counts, of)
		}
	}
}

func (q *queue) take(i int) waiting {
	w := q.list[i]
	q.list = slices.Delete(q.list, i, i+1)
	if len(q.list) == 0 {
		q.list = nil
	}
	q.turn = q.warnings[w.about()] > 0
	q.count(&w, -1)
	return w
}

// makeRoom takes the oldest event that is no warning, of those that may go; nil if there is none.
func (q *queue) makeRoom(mayGo func(*waiting) bool) *port.Event {
	i := slices.IndexFunc(q.list, func(w waiting) bool { return !w.event.Warning && mayGo(&w) })
	if i < 0 {
		return nil
	}
	w := q.take(i)
	return &w.event
}

// relook is the time between checks whether the apiserver is still busy.
const relook = 500 * time.Millisecond

// haste says how long an event that is no warning is delayed (see Config).
type haste struct {
	// all: no event is delayed.
	all            bool
	wait, patience time.Duration
	busy           func() bool
}

// until is the remaining delay of an event that has waited for so long; 0 for none.
func (h haste) until(waited time.Duration) time.Duration {
	switch {
	case h.all, waited < 0: // the clock was set back
		return 0
	case waited < h.wait:
		return h.wait - waited
	case h.busy != nil && waited < h.patience && h.busy():
		return min(relook, h.patience-waited)
	default:
		return 0
	}
}

// next is the place of the event to write now. It takes turns between objects with a warning,
// whose first event is taken, and the oldest other due event. free reports whether an event of an
// object may be written. Without such an event, at is -1, and in is when the next is due; 0 if
// that depends on something else.
func (q *queue) next(now time.Time, h haste, free func(about) bool) (at int, in time.Duration) {
	urgent, due := -1, -1
	for i := range q.list {
		w := &q.list[i]
		of := w.about()
		isUrgent, isFirst := q.warnings[of] > 0, due < 0 && in == 0
		if isUrgent && urgent >= 0 || !isUrgent && !isFirst || !free(of) {
			continue
		}
		switch {
		case h.all:
			return i, 0
		case isUrgent:
			urgent = i
		default:
			if in = h.until(now.Sub(w.since)); in == 0 { // later ones are due later
				due = i
			}
		}
		if (due >= 0 || in > 0) && (urgent >= 0 || len(q.warnings) == 0) {
			break
		}
	}
	switch {
	case urgent >= 0 && (due < 0 || !q.turn):
		return urgent, 0
	default:
		return due, in
	}
}
