package imagepull

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Queue gives the image its turn.
func (i *Image) Queue(at time.Time) {
	i.Become(Queued)
	i.TurnAt = at
}

// Begin begins a pull for waiters, with what they have one after the other. noted: its intent is written first.
func (i *Image) Begin(waiters []*Waiter, noted bool, e *Env) {
	if noted {
		i.Become(Noting)
	}
	i.Begun, i.TurnAt, i.left, i.tried, i.told = e.Now, time.Time{}, nil, nil, nil
	asked, seen := map[purse]bool{}, map[Credential]bool{}
	for _, w := range waiters {
		if asked[w.purse()] {
			continue
		}
		asked[w.purse()] = true
		for _, c := range i.usable(w, e) {
			if !seen[c] {
				seen[c] = true
				i.left = append(i.left, c)
			}
		}
	}
}

// Try begins with the next credential.
func (i *Image) Try() Credential {
	i.Become(Pulling)
	i.with, i.left = i.left[0], i.left[1:]
	i.by, i.parted = nil, purse{}
	return i.with
}

// HasNext says whether there is one more credential to try.
func (i *Image) HasNext() bool { return len(i.left) > 0 }

// Inherit notes that an earlier incarnation began a pull then.
func (i *Image) Inherit(begun time.Time) {
	i.Become(Inherited)
	i.Begun = begun
}

// End notes that the pull is over, or was given up.
func (i *Image) End() {
	i.Become(Idle)
	i.left = nil
}

// GiveUp notes that the pull under way is to end: its answer is waited for, or it does not begin.
func (i *Image) GiveUp() {
	if i.Stage == Inherited {
		i.Become(Disowned)
		return
	}
	i.Become(Leaving)
}

// GivenUp says that the pull under way is to end.
func (i *Image) GivenUp() bool { return i.Stage == Leaving || i.Stage == Disowned }

// Shared says that a pod waits for it.
func (i *Image) Shared() bool {
	return slices.ContainsFunc(i.Waiting, func(w *Waiter) bool { return !w.Lowest })
}

// Failure is how a call to pull has failed.
type Failure struct {
	Text string
	// MayGoOn: it may still bring the image. Down: no registry was asked.
	MayGoOn, Down bool
}

// Failed notes that the call under way has failed. again: with the next credential it may work. If not, the pull has
// ended; who is concerned is told by Concerned.
func (i *Image) Failed(f Failure) (again bool) {
	if i.Stage != Inherited { // else its credential is not known
		i.failedWith(i.with, f.Text)
	}
	if len(i.left) > 0 && len(i.Waiting) > 0 && !f.MayGoOn { // else: an image is pulled once at a time
		return true
	}
	i.Exhaust(f.Text)
	return false
}

// Exhaust ends the pull, and gives up what was not tried yet, with the error of what was.
func (i *Image) Exhaust(text string) {
	for _, c := range i.left {
		i.failedWith(c, text)
	}
	i.End()
}

// Worked notes that the call under way has brought the image, and gives by whose credentials. Whoever waits now and has
// the same was pulled for, too. A pull gives the reference; who needs the image's user looks at it then.
func (i *Image) Worked(began, now time.Time) (by []Offer) {
	inherited := i.Stage == Inherited || i.Stage == Disowned
	switch {
	case inherited: // nobody knows
	case i.with == (Credential{}):
		by = []Offer{{}} // it needs none
	default:
		by = append(i.by, i.owners()...)
	}
	i.by = nil
	i.End()
	i.ended, i.took, i.seenAt = now, now.Sub(began), time.Time{}
	known := map[purse]bool{}
	for _, w := range i.Waiting {
		p := w.purse()
		entitled, asked := known[p]
		if !asked {
			entitled = !inherited && i.entitled(w)
			known[p] = entitled
		}
		if entitled {
			i.bring(w)
		}
	}
	return by
}

func (i *Image) bring(w *Waiter) {
	if w.State = Brought; w.Ask.Policy != v1.PullAlways {
		return
	}
	w.Ask.Policy = v1.PullIfNotPresent // done for this incarnation
	if w.since.IsZero() {
		w.since = i.Begun // it waited for the end of its backoff, and need not pull now
	}
}

// entitled reports whether what a pull was made with lets a container have the image too: it has the same, or nothing
// was needed. A different credential does not.
func (i *Image) entitled(w *Waiter) bool {
	return w.SecretsKnown() && (i.with == (Credential{}) || w.has(i.with))
}

// Concerned are those for whom a pull was made that failed with all credentials that they have. One that was in a
// backoff of its own meanwhile only had no part in it.
func (i *Image) Concerned(e *Env) (out []*Waiter) {
	tried := make(map[Credential]bool, len(i.tried))
	for _, t := range i.tried {
		tried[t.with] = true
	}
	type share struct {
		of  purse
		pod types.UID
	}
	known := map[share]bool{}
	exhausted := func(w *Waiter) bool {
		s := share{w.purse(), w.Pod.UID}
		is, asked := known[s]
		if !asked {
			with := i.usable(w, e)
			is = len(with) > 0 && !slices.ContainsFunc(with, func(c Credential) bool { return !tried[c] })
			known[s] = is
		}
		return is
	}
	for _, w := range i.Waiting {
		if w.SecretsKnown() && w.Lookup != LookingUp && exhausted(w) &&
			Decide(w.Ask.Policy, i.Name, i.Sight == Present && w.Verdict != Refused) == Pull {
			out = append(out, w)
		}
	}
	return out
}

// owners are whose the credential of the pull under way is, among those who wait for the image.
func (i *Image) owners() (out []Offer) {
	asked, seen := map[purse]bool{}, map[Offer]bool{}
	for _, w := range i.Waiting {
		if asked[w.purse()] || !w.SecretsKnown() || w.Lowest {
			continue
		}
		asked[w.purse()] = true
		for o := range w.Offers() {
			if o.Credential == i.with && !seen[o] {
				seen[o] = true
				out = append(out, o)
			}
		}
	}
	return out
}

// mostParted is more offers than a record of a pull has.
const mostParted = 1000

// Part notes whose the credential of the pull under way was, before a waiter leaves or gets other ones.
func (i *Image) Part(w *Waiter) {
	if !i.Stage.Under() || !w.SecretsKnown() || w.Lowest || i.with == (Credential{}) || i.parted == w.purse() {
		return
	}
	i.parted = w.purse()
	for o := range w.Offers() {
		if o.Credential == i.with && !slices.Contains(i.by, o) && len(i.by) < mostParted {
			i.by = append(i.by, o)
		}
	}
}

// Tells says whether people are told that a container waits for a pull, which may be one that is under way for another
// pod: a kubelet makes one for each. The containers of a pod come one after the other there, so the first of them
// brings the image for those that must have it only. (image_manager.go EnsureImageExists, pullImage)
func (i *Image) Tells(w *Waiter, now time.Time) bool {
	if w.Ask.Ahead || i.Stage == Inherited {
		return false
	}
	first := !i.told[w.Pod.UID]
	if first {
		if i.told == nil {
			i.told = map[types.UID]bool{}
		}
		i.told[w.Pod.UID] = true
	}
	if !w.since.IsZero() || !first && w.Ask.Policy != v1.PullAlways {
		return false
	}
	w.since = now
	return true
}

// Serve gives a waiter the image, and what people are told: how long it has waited for a pull, and how much of that the
// pull took. verified: it is known that it may use an image that was there.
func (i *Image) Serve(w *Waiter, verified bool) (message string) {
	message = PresentMessage(i.Name, verified)
	if w.State == Brought && !w.since.IsZero() {
		waited := i.ended.Sub(w.since)
		message = PulledMessage(i.Name, min(i.took, waited), waited, i.Info.SizeBytes)
	}
	delete(i.failures, w.Pod.UID)
	w.State = Served
	return message
}
