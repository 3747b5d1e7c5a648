package kernel

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// EffectID names one effect of a system, for ever.
type EffectID uint64

// Effect is something to be done in the world, off the mailbox, whose result
// comes back as a message.
type Effect[M any] struct {
	// Kind is what is done (CreateContainer), Object to what (app): for people,
	// metrics and the usual duration.
	Kind, Object string
	// For is whom it is done for, if that is not its owner: the pod whose volume an
	// actor of all volumes mounts. For people.
	For string
	// Lane is the key on which this owner's effects run one at a time, in the
	// order in which they were asked for. Required.
	Lane string
	// Tag is the owner's own note, given back by InFlight to a later incarnation.
	Tag any
	// Pool names the slots that it needs one of, none if empty. Of those that
	// wait, the lowest Rank goes first; of equals, the one that waits longest.
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
	// Deadline bounds the run, counted from its start. Required, but for one
	// that is Standing: a stream or a watch, which is meant to continue. NoDeadline is
	// for work that ends with something else: its owner cancels it then.
	Deadline time.Duration
	Standing bool
	// Patience is how long it may well take: people are shown one that takes
	// longer. Zero for a few seconds.
	Patience time.Duration
	// Run begins the work and returns at once. It runs on whatever goroutine made
	// room for it. done is called once, from anywhere, with the result; ctx ends
	// at the deadline, and has a method AfterFunc(func()) func() bool that tells of
	// its end without a goroutine. If Run or Expired panics, the owner crashes.
	Run func(ctx context.Context, id EffectID, done func(M))
	// Expired is the message for a deadline that passed with no result. Required, but
	// for one that is Standing. The work may still have been done, and a result that comes later is still
	// delivered: it finds an ID that its owner waits for no more, and is a hint.
	Expired func(id EffectID) M
}

// NoDeadline is the Deadline of an effect that may take as long as it likes.
const NoDeadline time.Duration = math.MaxInt64

// EffectPhase is how far an effect got.
//
//	Queued ──lane and slot free──► Started ──done──► Finished
//	   │                              └──deadline──► Expired ──done after all──► Late
//	   └──owner crashed, stopped or cancelled it──► Dropped
//
// When its Runner is closed, one that had started is Dropped too.
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

// MarshalText writes the phase as a word.
func (p EffectPhase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// EffectInfo is what others may see of an effect.
type EffectInfo struct {
	ID     EffectID    `json:"id"`
	Kind   string      `json:"kind"`
	Object string      `json:"object,omitempty"`
	For    string      `json:"for,omitempty"`
	Lane   string      `json:"lane"`
	Phase  EffectPhase `json:"phase"`
	// Since is when it was asked for and, once it has started, when it did.
	Since time.Time `json:"since"`
	// Patience is how long it may well take; see Effect.
	Patience time.Duration `json:"patience,omitempty"`
	// Standing: it is meant to continue, and its age says nothing.
	Standing bool `json:"standing,omitempty"`
	// HoldsSlot is the pool it holds a slot of now, if any.
	HoldsSlot string `json:"holdsSlot,omitempty"`
	Tag       any    `json:"-"`
}

// Do asks for an effect. It is started as soon as its lane and a slot are free.
func (c *Context[M]) Do(e Effect[M]) EffectID {
	cell := c.cell
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
		ctx: effectContext{clock: cell.sys.clock},
	}
	cell.runner.add(&t.effect, e.Pool, e.Keeps)
	return t.ID
}

// Cancel gives up an effect of this place in the tree. One that waits is
// dropped, with no message. One that runs has its ctx ended, and keeps its lane
// until it answers or its deadline comes: that is told as ever. Any other ID
// does nothing.
func (c *Context[M]) Cancel(id EffectID) {
	if c.cell.runner != nil {
		c.cell.runner.cancel(c.cell, id)
	}
}

// InFlight are the effects of this place in the tree that are not finished,
// oldest first, those of earlier incarnations included. Overdue ones are not
// among them: their lanes are free.
func (c *Context[M]) InFlight() []EffectInfo {
	if c.cell.runner == nil {
		return nil
	}
	return c.cell.runner.inFlight(c.cell, false)
}

// EffectsOf is what InFlight of another actor of the same tree would be. It asks no actor.
func EffectsOf[M any, P any](c *Context[P], other Ref[M]) []EffectInfo {
	if other.cell == nil || other.cell.runner == nil {
		return nil
	}
	if root, _, _ := strings.Cut(c.cell.path, "/"); !strings.HasPrefix(other.cell.path, root+"/") {
		panic(fmt.Sprintf("%s asks for the effects of %s, which is not of its tree", c.cell.path, other.cell.path))
	}
	return other.cell.runner.inFlight(other.cell, false)
}

// typedEffect is an effect and what only its owner's protocol can say of it.
type typedEffect[M any] struct {
	effect
	run     func(context.Context, EffectID, func(M))
	expired func(EffectID) M
}

func (t *typedEffect[M]) begin(ctx context.Context, r *Runner) {
	t.run(ctx, t.ID, func(m M) { r.finish(&t.effect, &effectResult[M]{m, &t.effect}) })
}

func (t *typedEffect[M]) overdue() result { return &effectResult[M]{t.expired(t.ID), &t.effect} }

// result is what the mailbox and traces need to know of a result.
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
