package nodestats

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

const (
	// readLimit bounds a reading: it does not end with the one who has asked for it first, as others may wait for it.
	readLimit = 30 * time.Second
	// keptLimit is how long a reading is shown at most, and one that took less than keptFrom is not shown again.
	keptLimit = 10 * time.Second
	keptFrom  = 50 * time.Millisecond
)

// shared gives all who ask at a time the same reading, and keeps it for as long as it took. However many ask, there is
// one reading of a depth at a time, and at most half of the time is spent on it. What takes next to nothing is as new
// as the question.
type shared struct {
	source Source

	mu   sync.Mutex
	last [Disks + 1]*reading
}

// reading is what was read, once done is closed.
type reading struct {
	done  chan struct{}
	until time.Time
	node  usage.Node
	pods  []usage.Pod
	err   error
}

// read is a Source. What it gives must not be changed.
func (s *shared) read(ctx context.Context, depth Depth) (usage.Node, []usage.Pod, error) {
	s.mu.Lock()
	r := s.last[depth]
	mine := r == nil || r.old()
	if mine {
		r = &reading{done: make(chan struct{}), err: errors.New("the reading broke off")}
		s.last[depth] = r
	}
	s.mu.Unlock()
	if mine {
		r.make(ctx, s.source, depth)
		return r.node, r.pods, r.err
	}
	select {
	case <-r.done:
		return r.node, r.pods, r.err
	case <-ctx.Done():
		return usage.Node{}, nil, ctx.Err()
	}
}

// old: it is over, and not shown any more.
func (r *reading) old() bool {
	select {
	case <-r.done:
		return !time.Now().Before(r.until)
	default:
		return false
	}
}

func (r *reading) make(ctx context.Context, source Source, depth Depth) {
	defer close(r.done) // also if it panics
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	began := time.Now()
	r.node, r.pods, r.err = source(ctx, depth)
	if took := time.Since(began); took >= keptFrom {
		r.until = time.Now().Add(min(took, keptLimit))
	}
}
