package kernel

import (
	"math"
	"time"
)

// timers are the pending timers of a Virtual. It is a heap with four children per node, so that a
// hundred thousand timers are few levels deep. The heap has the times in it, so that finding the
// next timer reads nothing else. A stopped timer stays until it comes up or until too many are
// stopped, because most timers are deadlines of calls that end long before.
type timers struct {
	heap []timerEntry
	// stopped is how many timers in the heap were stopped.
	stopped int
	seq     uint64
	free    []*timer
}

// timerEntry is a timer in the heap. If the timer's seq differs, it was stopped, and perhaps
// reused.
type timerEntry struct {
	at  time.Duration // since the start
	seq uint64
	t   *timer
}

// timer is one timer, reused after it has fired.
type timer struct {
	f   func()
	seq uint64 // 0: not set
	// on is the clock that it was set on; nil for the Virtual itself.
	on *NodeClock
}

func (e *timerEntry) before(o *timerEntry) bool {
	return e.at < o.at || e.at == o.at && e.seq < o.seq
}

func (h *timers) len() int { return len(h.heap) - h.stopped }

func (h *timers) set(at time.Duration, on *NodeClock, f func()) (stop func() bool) {
	if at < 0 { // overflow: it is too far in the future for a duration
		at = math.MaxInt64
	}
	h.seq++
	seq := h.seq
	var t *timer
	if n := len(h.free); n > 0 {
		t, h.free = h.free[n-1], h.free[:n-1]
	} else {
		t = new(timer)
	}
	t.f, t.seq, t.on = f, seq, on
	h.heap = append(h.heap, timerEntry{at, seq, t})
	h.up(len(h.heap) - 1)
	return func() bool { return h.stop(t, seq) }
}

func (h *timers) stop(t *timer, seq uint64) bool {
	if t.seq != seq {
		return false
	}
	h.recycle(t)
	if h.stopped++; h.stopped > 64 && h.stopped > len(h.heap)/2 {
		h.compact()
	}
	return true
}

func (h *timers) recycle(t *timer) {
	t.f, t.seq, t.on = nil, 0, nil
	h.free = append(h.free, t)
}

// pop takes the first timer that is due by limit; f is nil if there is none.
func (h *timers) pop(limit time.Duration) (at time.Duration, f func()) {
	for len(h.heap) > 0 {
		first := h.heap[0]
		set := first.t.seq == first.seq
		if set && first.at > limit {
			return 0, nil
		}
		n := len(h.heap) - 1
		h.heap[0] = h.heap[n]
		h.heap[n] = timerEntry{}
		h.heap = h.heap[:n]
		h.down(0)
		if !set {
			h.stopped--
			continue
		}
		f = first.t.f
		h.recycle(first.t)
		return first.at, f
	}
	return 0, nil
}

// compact removes the stopped timers.
func (h *timers) compact() {
	kept := h.heap[:0]
	for _, e := range h.heap {
		if e.t.seq == e.seq {
			kept = append(kept, e)
		}
	}
	clear(h.heap[len(kept):])
	h.heap, h.stopped = kept, 0
	h.order()
}

// postpone delays the timers of one clock by d.
func (h *timers) postpone(on *NodeClock, d time.Duration) {
	for i := range h.heap {
		if e := &h.heap[i]; e.t.seq == e.seq && e.t.on == on {
			if e.at += d; e.at < 0 {
				e.at = math.MaxInt64
			}
		}
	}
	h.order()
}

// order makes the entries a heap.
func (h *timers) order() {
	for i := (len(h.heap) - 2) / 4; i >= 0; i-- {
		h.down(i)
	}
}

func (h *timers) up(i int) {
	e := h.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&h.heap[parent]) {
			break
		}
		h.heap[i] = h.heap[parent]
		i = parent
	}
	h.heap[i] = e
}

func (h *timers) down(i int) {
	if i >= len(h.heap) {
		return
	}
	e := h.heap[i]
	for {
		first := 4*i + 1
		if first >= len(h.heap) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h.heap)); c++ {
			if h.heap[c].before(&h.heap[least]) {
				least = c
			}
		}
		if !h.heap[least].before(&e) {
			break
		}
		h.heap[i] = h.heap[least]
		i = least
	}
	h.heap[i] = e
}
