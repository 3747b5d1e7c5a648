package podset

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

const (
	repeatEvery = 50 * time.Millisecond
	repeatBatch = 16
)

// round is the state of a repetition: pods are asked, a few at a time, to send again what another
// actor lost or this one missed.
type round struct {
	// missed: messages to this actor were dropped. asked: another actor lost the requests of
	// pods. Either begins another round after this one.
	missed, asked bool
	// going is true while a timer runs. left are the pods still to be asked. whole: this actor
	// missed messages, so pods also report again.
	going, whole bool
	left         []types.UID
}

// Overflowed implements kernel.OverflowHandler: it is unknown which messages were dropped, so all actors
// send theirs again, a few at a time.
func (a *registry) Overflowed(ctx *kernel.Context[Message]) {
	a.round.missed = true
	if !a.round.going {
		ctx.Log().Warn().Msg("mailbox overflow: messages were dropped; asking the other actors to resend")
		a.round.going = true
		ctx.After(repeatEvery, Repeat{})
	}
}

// askAgain begins a round, unless one is running.
func (a *registry) askAgain(ctx *kernel.Context[Message]) {
	a.places.told = false
	a.tellLiving()
	a.round.asked = true
	if !a.round.going {
		a.round.going = true
		a.repeat(ctx)
	}
}

// repeat continues a round of repetition, or begins the next. It never asks all pods at once:
// their answers may overflow the mailbox of the actor that asked, which would then ask forever.
func (a *registry) repeat(ctx *kernel.Context[Message]) {
	now := &a.round
	if len(now.left) == 0 {
		if !now.missed && !now.asked {
			now.going = false
			return
		}
		if now.whole = now.missed; now.whole {
			a.deps.Restarted()
			a.askChildren(ctx)
			a.places.told = false // what is shared may have been missed
			a.tellLiving()
		}
		now.missed, now.asked = false, false
		now.left = a.uids()
	}
	n := min(repeatBatch, len(now.left))
	for _, uid := range now.left[:n] {
		if r := a.of[uid]; r != nil {
			a.again(r)
			if now.whole {
				r.ref.Tell(pod.Repeat{})
			}
		}
	}
	now.left = now.left[n:]
	ctx.After(repeatEvery, Repeat{})
}

// again repeats the requests for a pod to other actors.
func (a *registry) again(r *record) {
	r.ref.Tell(pod.AskAgain{})
	a.placeAgain(r)
	if r.State == podset.Collecting {
		a.collect(r)
	}
}

func (a *registry) collect(r *record) {
	a.deps.Collect(r.podRef(), r.abandoned(), r.Lingers())
}
