package kernel

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crashRing keeps the last crashes. Reading it never waits for an actor.
type crashRing struct {
	mu    sync.Mutex
	total atomic.Uint64
	last  atomic.Pointer[[]*CrashReport]
	by    map[CrashKind]uint64
}

// CrashKind is what crashes are counted by: the kind of actor, and the decision.
type CrashKind struct {
	Kind     string
	Decision Decision
}

// keptCrashes is the number of reports in System.Crashes.
const keptCrashes = 32

func (k *crashRing) add(r *CrashReport) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.total.Add(1)
	if k.by == nil {
		k.by = map[CrashKind]uint64{}
	}
	k.by[CrashKind{r.Kind, r.Decision}]++
	var next []*CrashReport
	if p := k.last.Load(); p != nil {
		next = append(next, (*p)[max(0, len(*p)+1-keptCrashes):]...)
	}
	next = append(next, r)
	k.last.Store(&next)
}

// Crashes are the last 32 crashes, oldest first, including escalations. The slice and the reports
// are shared and must not be changed.
func (s *System) Crashes() []*CrashReport {
	if p := s.crashes.last.Load(); p != nil {
		return *p
	}
	return nil
}

// CrashCounts counts all crashes by kind of the actor that panicked. An escalated crash is counted
// once for each actor that it went through.
func (s *System) CrashCounts() map[CrashKind]uint64 {
	s.crashes.mu.Lock()
	defer s.crashes.mu.Unlock()
	return maps.Clone(s.crashes.by)
}

// deadLetterCounts counts dead letters by type of message.
type deadLetterCounts struct {
	mu sync.Mutex
	by map[string]uint64
}

func (l *deadLetterCounts) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string]uint64{}
	}
	l.by[name]++
}

// DeadLettersByName counts messages to actors that no longer exist, by type.
func (s *System) DeadLettersByName() map[string]uint64 {
	s.lost.mu.Lock()
	defer s.lost.mu.Unlock()
	return maps.Clone(s.lost.by)
}

// KindStats sums up the actors of one kind: those that live, and in the counters also those that
// have ended.
type KindStats struct {
	Kind string `json:"kind"`
	// Actors is how many there are. Quarantined and Restarting (which includes Failed) are those that
	// do not work now.
	Actors      int `json:"actors"`
	Quarantined int `json:"quarantined"`
	Restarting  int `json:"restarting"`
	// Depth is the number of waiting messages, MaxDepth that of the fullest mailbox.
	Depth    int `json:"depth"`
	MaxDepth int `json:"maxDepth"`
	// MaxAge is the age of the oldest waiting message, Busy how long the longest-running handler has
	// been running.
	MaxAge time.Duration `json:"maxAge"`
	Busy   time.Duration `json:"busy"`

	Handled   uint64 `json:"handled"`
	Dropped   uint64 `json:"dropped"`
	Coalesced uint64 `json:"coalesced"`
	Crashes   uint64 `json:"crashes"`
	Restarts  uint64 `json:"restarts"`
}

// Metrics sums up all actors by kind, ordered by kind. Like Snapshot it asks no actor.
func (s *System) Metrics() []KindStats {
	now := s.clock.Now().UnixNano()
	by := map[string]*KindStats{}
	s.mu.RLock()
	cells := make([]*cell, 0, len(s.cells))
	for _, c := range s.cells { // order-free: sums
		cells = append(cells, c)
	}
	for kind, past := range s.endedStats { // order-free: by kind
		by[kind] = new(past)
	}
	s.mu.RUnlock()
	for _, c := range cells {
		k := by[c.kind]
		if k == nil {
			k = &KindStats{Kind: c.kind}
			by[c.kind] = k
		}
		c.addTo(k, now)
	}
	out := make([]KindStats, 0, len(by))
	for _, k := range by { // order-free: sorted below
		out = append(out, *k)
	}
	slices.SortFunc(out, func(a, b KindStats) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

func (c *cell) addTo(k *KindStats, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.Actors++
	switch c.status {
	case Quarantined:
		k.Quarantined++
	case Restarting, Failed:
		k.Restarting++
	case Running, Stopping, Stopped:
	}
	depth := c.queue.depth()
	k.Depth += depth
	k.MaxDepth = max(k.MaxDepth, depth)
	if depth > 0 {
		k.MaxAge = max(k.MaxAge, time.Duration(now-c.queue.oldest()))
	}
	if c.current != "" {
		k.Busy = max(k.Busy, time.Duration(now-c.since))
	}
	c.countLocked(k)
}

// countLocked adds the counters.
func (c *cell) countLocked(k *KindStats) {
	k.Handled += c.handled
	k.Dropped += uint64(c.dropped)
	k.Coalesced += uint64(c.coalesced)
	if c.faults != nil {
		k.Crashes += uint64(c.faults.total)
	}
	if c.incarnation > 1 {
		k.Restarts += uint64(c.incarnation - 1)
	}
}
