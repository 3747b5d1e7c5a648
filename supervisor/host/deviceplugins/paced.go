package deviceplugins

import (
	"sync"
	"time"
)

// pace is how long a plugin waits until what it says next is passed on.
const pace = 100 * time.Millisecond

// Paced passes on what a plugin streams, until receive fails, and returns that error. The first is passed on at once.
// Of a plugin that says more than one thing within a pace, what it said meanwhile is merged: however fast a plugin
// talks, those who listen to it hear others too.
func Paced[T any](receive func() (T, error), merge func(older, newer T) T, event func(T)) error {
	var (
		mu    sync.Mutex
		said  *T
		fails error
	)
	something, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			next, err := receive()
			mu.Lock()
			switch {
			case err != nil:
				fails = err
			case said != nil:
				next = merge(*said, next)
				fallthrough
			default:
				said = &next
			}
			mu.Unlock()
			if err != nil {
				return
			}
			select {
			case something <- struct{}{}:
			default: // it is known
			}
		}
	}()
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
			wait.Reset(pace)
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
