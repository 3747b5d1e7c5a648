package volume

import (
	"context"
	"sync"
)

// volumesApiece is how many volumes of one pod are made at once in this process. A pod may have thousands: all at once,
// each on a thread of its own, they kept everything else of the agent from the processors.
const volumesApiece = 8

// apiece gives each pod so many places. The zero value is ready for use.
type apiece struct {
	mu sync.Mutex
	of map[string]*places
}

// places are those of a pod, for as long as somebody has one or waits for one.
type places struct {
	taken chan struct{}
	users int
}

// take waits for a place of a pod, or until ctx ends.
func (a *apiece) take(ctx context.Context, pod string) (release func(), err error) {
	a.mu.Lock()
	p := a.of[pod]
	if p == nil {
		p = &places{taken: make(chan struct{}, volumesApiece)}
		if a.of == nil {
			a.of = map[string]*places{}
		}
		a.of[pod] = p
	}
	p.users++
	a.mu.Unlock()
	leave := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if p.users--; p.users == 0 {
			delete(a.of, pod)
		}
	}
	select {
	case p.taken <- struct{}{}:
		return func() { <-p.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
