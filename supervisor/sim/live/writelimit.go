package live

import (
	"context"
	"sync"
)

// writeLimit bounds concurrent writes, in order. An apiserver that gets all writes of a thousand nodes
// at once answers none of them in time; and the leases, which do not pass here, would wait behind
// them.
type writeLimit struct {
	mu    sync.Mutex
	free  int
	queue []*queued
}

// queued is a write that has not begun.
type queued struct {
	begin func()
	// over: it has begun, or was cancelled.
	over bool
}

// pass calls begin once there is room. The caller calls leave when the write has ended. If ctx
// ends before, pass calls refused.
func (g *writeLimit) pass(ctx context.Context, begin, refused func()) {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		begin()
		return
	}
	q := &queued{begin: begin}
	g.queue = append(g.queue, q)
	g.mu.Unlock()
	context.AfterFunc(ctx, func() {
		g.mu.Lock()
		over := q.over
		q.over = true
		g.mu.Unlock()
		if !over {
			refused()
		}
	})
}

// leave gives its room to the next.
func (g *writeLimit) leave() {
	g.mu.Lock()
	for len(g.queue) > 0 {
		q := g.queue[0]
		g.queue[0] = nil
		g.queue = g.queue[1:]
		if q.over {
			continue
		}
		q.over = true
		g.mu.Unlock()
		q.begin()
		return
	}
	g.queue = nil
	g.free++
	g.mu.Unlock()
}
