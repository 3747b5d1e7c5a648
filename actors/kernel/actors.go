package kernel

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/asynkron/protoactor-go/extensions"
)

// registryMaps is how many maps a registry keeps, each of 32 parts with a lock. protoactor makes
// 1024, which cost 6 ms and 3 MB. A part never frees memory that it used once: with 32,768 parts,
// memory would grow slowly by 9 MB until all were used.
const registryMaps = 4

// blank is a system of protoactor without actors, and maps that no registry has yet: enough for the
// registries of 255 systems. The pool forgets it when nobody makes systems.
type blank struct {
	system *actor.ActorSystem
	maps   *actor.SliceMap
}

var blanks sync.Pool

func newBlank() *blank {
	// protoactor's own log says less than ours and bypasses the one stream.
	quiet := func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }
	b := &blank{system: actor.NewActorSystem(actor.WithLoggerFactory(quiet)), maps: &actor.SliceMap{}}
	for _, m := range b.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		if m.Count() == 0 {
			b.maps.LocalPIDs = append(b.maps.LocalPIDs, m)
		}
	}
	return b
}

// newActors makes an empty system of protoactor.
func newActors() *actor.ActorSystem {
	b, _ := blanks.Get().(*blank)
	if b == nil {
		b = newBlank()
	}
	maps := b.maps.LocalPIDs
	mine := &actor.SliceMap{LocalPIDs: slices.Clone(maps[:registryMaps])}
	clear(maps[:registryMaps])
	b.maps.LocalPIDs = maps[registryMaps:]
	s := new(*b.system)
	if len(b.maps.LocalPIDs) >= registryMaps {
		blanks.Put(b)
	}
	s.ProcessRegistry = &actor.ProcessRegistryValue{
		ActorSystem: s, Address: b.system.ProcessRegistry.Address, LocalPIDs: mine,
	}
	s.Root = actor.NewRootContext(s, actor.EmptyMessageHeader)
	s.Guardians = actor.NewGuardians(s)
	s.Extensions = extensions.NewExtensions()
	s.Extensions.Register(actor.NewMetrics(s, nil))
	s.EventStream = eventstream.NewEventStream()
	s.DeadLetter = actor.NewDeadLetter(s)
	s.ProcessRegistry.Add(actor.NewEventStreamProcess(s), "eventstream")
	// protoactor's subscribers write its log, one of them from a goroutine on real time. No user
	// message goes there: the kernel counts dead letters itself.
	s.EventStream = eventstream.NewEventStream()
	return s
}
