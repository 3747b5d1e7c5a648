// Package assignments is the actor that owns what containers have to themselves alone: CPUs (cpuManagerPolicy static).
// The decisions are in decide/assign.
//
//	pods ──Place, Release, Living──► assignments ──Answer──► pods
//	assignments ──Load, Save──► the state file (decide/cpustate)
//
// The state file is the kubelet's, so that a node can change from one agent to the other while containers have CPUs of
// their own. It is read once, and written before a pod is told of new CPUs. All other containers share the rest:
// each answer says what that is now.
//
//	loading ──loaded──► idle ──Place, Release──► saving ──saved──► idle
//	   │ └──retry──┘                               └──failed──► retry, later
//	   └ requests wait
//
// After a restart the actor reads the file again, and pods send their requests again.
package assignments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/assign"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/cpustate"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isAssignmentsMessage() }

// Place asks for what a pod's containers have to themselves. From pods, before a pod begins. An Answer follows. Lost:
// asked again when told that this actor restarted. Twice: answered twice, with the same CPUs.
type Place struct {
	Pod *v1.Pod
	// Number is in the answer too.
	Number uint64
}

// Release gives back what a pod has. From pods, when nothing of it runs. Lost: the next Living has it. Twice: as once.
type Release struct{ UID types.UID }

// Living says which pods there are: all others give back what they have. An Answer without pods follows. From pods,
// when all sources have reported: after its start and this actor's, and when it has missed messages. Lost: CPUs of pods
// that are gone stay taken until the next start. Twice: answered twice.
type Living struct{ Pods map[types.UID]bool }

// loaded is what the state file has. A file that is not there has no data.
type loaded struct {
	id   kernel.EffectID
	data []byte
	err  error
}

// saved is the result of writing the state file.
type saved struct {
	id  kernel.EffectID
	err error
}

// retry is this actor's own timer after the file could not be read or written.
type retry struct{}

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

func (Place) isAssignmentsMessage()   {}
func (Release) isAssignmentsMessage() {}
func (Living) isAssignmentsMessage()  {}
func (loaded) isAssignmentsMessage()  {}
func (saved) isAssignmentsMessage()   {}
func (retry) isAssignmentsMessage()   {}
func (missed) isAssignmentsMessage()  {}

// Answer says where the containers of some pods run.
type Answer struct {
	Pods []Placed
	// Shared are the CPUs of all containers without their own.
	Shared cpuset.CPUSet
}

// Placed is one pod's part of an answer.
type Placed struct {
	UID    types.UID
	Number uint64
	// Own are CPUs by the names of the containers that have them alone. It is shared, and never changed.
	Own map[string]cpuset.CPUSet
	// Rejected says why the pod can't be given what it asks for, nil if it can.
	Rejected *admit.Rejection
}

// Deps are what the actor needs.
type Deps struct {
	Rules *assign.Rules
	// Files has the state file, by its name.
	Files port.Checkpoints
	// Answer is sent to pods.
	Answer func(Answer)
	// Restarted is called when an incarnation after the first begins: requests were lost.
	Restarted func()
}

const retryAfter = 5 * time.Second

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &assignments{deps: deps} }
}

type assignments struct {
	deps *Deps
	// own is nil until the file was read.
	own assign.State
	// loading and saving are the effects under way, 0 for none. failed: the timer runs.
	loading, saving kernel.EffectID
	failed          bool
	// dirty: the file differs from own.
	dirty bool
	// waiting are requests from before the file was read. Each pod has one.
	waiting []Place
	// living is the newest Living from before then, gone are the pods of each Release.
	living map[types.UID]bool
	gone   []types.UID
	// writing are answers whose CPUs are being written, unwritten those of the next write.
	writing, unwritten []Placed
	missed             kernel.Missed[Message]
}

// Start implements kernel.Behavior.
func (a *assignments) Start(ctx *kernel.Context[Message]) {
	a.load(ctx)
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
	}
}

// Overflowed implements kernel.OverflowHandler.
func (a *assignments) Overflowed(ctx *kernel.Context[Message]) { a.missed.Ask(ctx, missed{}) }

// Receive implements kernel.Behavior.
func (a *assignments) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Place:
		a.place(ctx, m)
	case Release:
		a.release(m.UID)
		a.settle(ctx)
	case Living:
		a.keep(ctx, m.Pods)
	case loaded:
		a.loaded(ctx, m)
	case saved:
		a.saved(ctx, m)
	case retry:
		a.failed = false
		a.settle(ctx)
	case missed:
		a.missed.Asked()
		a.deps.Restarted()
	}
}

// known: the file was read.
func (a *assignments) known() bool { return a.own != nil }

func (a *assignments) load(ctx *kernel.Context[Message]) {
	e := kernel.Effect[Message]{Kind: "LoadState", Object: cpustate.Name, Lane: "state", Deadline: checkpoint.Deadline}
	a.loading = portcall.Do(ctx, e, func(c context.Context, done func([]byte, error)) {
		a.deps.Files.Load(c, cpustate.Name, done)
	}, func(id kernel.EffectID, data []byte, err error) Message { return loaded{id, data, err} })
}

func (a *assignments) loaded(ctx *kernel.Context[Message], m loaded) {
	if m.id != a.loading {
		return
	}
	a.loading = 0
	own, err := Read(a.deps.Rules, m.data)
	if m.err != nil {
		err = m.err
	}
	if err != nil {
		// It was right when the agent started: see Read.
		ctx.Log().Error().Str("file", cpustate.Name).Str("error", err.Error()).
			Msg("cannot read the state of the CPU manager; new pods wait until it can be read")
		a.later(ctx)
		return
	}
	a.own, a.dirty = own, m.data == nil
	for _, uid := range a.gone {
		a.release(uid)
	}
	if a.living != nil {
		a.drop(ctx, a.living)
	}
	waiting, asked := a.waiting, a.living != nil
	a.waiting, a.living, a.gone = nil, nil, nil
	a.decide(ctx, waiting...)
	if asked {
		a.announce()
	}
}

// Read is what a state file says that containers have to themselves. A node without the file has no data. The error
// says why this agent can't continue with it; the file stays as it is, because running containers have what it says.
func Read(rules *assign.Rules, data []byte) (assign.State, error) {
	if data == nil {
		return assign.State{}, nil
	}
	s, err := cpustate.Parse(data)
	if err != nil {
		return nil, err
	}
	if s.Policy != cpus.Static {
		if len(s.Own) > 0 {
			return nil, fmt.Errorf("it was written with cpuManagerPolicy %q, and has CPUs of %d pods", s.Policy, len(s.Own))
		}
		return assign.State{}, nil
	}
	return s.Own, rules.Check(s.Own, s.Shared)
}

func (a *assignments) place(ctx *kernel.Context[Message], m Place) {
	if a.known() {
		a.decide(ctx, m)
		return
	}
	a.waiting = append(slices.DeleteFunc(a.waiting, func(o Place) bool { return o.Pod.UID == m.Pod.UID }), m)
}

// decide chooses what pods get, and answers those that need not wait until that is in the file.
func (a *assignments) decide(ctx *kernel.Context[Message], requests ...Place) {
	var now []Placed
	for _, m := range requests {
		p := m.Pod
		own, why := a.deps.Rules.Place(a.own, p)
		if why == nil && len(own) > len(a.own[p.UID]) {
			a.own[p.UID], a.dirty = own, true
			ctx.Log().Info().Str("pod", p.Namespace+"/"+p.Name).Interface("cpus", own).
				Str("shared", a.deps.Rules.Shared(a.own).String()).Msg("containers get CPUs of their own")
		}
		answer := Placed{UID: p.UID, Number: m.Number, Own: own, Rejected: why}
		switch {
		case len(own) > 0 && a.dirty:
			a.unwritten = append(a.unwritten, answer)
		case len(own) > 0 && a.saving != 0:
			a.writing = append(a.writing, answer)
		default:
			now = append(now, answer)
		}
	}
	a.settle(ctx)
	if len(now) > 0 {
		a.tell(now)
	}
}

func (a *assignments) release(uid types.UID) {
	if !a.known() {
		a.gone = append(a.gone, uid)
		a.waiting = slices.DeleteFunc(a.waiting, func(o Place) bool { return o.Pod.UID == uid })
		return
	}
	if len(a.own[uid]) > 0 {
		delete(a.own, uid)
		a.dirty = true
	}
}

func (a *assignments) keep(ctx *kernel.Context[Message], living map[types.UID]bool) {
	if !a.known() {
		a.living = maps.Clone(living)
		return
	}
	a.living = nil
	a.drop(ctx, living)
	a.settle(ctx)
	a.announce()
}

// announce says what is shared, which pods may have missed. After a write that is said anyway.
func (a *assignments) announce() {
	if a.saving == 0 {
		a.tell(nil)
	}
}

// drop releases what all but some pods have.
func (a *assignments) drop(ctx *kernel.Context[Message], living map[types.UID]bool) {
	for uid := range a.own { // order-free: a set
		if !living[uid] {
			ctx.Log().Info().Str("uid", string(uid)).Msg("the CPUs of a pod that is gone are free")
			a.release(uid)
		}
	}
}

// settle begins what is due: reading, or writing, the file.
func (a *assignments) settle(ctx *kernel.Context[Message]) {
	switch {
	case a.failed || a.loading != 0 || a.saving != 0:
	case a.own == nil:
		a.load(ctx)
	case a.dirty:
		a.dirty = false
		a.writing, a.unwritten = a.unwritten, nil
		s := cpustate.State{Policy: cpus.Static, Shared: a.deps.Rules.Shared(a.own), Own: a.own}
		data := s.Format()
		e := kernel.Effect[Message]{Kind: "SaveState", Object: cpustate.Name, Lane: "state", Deadline: checkpoint.Deadline}
		a.saving = portcall.Do0(ctx, e, func(c context.Context, done func(error)) {
			a.deps.Files.Save(c, cpustate.Name, data, done)
		}, func(id kernel.EffectID, err error) Message { return saved{id, err} })
	}
}

func (a *assignments) saved(ctx *kernel.Context[Message], m saved) {
	if m.id != a.saving {
		return
	}
	a.saving = 0
	if m.err != nil {
		ctx.Log().Error().Str("file", cpustate.Name).Str("error", m.err.Error()).
			Msg("cannot write the state of the CPU manager; new pods with CPUs of their own wait until it is written")
		a.dirty = true
		a.unwritten, a.writing = append(a.writing, a.unwritten...), nil
		a.later(ctx)
		return
	}
	a.tell(a.writing) // none, if CPUs were only released
	a.writing = nil
	a.settle(ctx)
}

func (a *assignments) tell(pods []Placed) {
	a.deps.Answer(Answer{Pods: pods, Shared: a.deps.Rules.Shared(a.own)})
}

func (a *assignments) later(ctx *kernel.Context[Message]) {
	a.failed = true
	ctx.After(retryAfter, retry{})
}
