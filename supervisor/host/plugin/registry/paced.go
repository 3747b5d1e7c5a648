package registry

import (
	"context"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// Pace is how long a plugin waits until what it says next is passed on.
const Pace = 100 * time.Millisecond

// Paced passes on what a plugin streams, until receive fails, and returns that error. The first is passed on at once.
// Of a plugin that says more than one thing within a pace, what it said meanwhile is merged: however fast a plugin
// talks, those who listen to it hear others too.
func Paced[T any](ctx context.Context, receive func() (T, error), merge func(older, newer T) T, event func(T)) error {
	var (
		mu    sync.Mutex
		said  *T
		fails error
	)
	something, ended := make(chan struct{}, 1), make(chan struct{})
	keep := func(next T) {
		mu.Lock()
		defer mu.Unlock()
		if said != nil {
			next = merge(*said, next)
		}
		said = &next
	}
	rescue.Go(ctx, func() {
		defer close(ended)
		_, fails = rescue.Try(ctx, func() (none struct{}, err error) {
			for {
				next, err := receive()
				if err != nil {
					return none, err
				}
				keep(next)
				select {
				case something <- struct{}{}:
				default: // it is known
				}
			}
		})
	}, rescue.Answered)
	pass := func() {
		mu.Lock()
		next := said
		said = nil
		mu.Unlock()
		if next != nil {
			event(*next)
		}
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-something:
			pass()
			wait.Reset(Pace)
		case <-ended:
			pass()
			return fails
		}
		select {
		case <-wait.C:
		case <-ended:
		}
	}
}
