package simapi

import (
	"maps"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors/port"
)

// Backup is a copy of a server's store at one instant.
type Backup struct {
	version uint64
	objects [kindCount]map[name]port.APIObject
}

// Checkpoint copies the store: all objects and the resource version.
func (s *Server) Checkpoint() *Backup {
	s.stage.Lock()
	defer s.stage.Unlock()
	b := &Backup{version: s.version}
	for k, t := range s.tables {
		b.objects[k] = t.all()
	}
	return b
}

// Restore replaces the store by a backup, as an operator does who restores etcd and restarts the
// apiserver. Resource versions go back, and count on from the backup's: a version may so be given
// twice. All connections end. The watches of the port list again: the client for a real apiserver compares
// versions before it resumes, and begins all watches anew (apiclient/kube). The owner's watches are told
// the differences. Events expire as if they were written now.
func (s *Server) Restore(b *Backup) {
	s.stage.Do(func() {
		for _, c := range s.clients {
			c.cut("read: connection reset by peer")
			for _, f := range c.follows {
				f.version = 0
			}
		}
		s.version, s.marks, s.ages.queue, s.ages.expires = b.version, marks{}, nil, nil
		for k, t := range s.tables {
			t.restore(b.objects[k], b.version)
		}
		events := s.tables[port.EventKind]
		for _, n := range sortedNames(b.objects[port.EventKind]) {
			if e := events.objects[n]; e != nil {
				s.aged(e.object)
			}
		}
	})
}

func (t *table) all() map[name]port.APIObject {
	all := make(map[name]port.APIObject, len(t.objects))
	for n, e := range t.objects {
		all[n] = e.object
	}
	return all
}

// restore replaces all objects, and tells the watches. The history is empty then.
func (t *table) restore(objects map[name]port.APIObject, version uint64) {
	before := t.all()
	for _, n := range sortedNames(before) {
		t.drop(n)
	}
	names := sortedNames(objects)
	for _, n := range names {
		t.put(objects[n])
	}
	t.history.forget(version)
	for _, n := range sortedNames(before) {
		old := before[n]
		if now := objects[n]; now == nil || metaOf(now).UID != metaOf(old).UID {
			t.watches.see(&change{version: version, old: old, new: old, gone: true})
		}
	}
	for _, n := range names {
		now, old := objects[n], before[n]
		if old != nil && metaOf(old).UID != metaOf(now).UID {
			old = nil
		}
		if now != old {
			t.watches.see(&change{version: version, old: old, new: now})
		}
	}
}

func sortedNames(objects map[name]port.APIObject) []name {
	return slices.SortedFunc(maps.Keys(objects), func(a, b name) int {
		if c := strings.Compare(a.namespace, b.namespace); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
}
