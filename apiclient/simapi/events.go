package simapi

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// DefaultEventTTL is how long an Event is kept after its last write (kube-apiserver --event-ttl).
const DefaultEventTTL = time.Hour

// DefaultEventLimit is how many Events are kept. A real apiserver has no such limit; in a
// simulation of a hundred thousand pods, most objects would be Events.
const DefaultEventLimit = 20_000

// ages removes expired Events.
type ages struct {
	// queue has an entry for each write of an Event, oldest first.
	queue []age
	// expires is when each Event expires, from its newest entry.
	expires map[types.UID]int64
	timer   bool // set while the queue isn't empty
}

type age struct {
	name    name
	uid     types.UID
	expires int64 // nanoseconds
}

// aged records the write of an Event.
func (s *Server) aged(o port.APIObject) {
	m, at := metaOf(o), s.stage.Now().Add(s.cfg.EventTTL).UnixNano()
	if s.ages.expires == nil {
		s.ages.expires = map[types.UID]int64{}
	}
	s.ages.expires[m.UID] = at
	s.ages.queue = append(s.ages.queue, age{nameOf(o), m.UID, at})
	for len(s.tables[port.EventKind].objects) > s.cfg.EventLimit {
		s.endOldest()
	}
	s.awaitOldest()
}

func (s *Server) awaitOldest() {
	if s.ages.timer || len(s.ages.queue) == 0 {
		return
	}
	s.ages.timer = true
	s.stage.After(time.Duration(s.ages.queue[0].expires-s.stage.Now().UnixNano()), func() {
		s.ages.timer = false
		for len(s.ages.queue) > 0 && s.ages.queue[0].expires <= s.stage.Now().UnixNano() {
			s.endOldest()
		}
		s.awaitOldest()
	})
}

// endOldest removes the first entry, and its Event, unless that is gone or was written again
// since.
func (s *Server) endOldest() {
	a := s.ages.queue[0]
	s.ages.queue[0] = age{}
	s.ages.queue = s.ages.queue[1:]
	if s.ages.expires[a.uid] != a.expires {
		return
	}
	delete(s.ages.expires, a.uid)
	t := s.tables[port.EventKind]
	if e := t.objects[a.name]; e != nil && metaOf(e.object).UID == a.uid {
		s.end(t, e)
	}
}
