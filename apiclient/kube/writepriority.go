package kube

import (
	"sync"
	"time"
)

// rush knows whether ordinary writes come thick and fast: pods that start or end
// together, of one node or of many that share the client.
type rush struct {
	mu sync.Mutex
	// begun are when the last were begun, the oldest at next; under is how many have
	// no answer.
	begun [crowd]time.Time
	next  int
	under int
}

// A pod by itself makes fewer writes than many from its creation until it is Ready;
// a machine that starts pods as fast as it can makes as many within that time, also
// if it is slow. A crowd is what a handful of pods does not make, however busy their
// lives are.
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

// is reports whether as many as n, which is no more than a crowd, come at a time.
func (r *rush) is(n int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.under >= n || now.Sub(r.begun[(r.next+crowd-n)%crowd]) < within
}

// Busy reports whether much is written at this time, leases, nodes and events apart:
// requests without urgency should then wait. It may be called from anywhere.
func (c *Client) Busy() bool { return c.rush.is(many, time.Now()) }

// Load is Busy, and whether it is a crowd that writes: then even what people see of
// a pod may wait, if it says little. It may be called from anywhere.
func (c *Client) Load() (busy, crowded bool) {
	now := time.Now()
	return c.rush.is(many, now), c.rush.is(crowd, now)
}
