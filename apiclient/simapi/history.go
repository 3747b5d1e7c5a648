package simapi

import (
	"time"

	"github.com/troupe-dev/troupe/actors/port"
)

// change is one version of one object.
type change struct {
	version uint64
	// old is the version before, nil if there was none.
	old port.APIObject
	// new is the object after the change; of a removed object, its last state with the version of
	// its removal.
	new  port.APIObject
	gone bool
	// left is old with this change's version, for watches whose selection no longer matches the
	// object. Made on first use.
	left port.APIObject
}

// leaving is the event object for watches whose selection no longer matches.
func (c *change) leaving() port.APIObject {
	if c.gone {
		return c.new
	}
	if c.left == nil {
		c.left = shallow(c.old)
		metaOf(c.left).ResourceVersion = metaOf(c.new).ResourceVersion
	}
	return c.left
}

// history has the newest changes of a kind, up to its limit.
type history struct {
	limit int
	// ring has the changes in order of version; start is the oldest.
	ring  []change
	start int
	// floor is the version of the newest forgotten change.
	//
	// Invariant: every change with a version above floor is in ring.
	floor uint64
}

// add adds a change. The result is valid until the next call.
func (h *history) add(c change) *change {
	if len(h.ring) < h.limit {
		h.ring = append(h.ring, c)
		return &h.ring[len(h.ring)-1]
	}
	at := h.start
	h.floor = h.ring[at].version
	h.ring[at] = c
	h.start = (at + 1) % len(h.ring)
	return &h.ring[at]
}

// since calls f for each change after a version, and reports whether all of them are still known.
func (h *history) since(version uint64, f func(*change)) bool {
	if version < h.floor {
		return false
	}
	for i := range h.ring {
		if c := &h.ring[(h.start+i)%len(h.ring)]; c.version > version {
			f(c)
		}
	}
	return true
}

// forget drops everything up to a version, which must be the newest.
func (h *history) forget(version uint64) {
	h.ring, h.start, h.floor = nil, 0, version
}

// marks remember the newest version at some past times. A watch that breaks so knows its last
// bookmark, although none was sent: 5,000 nodes with ten watches each would need 800 timers a
// second for that.
type marks struct{ ring []mark }

type mark struct {
	at      time.Time
	version uint64
}

// bookmarkPeriod is the time between bookmarks of a watch, as in a real apiserver.
const bookmarkPeriod = time.Minute

// marksKept is how many marks are kept.
const marksKept = 16

// note is called before each change with the current version.
func (m *marks) note(now time.Time, version uint64) {
	n := len(m.ring)
	if n > 0 && now.Sub(m.ring[n-1].at) < bookmarkPeriod {
		return
	}
	if n == marksKept {
		copy(m.ring, m.ring[1:])
		m.ring = m.ring[:n-1]
	}
	m.ring = append(m.ring, mark{now, version})
}

// told is the version of the last bookmark before now, 0 if none.
func (m *marks) told(now time.Time) uint64 {
	for i := len(m.ring) - 1; i >= 0; i-- {
		if now.Sub(m.ring[i].at) >= bookmarkPeriod {
			return m.ring[i].version
		}
	}
	return 0
}
