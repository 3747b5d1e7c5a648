package shortage

import (
	"sync"
	"time"
)

// every is how often a number is read.
const every = 20 * time.Millisecond

// Seen is what was seen of a number that grows until something stops it.
type Seen struct {
	// Crossed is when it was first above the level, Peaked when it was highest, Relieved when it was below the level
	// again. Zero if never.
	Crossed, Peaked, Relieved time.Time
	Peak                      int64
}

// add takes one more reading.
func (s *Seen) add(now time.Time, n, level int64) {
	if n > level && s.Crossed.IsZero() {
		s.Crossed = now
	}
	if n > s.Peak {
		s.Peak, s.Peaked = n, now
	}
	if n < level && !s.Crossed.IsZero() && s.Relieved.IsZero() {
		s.Relieved = now
	}
}

// Level reads a number again and again, and knows when it passed a level.
type Level struct {
	mu   sync.Mutex
	seen Seen
	stop chan struct{}
	done chan struct{}
}

// Watch begins to read. What cannot be read is left out: it comes and goes. Stop must be called.
func Watch(level int64, read func() (int64, error)) *Level {
	l := &Level{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			n, err := read()
			if err != nil {
				continue
			}
			l.mu.Lock()
			l.seen.add(time.Now(), n, level)
			l.mu.Unlock()
		}
	}()
	return l
}

// Seen is what was seen so far.
func (l *Level) Seen() Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Stop ends the reading. It may be called once.
func (l *Level) Stop() {
	close(l.stop)
	<-l.done
}
