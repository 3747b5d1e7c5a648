// Package standalone is the actor that looks at the machine of a node without an apiserver. It tells those that use
// what the machine has, as nodestatus does on a node of a cluster.
//
//	standalone ──Machine──► facts      standalone ──Status──► runtime
//	standalone ──NodeSeen──► podset, volumes, cgroups
//
// After a restart the actor reads all again.
package standalone

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isMachineMessage() }

// look and ask are this actor's own timers, for the next reading of the machine and of the runtime.
type (
	look struct{}
	ask  struct{}
)

// read is what the machine has. machine is never changed.
type read struct {
	id      kernel.EffectID
	machine *port.Machine
	err     error
}

// answered is how the runtime is.
type answered struct {
	id     kernel.EffectID
	status port.RuntimeStatus
	err    error
}

func (look) isMachineMessage()     {}
func (ask) isMachineMessage()      {}
func (read) isMachineMessage()     {}
func (answered) isMachineMessage() {}

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	Status(ctx context.Context, done func(port.RuntimeStatus, error))
}

// Deps are what the actor needs.
type Deps struct {
	Facts port.NodeFacts
	// Runtime is asked for its features until it answers; nil: they are known.
	Runtime Runtime
	// Name and Labels are those of the node.
	Name   string
	Labels map[string]string
	// Known says whether that is what the agent read at its start, and need not be told.
	Known func(*port.Machine) bool
	// Seen publishes what the machine has, in the form that a Node shows it, when it has changed.
	Seen func(*v1.Node)
	// Deadline bounds a call.
	Deadline time.Duration
}

const (
	// lookEvery is the time between readings of the machine, askEvery that between questions to the runtime.
	lookEvery = time.Minute
	askEvery  = 10 * time.Second
)

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &actor{deps: deps} }
}

type actor struct {
	deps *Deps
	// reading and asking are the effects under way, 0 for none. Other results are late.
	reading, asking kernel.EffectID
	// machine was read last, nil for none; features are the runtime's, nil while they are not known.
	machine  *port.Machine
	features *v1.NodeFeatures
	// changed: it is not what the agent read at its start, or was not.
	changed bool
}

// Start implements kernel.Behavior.
func (a *actor) Start(ctx *kernel.Context[Message]) {
	a.changed = ctx.Incarnation() > 1 // perhaps
	a.look(ctx)
	if a.deps.Runtime != nil {
		a.ask(ctx)
	}
}

// Receive implements kernel.Behavior.
func (a *actor) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case look:
		a.look(ctx)
	case ask:
		a.ask(ctx)
	case read:
		if m.id == a.reading {
			a.read(ctx, m)
		}
	case answered:
		if m.id == a.asking {
			a.answered(ctx, m)
		}
	}
}

func (a *actor) look(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{Kind: "Machine", Lane: "machine", Deadline: a.deps.Deadline}
	a.reading = portcall.Do(ctx, e, a.deps.Facts.Machine,
		func(id kernel.EffectID, m *port.Machine, err error) Message { return read{id, m, err} })
	ctx.After(lookEvery, look{})
}

func (a *actor) read(ctx *kernel.Context[Message], m read) {
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot read the machine information (capacity, addresses); retrying")
		return
	}
	before := a.machine
	a.machine = m.machine
	if before != a.machine && (before != nil || a.changed || !a.deps.Known(a.machine)) {
		a.changed = true
		a.tell()
	}
}

func (a *actor) ask(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{Kind: "Status", Lane: "status", Deadline: a.deps.Deadline}
	a.asking = portcall.Do(ctx, e, a.deps.Runtime.Status,
		func(id kernel.EffectID, s port.RuntimeStatus, err error) Message { return answered{id, s, err} })
}

func (a *actor) answered(ctx *kernel.Context[Message], m answered) {
	if m.err != nil {
		ctx.After(askEvery, ask{})
		return
	}
	if a.features = m.status.Features; a.features != nil {
		a.changed = true
		a.tell()
	}
}

// tell says what there is now, unless that is what all know since the start.
func (a *actor) tell() {
	if !a.changed {
		return
	}
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.deps.Name, Labels: a.deps.Labels}}
	if m := a.machine; m != nil {
		n.Status.Capacity, n.Status.Allocatable, n.Status.Addresses = m.Capacity, m.Allocatable, m.Addresses
	}
	n.Status.Features = a.features
	a.deps.Seen(n)
}
