package volume

import (
	"context"
	"sync"
)

// places gives each name, such as a pod, so many places. The zero value gives one, which is a lock. The caller can give
// up waiting.
type places struct {
	each int
	mu   sync.Mutex
	of   map[string]*crowd
}

// crowd are the users of a name, for as long as somebody has a place or waits for one.
type crowd struct {
	taken chan struct{}
	users int
}

// take waits for a place of a name, or until ctx ends.
func (p *places) take(ctx context.Context, name string) (release func(), err error) {
	p.mu.Lock()
	c := p.of[name]
	if c == nil {
		c = &crowd{taken: make(chan struct{}, max(1, p.each))}
		if p.of == nil {
			p.of = map[string]*crowd{}
		}
		p.of[name] = c
	}
	c.users++
	p.mu.Unlock()
	leave := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(p.of, name)
		}
	}
	select {
	case c.taken <- struct{}{}:
		return func() { <-c.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
