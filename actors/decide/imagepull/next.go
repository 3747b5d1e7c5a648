package imagepull

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Plan is what waiters need now. Those in no list wait for a look, for an answer to a lookup, or for records.
type Plan struct {
	// LookUp are those of whom it has to be found out what they pull with, Ready those that have the image.
	LookUp, Ready []*Waiter
	// Never are those for whom it must not be pulled, HeldUp those in the backoff of their pod. Pull are those who need a
	// pull: the one that is under way, or a new one.
	Never, HeldUp, Pull []*Waiter
	// Look: it is to be looked for.
	Look bool
	// Again is when to decide again; zero: when something changes.
	Again time.Time
}

// Sooner sets an earlier time to decide again.
func (p *Plan) Sooner(at time.Time) {
	if p.Again.IsZero() || at.Before(p.Again) {
		p.Again = at
	}
}

// Next says what some of the waiters need: what they need changes nothing for the others, of which there may be
// thousands, until it is the image's turn to be pulled. verdicts say of each whether it may use the image that is
// there.
//
// A waiter that only needs to know whether the image is there never waits for a pull, nor for the backoff of one. A pod
// waits for its own backoff only, and shares a pull that is under way. One that may not use the image that is there
// gets what it would get if the image were absent.
func (i *Image) Next(those []*Waiter, verdicts []Verdict, e *Env) (p Plan) {
	blind := false
	for n, w := range those {
		if w.Ask.Policy != v1.PullAlways && !i.Fresh(e) {
			blind = true
			continue
		}
		decision := Decide(w.Ask.Policy, i.Name, i.Sight == Present)
		if decision == UsePresent {
			if verdicts[n] == Unverified {
				continue
			}
			decision = Decide(w.Ask.Policy, i.Name, verdicts[n] == Allowed)
		}
		switch decision {
		case UsePresent:
			p.Ready = append(p.Ready, w)
		case NeverPresent:
			p.Never = append(p.Never, w)
			p.Sooner(e.Now.Add(e.LookEvery))
		case Pull:
			switch {
			case !w.SecretsKnown(): // its pod says soon what it pulls with
			case i.NeedsLookup(w, e):
				p.LookUp = append(p.LookUp, w)
			case w.Lookup == LookingUp:
			case i.heldUp(w, e):
				p.HeldUp = append(p.HeldUp, w)
			default:
				p.Pull = append(p.Pull, w)
			}
		}
	}
	if blind && i.Look == NotLooking {
		if at := i.looks.RetryAt(LookBackoff()); e.Now.Before(at) {
			p.Sooner(at)
		} else {
			p.Look = true
		}
	}
	return p
}

// NeedsLookup says whether it has to be looked up what a waiter pulls with. The same that has failed fails again until
// its backoff is over; what it is then may be new.
func (i *Image) NeedsLookup(w *Waiter, e *Env) bool {
	if !e.Plugins || w.Lookup == LookingUp {
		return false
	}
	f := i.failures[w.Pod.UID]
	old := f.Count > 0 && !w.lookedUpAt.After(f.At) && !i.Stage.Under() && !e.Now.Before(f.RetryAt(e.Backoff))
	return w.Lookup == Unasked || old
}
