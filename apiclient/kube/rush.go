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
	begun [many]time.Time
	next  int
	under int
}

// A pod by itself makes fewer writes than many from its creation until it is Ready;
// a machine that starts pods as fast as it can makes as many within that time, also
// if it is slow.
const (
	many   = 4
	within = 2 * time.Second
)

func (r *rush) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[r.next], r.next = now, (r.next+1)%many
	r.under++
}

func (r *rush) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under--
}

func (r *rush) is(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.under >= many || now.Sub(r.begun[r.next]) < within
}

// Busy says whether much is written at this time, leases, nodes and events apart:
// what nobody waits for should then wait. It may be called from anywhere.
func (c *Client) Busy() bool { return c.rush.is(time.Now()) }
