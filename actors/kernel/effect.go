package kernel

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// EffectID names one effect of a system; it is never reused.
type EffectID uint64

// Effect is an action on the world, run off the mailbox. Its result comes back as a message.
type Effect[M any] struct {
	// Kind is the kind of action (CreateContainer), Object its object (app): for people, metrics and
	// the usual duration.
	Kind, Object string
	// For is on whose behalf it runs, if that is not its owner: the pod whose volume is mounted by the
	// actor of all volumes. For people, for Pool.Fair, and see Run.
	For string
	// Lane is the key on which this owner's effects run one at a time, in the order of Do. Required.
	Lane string
	// Tag is the owner's own note. InFlight returns it to a later incarnation.
	Tag any
	// Pool is the pool that it needs a slot of; empty for none. The lowest Rank gets a slot first, and
	// among equals the one that has waited longest (or see Pool.Fair).
	Pool string
	Rank int64
	// MaxQueue is the maximum wait for a slot. After that the effect starts without
	// one. Zero means no maximum.
	MaxQueue time.Duration
	// Keeps, instead of Pool, is for a step between two steps that need slots: the
	// effect uses the slot of this pool that its owner kept from the last step, if
	// there is one. Otherwise it starts without a slot.
	Keeps string
	// Idles: the effect mostly waits (network, timers, a grace period), so it is no
	// CPU load. The more effects of its kind run without a slot, the sooner each one
	// gives its slot back, so that no effect waits long for its start.
	Idles bool
	// Deadline bounds the run, counted from its start. Required, unless Standing: a stream or a watch,
	// which is meant to continue. NoDeadline is for work with another end: its owner cancels it then.
	Deadline time.Duration
	Standing bool
	// Patience is how long it may normally take. If it takes longer, people are told. Zero means a few
	// seconds.
	Patience time.Duration
	// Run begins the work and returns at once. It runs on the goroutine that made room for it. done is
	// called once, from any goroutine, with the result. ctx ends at the deadline, and has a method
	// AfterFunc(func()) func() bool that reports its end without a goroutine. If Run or Expired
	// panics, the owner crashes. If a goroutine that Run started panics, the call has failed (package rescue), and the
	// actor that the effect is For crashes, or else the owner, unless its policy is to escalate: then that is reported.
	Run func(ctx context.Context, id EffectID, done func(M))
	// Expired is the message for a deadline that passed without a result. Required, unless Standing.
	// The work may still have been done. A later result is still delivered, but its owner no longer
	// awaits that ID: it is a hint.
	Expired func(id EffectID) M
}

// NoDeadline is the Deadline of an effect whose run time is not bounded.
const NoDeadline time.Duration = math.MaxInt64

// EffectPhase is the progress of an effect.
//
//	Queued ──lane and slot free──► Started ──done──► Finished
//	   │                              └──deadline──► Expired ──done after all──► Late
//	   └──owner crashed, stopped or cancelled it──► Dropped
//
// Closing the Runner drops even effects that have started.
type EffectPhase uint8

const (
	EffectQueued EffectPhase = iota
	EffectStarted
	EffectFinished
	EffectExpired
	EffectLate
	EffectDropped
)

func (p EffectPhase) String() string {
	switch p {
	case EffectQueued:
		return "queued"
	case EffectStarted:
		return "running"
	case EffectFinished:
		return "finished"
	case EffectExpired:
		return "overdue"
	case EffectLate:
		return "late"
	case EffectDropped:
		return "dropped"
	default:
		return fmt.Sprintf("EffectPhase(%d)", uint8(p))
	}
}

// MarshalText gives the phase as a word.
func (p EffectPhase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// WaitedForLane is EffectInfo.WaitedFor of an effect that had to wait for its lane.
const WaitedForLane = "lane"

// EffectInfo is the public view of an effect.
type EffectInfo struct {
	ID     EffectID    `json:"id"`
	Kind   string      `json:"kind"`
	Object string      `json:"object,omitempty"`
	For    string      `json:"for,omitempty"`
	Lane   string      `json:"lane"`
	Phase  EffectPhase `json:"phase"`
	// Since is when it was queued or, once it has started, when it started.
	Since time.Time `json:"since"`
	// Patience is how long it may normally take; see Effect.
	Patience time.Duration `json:"patience,omitempty"`
	// Standing: it is meant to continue, so its age does not matter.
	Standing bool `json:"standing,omitempty"`
	// HoldsSlot is the pool of the slot that it holds; empty for none.
	HoldsSlot string `json:"holdsSlot,omitempty"`
	// WaitedFor is the pool that it had to wait for a slot of, or WaitedForLane if it had to wait only for an
	// earlier effect of its owner; empty if neither.
	WaitedFor string `json:"waitedFor,omitempty"`
	Tag       any    `json:"-"`
}

// Do queues an effect. It starts when its lane and a slot are free.
func (c *Context[M]) Do(e Effect[M]) EffectID {
	cell := c.cell
	if d := cell.sys.interceptor; d != nil {
		d.send()
	}
	if cell.runner == nil {
		panic(fmt.Sprintf("actor %s has no runner for its effect %s", cell.path, e.Kind))
	}
	if e.Standing != (e.Deadline <= 0) || e.Run == nil || !e.Standing && e.Expired == nil || e.Lane == "" ||
		e.Pool != "" && e.Keeps != "" {
		panic(fmt.Sprintf(
			"effect %s of %s needs a lane, a Run, a deadline with an Expired unless it is standing, and Pool or Keeps at most",
			e.Kind, cell.path,
		))
	}
	t := &typedEffect[M]{run: e.Run, expired: e.Expired}
	t.effect = effect{
		EffectInfo: EffectInfo{
			ID: EffectID(cell.sys.effectSeq.Add(1)), Kind: e.Kind, Object: e.Object, For: e.For, Lane: e.Lane, Tag: e.Tag,
			Standing: e.Standing, Patience: e.Patience,
		},
		owner: cell, rank: e.Rank, idles: e.Idles, maxQueue: e.MaxQueue, deadline: e.Deadline, work: t,
		ctx: effectContext{clock: cell.runner.clock},
	}
	t.ctx.effect = &t.effect
	cell.runner.add(&t.effect, e.Pool, e.Keeps)
	return t.ID
}

// Cancel gives up an effect of this path. A queued one is dropped, without a message, which Cancel reports. A running
// one has its ctx ended, and keeps its lane until it answers or its deadline passes: the message for
// that comes as usual. Any other ID does nothing.
func (c *Context[M]) Cancel(id EffectID) (dropped bool) {
	return c.cell.runner != nil && c.cell.runner.cancel(c.cell, id)
}

// InFlight are the unfinished effects of this path, including those of earlier incarnations, oldest
// first. Overdue ones are left out, because their lanes are free.
func (c *Context[M]) InFlight() []EffectInfo {
	if c.cell.runner == nil {
		return nil
	}
	return c.cell.runner.inFlight(c.cell, false)
}

// EffectsOf is InFlight of another actor of the same tree. It asks no actor.
func EffectsOf[M any, P any](c *Context[P], other Ref[M]) []EffectInfo {
	if other.cell == nil || other.cell.runner == nil {
		return nil
	}
	if root, _, _ := strings.Cut(c.cell.path, "/"); !strings.HasPrefix(other.cell.path, root+"/") {
		panic(fmt.Sprintf("%s asks for the effects of %s, which is not of its tree", c.cell.path, other.cell.path))
	}
	return other.cell.runner.inFlight(other.cell, false)
}

// typedEffect is an effect with the parts that have its owner's message type.
type typedEffect[M any] struct {
	effect
	run     func(context.Context, EffectID, func(M))
	expired func(EffectID) M
}

func (t *typedEffect[M]) begin(ctx context.Context, r *Runner) {
	t.run(ctx, t.ID, func(m M) { r.finish(&t.effect, &effectResult[M]{m, &t.effect}) })
}

func (t *typedEffect[M]) overdue() result { return &effectResult[M]{t.expired(t.ID), &t.effect} }

// result is what the mailbox and traces need from a result.
type result interface {
	payload() any
	// handled is called when the owner has handled it.
	handled()
}

type effectResult[M any] struct {
	msg    M
	effect *effect
}

func (r *effectResult[M]) handled() { r.effect.owner.runner.settle(r.effect) }

func (r *effectResult[M]) payload() any { return r.msg }
