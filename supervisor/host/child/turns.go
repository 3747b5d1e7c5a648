package child

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

const (
	// slots is how many children of one queue start and work at once. A child that takes longer than hold releases its
	// slot, so that hanging ones do not delay others.
	slots = 4
	hold  = 500 * time.Millisecond
	// sayEarly is how long before its deadline a request that had no turn says what it waited for.
	sayEarly = time.Second
)

// Turns is a queue of children. The pod that has the fewest alive comes first, so one with a thousand requests delays
// others as little as one with a few.
type Turns struct {
	mu sync.Mutex
	// free is how many children may start now.
	free int
	// own bounds the children of one pod that are alive, and many is where it becomes one; 0: nothing does.
	own, many int
	// alive are the children by pod, all their number.
	alive map[string]int
	all   int
	// waiting is in order of arrival. Invariant: none of it may start now.
	waiting []*waiter
}

// waiter is one request.
type waiter struct {
	pod string
	// begins is closed when it may start.
	begins chan struct{}
}

// NewTurns is a queue in which one pod has at most so many children alive that may hang, and one as soon as there are
// many in all. A pod that has none is never refused. 0: nothing bounds them.
func NewTurns(own, many int) *Turns {
	return &Turns{free: slots, own: own, many: many, alive: map[string]int{}}
}

// Turn is the right to run one child.
type Turn struct {
	// rest gives its slot back, gone says that the child is no more; both do something once.
	rest, gone func()
	hold       *time.Timer
	// used: gone is called when its child is no more.
	used bool
}

// Back gives back what no child has used of a turn.
func (t *Turn) Back() {
	t.hold.Stop()
	t.rest()
	if !t.used {
		t.gone()
	}
}

// Wait waits for a turn for a pod, or until ctx ends. The caller gives it back.
func (q *Turns) Wait(ctx context.Context, pod string) (*Turn, error) {
	t := &waiter{pod: pod, begins: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.next()
	refused := !q.fits(pod)
	q.mu.Unlock()
	patient := ctx
	if until, is := ctx.Deadline(); is && refused {
		var cancel context.CancelFunc
		patient, cancel = context.WithDeadline(ctx, until.Add(-sayEarly))
		defer cancel()
	}
	turn := &Turn{
		rest: sync.OnceFunc(func() { q.give(func() { q.free++ }) }),
		gone: sync.OnceFunc(func() {
			q.give(func() {
				q.all--
				if q.alive[pod]--; q.alive[pod] == 0 {
					delete(q.alive, pod)
				}
			})
		}),
	}
	select {
	case <-t.begins:
	case <-patient.Done():
	}
	if q.leave(t) {
		turn.hold = time.AfterFunc(hold, turn.rest)
		if ctx.Err() == nil {
			return turn, nil
		}
		turn.Back()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, hostcall.Failf(port.Unavailable, "waits for its turn: at most %d volumes of a pod are tried at "+
		"once, and others of this pod have had no answer from their servers", q.own)
}

// leave takes a request out of the queue, and reports whether it had got its turn meanwhile.
func (q *Turns) leave(t *waiter) (had bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, t)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i < 0
}

func (q *Turns) give(back func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	back()
	q.next()
}

// next lets begin what may.
func (q *Turns) next() {
	for q.free > 0 {
		first := -1
		for i, t := range q.waiting {
			if q.fits(t.pod) && (first < 0 || q.alive[t.pod] < q.alive[q.waiting[first].pod]) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		t := q.waiting[first]
		q.waiting = slices.Delete(q.waiting, first, first+1)
		q.free--
		q.all++
		q.alive[t.pod]++
		close(t.begins)
	}
}

// fits: the share of a pod has room for one more.
func (q *Turns) fits(pod string) bool {
	share := q.own
	if q.many > 0 && q.all >= q.many {
		share = 1
	}
	return q.own == 0 || q.alive[pod] < share
}
