package kernel

import (
	"slices"
	"strings"
	"time"
)

// ActorInfo is one actor in a snapshot of the tree.
type ActorInfo struct {
	Path        string `json:"path"`
	Kind        string `json:"kind"`
	Label       string `json:"label,omitempty"`
	Status      string `json:"status"`
	Incarnation uint32 `json:"incarnation"`
	// Restarts is the number of earlier incarnations, Crashes how often the actor failed, by itself or
	// because a child's crash was escalated.
	Restarts uint32 `json:"restarts"`
	Crashes  uint32 `json:"crashes,omitempty"`
	// Depth is the number of waiting messages, Oldest when the first of them arrived.
	Depth  int        `json:"depth"`
	Oldest *time.Time `json:"oldest,omitempty"`
	// Handling is the message that is being handled, Since when that began.
	Handling  string       `json:"handling,omitempty"`
	Since     *time.Time   `json:"since,omitempty"`
	Handled   uint64       `json:"handled"`
	Dropped   uint64       `json:"dropped,omitempty"`
	Coalesced uint64       `json:"coalesced,omitempty"`
	Effects   []EffectInfo `json:"effects,omitempty"`
	LastCrash *CrashReport `json:"lastCrash,omitempty"`
}

// subtree is root and its descendants, or everything if root is empty, in order of path.
func (s *System) subtree(root string) []*cell {
	s.mu.RLock()
	cells := make([]*cell, 0, len(s.cells))
	for path, c := range s.cells { // order-free: sorted below
		if root == "" || path == root || strings.HasPrefix(path, root+"/") {
			cells = append(cells, c)
		}
	}
	s.mu.RUnlock()
	slices.SortFunc(cells, func(a, b *cell) int { return strings.Compare(a.path, b.path) })
	return cells
}

// Snapshot reads the tree below root, or all of it, in order of path. It asks no actor, so it
// answers even when actors hang.
func (s *System) Snapshot(root string) []ActorInfo {
	cells := s.subtree(root)
	out := make([]ActorInfo, len(cells))
	for i, c := range cells {
		out[i] = c.info()
		if c.runner != nil {
			out[i].Effects = c.runner.inFlight(c, true)
		}
	}
	return out
}

func (c *cell) info() ActorInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := ActorInfo{
		Path: c.path, Kind: c.kind, Label: c.label, Status: c.status.String(), Incarnation: c.incarnation,
		Depth: c.queue.depth(), Handling: c.current,
		Handled: c.handled, Dropped: uint64(c.dropped), Coalesced: uint64(c.coalesced),
	}
	if c.incarnation > 1 {
		i.Restarts = c.incarnation - 1
	}
	if c.faults != nil {
		i.Crashes, i.LastCrash = c.faults.total, c.faults.last
	}
	if i.Depth > 0 {
		at := time.Unix(0, c.queue.oldest())
		i.Oldest = &at
	}
	if c.current != "" {
		since := time.Unix(0, c.since)
		i.Since = &since
	}
	return i
}
