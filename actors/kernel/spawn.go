package kernel

import (
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
)

// propsKey identifies the props of a protocol for protoactor. Props cost as much as a cell, so all
// actors of a protocol share them. An actor finds its cell by System.spawning at first, and by the
// PID later.
type propsKey struct {
	protocol reflect.Type
	root     bool
}

// props are the shared props of a protocol.
func props[M any](s *System, root bool) *actor.Props {
	key := propsKey{reflect.TypeFor[M](), root}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.props[key]; p != nil {
		return p
	}
	p := actor.PropsFromProducer(
		func() actor.Actor { return &adapter[M]{sys: s} },
		actor.WithMailbox(func() actor.Mailbox { return s.spawning }),
		actor.WithSupervisor(strategy{s}),
		actor.WithSpawnFunc(func(as *actor.ActorSystem, id string, p *actor.Props,
			parent actor.SpawnerContext) (*actor.PID, error) {
			s.spawning.path = id // share one string
			return actor.DefaultSpawner(as, id, p, parent)
		}),
	)
	if root {
		p.Configure(actor.WithGuardian(strategy{s}))
	}
	s.props[key] = p
	return p
}

// spawner is protoactor's side of the parent of a new child.
type spawner interface {
	SpawnNamed(*actor.Props, string) (*actor.PID, error)
}

// spawn gives c to protoactor. No code of an actor runs in it.
func (s *System) spawn(c *cell, parent spawner, p *actor.Props, name string) error {
	s.spawnMu.Lock()
	defer s.spawnMu.Unlock()
	s.spawning = c
	_, err := parent.SpawnNamed(p, name)
	s.spawning = nil
	return err
}
