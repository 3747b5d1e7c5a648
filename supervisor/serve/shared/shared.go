// Package shared gives all who ask at a time the same reading of something that is expensive to read.
package shared

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// readLimit bounds a reading: it does not end with the one who has asked for it first, as others may wait for it.
	readLimit = 30 * time.Second
	// keptLimit is how long a reading is shown at most, and one that took less than keptFrom is not shown again.
	keptLimit = 10 * time.Second
	keptFrom  = 50 * time.Millisecond
)

// Reading gives all who ask at a time the same, and keeps it for as long as it took. However many ask, it is read once
// at a time, and at most half of the time is spent on it. What takes next to nothing is as new as the question.
type Reading[T any] struct {
	// Read reads it. It is required.
	Read func(context.Context) (T, error)

	mu   sync.Mutex
	last *reading[T]
}

// reading is what was read, once done is closed.
type reading[T any] struct {
	done  chan struct{}
	until time.Time
	value T
	err   error
}

// Get reads it, or gives what another has read. What it gives must not be changed.
func (s *Reading[T]) Get(ctx context.Context) (T, error) {
	s.mu.Lock()
	r := s.last
	mine := r == nil || r.old()
	if mine {
		r = &reading[T]{done: make(chan struct{}), err: errors.New("the reading broke off")}
		s.last = r
	}
	s.mu.Unlock()
	if mine {
		r.make(ctx, s.Read)
		return r.value, r.err
	}
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// old: it is over, and not shown any more.
func (r *reading[T]) old() bool {
	select {
	case <-r.done:
		return !time.Now().Before(r.until)
	default:
		return false
	}
}

func (r *reading[T]) make(ctx context.Context, read func(context.Context) (T, error)) {
	defer close(r.done) // also if it panics
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	began := time.Now()
	r.value, r.err = read(ctx)
	if took := time.Since(began); took >= keptFrom {
		r.until = time.Now().Add(min(took, keptLimit))
	}
}
