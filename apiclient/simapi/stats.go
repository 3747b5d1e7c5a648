package simapi

import (
	"strconv"

	"github.com/troupe-dev/troupe/actors/port"
)

// Object returns an object by its Go type: Object[*v1.Pod](s, "default", "web").
func Object[T port.APIObject](s *Server, namespace, name string) (T, error) {
	var none T
	o, err := s.Get(port.APIKey{Kind: port.APIKindOf(none), Namespace: namespace, Name: name})
	if err != nil {
		return none, err
	}
	return o.(T), nil
}

// Objects lists objects by their Go type; q.Kind must match.
func Objects[T port.APIObject](s *Server, q Select) ([]T, error) {
	var none T
	q.Kind = port.APIKindOf(none)
	all, _, err := s.List(q)
	if err != nil {
		return nil, err
	}
	out := make([]T, len(all))
	for i, o := range all {
		out[i] = o.(T)
	}
	return out, nil
}

// Stats are a server's counters.
type Stats struct {
	// Version is the newest resource version.
	Version uint64
	// Objects is the number of objects of each kind.
	Objects map[port.APIKind]int
	// Calls counts clients' calls.
	Calls [verbCount]uint64
	// InFlight is the number of running calls of clients.
	InFlight int
	// Watches is the number of open watches, including the owner's.
	Watches int
}

// Stats reads the counters.
func (s *Server) Stats() Stats {
	s.stage.Lock()
	defer s.stage.Unlock()
	st := Stats{Version: s.version, Objects: map[port.APIKind]int{}, Calls: s.counts, InFlight: s.calls.InFlight()}
	for k, t := range s.tables {
		if len(t.objects) > 0 {
			st.Objects[port.APIKind(k)] = len(t.objects)
		}
		st.Watches += t.watches.n
	}
	return st
}

// versionOf parses a resource version of this server.
func versionOf(o port.APIObject) uint64 {
	v, err := strconv.ParseUint(metaOf(o).ResourceVersion, 10, 64)
	if err != nil {
		panic("simapi: an object has resource version " + metaOf(o).ResourceVersion)
	}
	return v
}
