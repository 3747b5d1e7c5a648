package registry

import (
	"context"
	"sync"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
)

// Listeners are told which drivers there are. Who has them guards them with a mutex.
type Listeners[T any] struct{ all map[*func(T)]bool }

// Tell tells all of them.
func (l *Listeners[T]) Tell(driver T) {
	for event := range l.all { // order-free: each on its own
		(*event)(driver)
	}
}

// Listen has event told until ctx ends, and then calls done. kind is that of the drivers, for the error. mu guards the
// Listeners, and the caller holds it.
func (l *Listeners[T]) Listen(ctx context.Context, mu *sync.Mutex, kind string, event func(T), done func(error)) {
	if l.all == nil {
		l.all = map[*func(T)]bool{}
	}
	l.all[&event] = true
	rescue.Do(ctx, func() error {
		<-ctx.Done()
		mu.Lock()
		defer mu.Unlock()
		delete(l.all, &event)
		return &port.Error{Kind: port.Canceled, Verb: "Drivers", Object: kind, Detail: "the agent stopped listening"}
	}, port.Panicked("Drivers", kind), done)
}
