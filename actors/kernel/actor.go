package kernel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// Behavior is how one incarnation of an actor handles messages of type M. After a restart, the
// constructor in the Spec makes a new Behavior.
type Behavior[M any] interface {
	// Start is called once, before any message.
	Start(ctx *Context[M])
	// Receive handles one message. It must not block.
	Receive(ctx *Context[M], m M)
}

// Stopper is a Behavior with a Stop method. It is called when the actor is stopped for good, not
// when it is restarted, and not if the actor has crashed and not started again. An effect that Stop
// asks for runs only if it can begin at once. No message is received after Stop.
type Stopper[M any] interface{ Stop(ctx *Context[M]) }

// OverflowHandler is a Behavior that is told when messages were dropped because its mailbox was
// full. Dropped messages are hints, so it should read the state again; see also Resyncer. The call comes
// before the waiting messages. The actor's own timers and effect results are never dropped.
type OverflowHandler[M any] interface{ Overflowed(ctx *Context[M]) }

// ChildWatcher is a Behavior that is told when a child has ended, for any reason: from then on its
// name is free. A restarted actor has no children, and is not told of its predecessor's.
type ChildWatcher[M any] interface {
	ChildStopped(ctx *Context[M], name string)
}

// overflowed is the message for an OverflowHandler.
type overflowed struct{}

// Spec says how to make an actor.
type Spec[M any] struct {
	// Name is the last part of its path: any characters but '/' and space.
	Name string
	// Kind groups similar actors in the tree and in metrics; Name if empty.
	Kind string
	// Label is shown to people beside a name that is not readable.
	Label string
	// New makes one incarnation.
	New func() Behavior[M]
	// Follows are the published values that it receives. Each is for this actor only.
	Follows []Subscription[M]
	// Policy decides on its crashes; ForSingletons if zero.
	Policy Policy
	// Runner runs its effects; its parent's if nil.
	Runner *Runner
	// MailboxLimit is the System's if zero.
	MailboxLimit int
}

// Validate says what is wrong with the spec.
func (s Spec[M]) Validate() error {
	if s.Name == "" || strings.ContainsAny(s.Name, "/ ") {
		return fmt.Errorf("kernel: actor name %q: it needs at least one character, and none of '/' and space", s.Name)
	}
	if s.New == nil {
		return fmt.Errorf("kernel: actor %q has no constructor", s.Name)
	}
	if s.MailboxLimit < 0 {
		return fmt.Errorf("kernel: actor %q: MailboxLimit is %d: it can't be negative", s.Name, s.MailboxLimit)
	}
	if s.Policy != (Policy{}) {
		if err := s.Policy.Validate(); err != nil {
			return fmt.Errorf("actor %q: %w", s.Name, err)
		}
	}
	return nil
}

// Context gives an actor access to the system. It is valid only inside Start, Receive and the other
// methods of a Behavior.
type Context[M any] struct {
	cell *cell
	ac   actor.Context
	log  *zerolog.Logger
}

// Self is the address of this actor.
func (c *Context[M]) Self() Ref[M] { return Ref[M]{c.cell} }

// Path is this actor's path in the tree.
func (c *Context[M]) Path() string { return c.cell.path }

// Now is the time on the clock of the actor's machine.
func (c *Context[M]) Now() time.Time { return c.cell.clock().Now() }

// Rand is this actor's own random stream.
func (c *Context[M]) Rand() *rand.Rand {
	if c.cell.rng == nil {
		c.cell.rng = c.cell.sys.stream(c.cell.path, c.cell.incarnation)
	}
	return c.cell.rng
}

// Log is the system's log with this actor's path. In a simulation it is silent.
func (c *Context[M]) Log() *zerolog.Logger {
	if c.log == nil {
		c.log = &c.cell.sys.log
		if c.log.GetLevel() < zerolog.Disabled {
			l := c.log.With().Str("actor", c.cell.path).Logger()
			c.log = &l
		}
	}
	return c.log
}

// Incarnation counts from 1.
func (c *Context[M]) Incarnation() uint32 { return c.cell.incarnation }

// After sends m to this incarnation after d. If it crashes before, m is not sent. cancel may be
// called at any time.
func (c *Context[M]) After(d time.Duration, m M) (cancel func() bool) { return c.after(d, m) }

func (c *Context[M]) after(d time.Duration, m any) (cancel func() bool) {
	cell := c.cell
	e := envelope{msg: m, timer: cell.incarnation}
	return cell.clock().AfterFunc(d, func() { cell.post(e) })
}

// Stop stops this actor, after the current message, and its whole subtree.
func (c *Context[M]) Stop() { c.cell.stop() }

// StopChild stops a child of this actor. Its unread messages become dead letters.
func StopChild[M any, P any](c *Context[P], child Ref[M]) {
	if child.cell == nil {
		return
	}
	if !strings.HasPrefix(child.cell.path, c.cell.path+"/") {
		panic(fmt.Sprintf("%s stops %s, which is not below it", c.cell.path, child.cell.path))
	}
	child.cell.stop()
}

// ErrNameTaken says that an actor of that name exists, or is still stopping.
var ErrNameTaken = errors.New("an actor of that name is still there")

// Spawn makes a child of this actor.
func Spawn[M any, P any](parent *Context[P], spec Spec[M]) (Ref[M], error) {
	if err := spec.Validate(); err != nil {
		return Ref[M]{}, err
	}
	if spec.Runner == nil {
		spec.Runner = parent.cell.runner
	}
	c := newCell(parent.cell.sys, parent.cell, spec)
	if c.sys.cell(c.path) != nil {
		return spawned[M](c, ErrNameTaken)
	}
	return spawned[M](c, c.sys.spawn(c, parent.ac, props[M](c.sys, false), spec.Name))
}

// SpawnRoot makes a root actor: a node.
func SpawnRoot[M any](s *System, spec Spec[M]) (Ref[M], error) {
	if err := spec.Validate(); err != nil {
		return Ref[M]{}, err
	}
	c := newCell(s, nil, spec)
	if s.cell(c.path) != nil {
		return spawned[M](c, ErrNameTaken)
	}
	return spawned[M](c, s.spawn(c, s.actors.Root, props[M](s, true), spec.Name))
}

// StopRoot stops a root actor and its subtree; see System.Until.
func StopRoot[M any](r Ref[M]) {
	if r.cell != nil {
		r.cell.stop()
	}
}

// KillRoot ends a root actor and its subtree as the death of its process would: no Stop method
// runs, and no further message is handled. Its Runner is closed separately. For simulation and
// chaos.
func KillRoot[M any](r Ref[M]) {
	if r.cell == nil {
		return
	}
	for _, c := range r.cell.sys.subtree(r.cell.path) {
		c.kill()
	}
	r.cell.PostSystemMessage(&actor.Stop{})
}

func spawned[M any](c *cell, err error) (Ref[M], error) {
	if errors.Is(err, actor.ErrNameExists) {
		err = ErrNameTaken
	}
	if err != nil {
		return Ref[M]{}, fmt.Errorf("spawn %s: %w", c.path, err)
	}
	if r, ok := c.construct.(*reader[M]); ok {
		r.follow(c)
	}
	return Ref[M]{c}, nil
}

func newCell[M any](s *System, parent *cell, spec Spec[M]) *cell {
	sh := shape{kind: spec.Kind, policy: spec.Policy, limit: spec.MailboxLimit, protocol: reflect.TypeFor[M]()}
	if sh.kind == "" {
		sh.kind = spec.Name
	}
	if sh.policy == (Policy{}) {
		sh.policy = ForSingletons
	}
	if sh.limit == 0 {
		sh.limit = s.limit
	}
	c := &cell{sys: s, runner: spec.Runner, parent: parent, shape: s.shape(sh), path: spec.Name, label: spec.Label,
		construct: spec.New}
	if len(spec.Follows) > 0 {
		c.construct = &reader[M]{spec.New, spec.Follows}
	}
	if parent != nil {
		c.path = parent.path + "/" + spec.Name
	}
	return c
}
