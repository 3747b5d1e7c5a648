package kube

import (
	"sync"
	"time"
)

// rush detects bursts of ordinary writes: pods that start or end together, of one node or of many
// that share the client.
type rush struct {
	mu sync.Mutex
	// begun are the start times of the last writes, the oldest at next; under is the number of
	// running ones.
	begun [crowd]time.Time
	next  int
	under int
}

// A single pod makes fewer writes than many from its creation until it is Ready. A machine that
// starts pods as fast as it can makes at least many within that time, also if it is slow. A
// handful of pods never makes crowd writes, however busy they are.
const (
	many   = 4
	crowd  = 24
	within = 2 * time.Second
)

func (r *rush) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[r.next], r.next = now, (r.next+1)%crowd
	r.under++
}

func (r *rush) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under--
}

// is reports whether a burst of at least n writes is running; n is at most crowd.
func (r *rush) is(n int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.under >= n || now.Sub(r.begun[(r.next+crowd-n)%crowd]) < within
}

// Busy reports write load, without leases, nodes and events: requests without urgency should then
// wait. It is safe for concurrent use.
func (c *Client) Busy() bool { return c.rush.is(many, time.Now()) }

// Load is Busy, and whether the burst is large: then even status patches with little news may
// wait. It is safe for concurrent use.
func (c *Client) Load() (busy, crowded bool) {
	now := time.Now()
	return c.rush.is(many, now), c.rush.is(crowd, now)
}
