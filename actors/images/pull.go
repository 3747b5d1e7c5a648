package images

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// pull begins to pull for waiters, with what they have one after the other.
func (a *images) pull(ctx *kernel.Context[Message], i *image, waiters []*waiter) {
	i.next, i.tried, i.told, i.inherited = nil, nil, nil, false
	asked, seen := map[purse]bool{}, map[imagepull.Credential]bool{}
	for _, w := range waiters {
		a.tellPulling(ctx, i, w)
		if asked[w.purse()] {
			continue
		}
		asked[w.purse()] = true
		for _, c := range a.usable(i, w, ctx.Now()) {
			if !seen[c] {
				seen[c] = true
				i.next = append(i.next, c)
			}
		}
	}
	i.begun = ctx.Now()
	if a.deps.Records != nil {
		a.intend(ctx, i)
		return
	}
	a.pullNext(ctx, i, waiters[0].forPod())
}

// tellPulling tells people that a container waits for a pull, which may be one that is under way for another pod: a
// kubelet makes one for each. The containers of a pod come one after the other there, so the first of them brings the
// image for those that must have it only. (image_manager.go EnsureImageExists, pullImage)
func (a *images) tellPulling(ctx *kernel.Context[Message], i *image, w *waiter) {
	if w.ask.Ahead || i.inherited {
		return
	}
	first := !i.told[w.pod.UID]
	if first {
		if i.told == nil {
			i.told = map[types.UID]bool{}
		}
		i.told[w.pod.UID] = true
	}
	if !w.since.IsZero() || !first && w.ask.Policy != v1.PullAlways {
		return
	}
	w.since = ctx.Now()
	a.event(ctx, w, false, "Pulling", fmt.Sprintf("Pulling image %q", i.name))
}

// pulledMessage says how long a container has waited for a pull, and how much of that the pull took.
func (i *image) pulledMessage(w *waiter) string {
	waited := i.ended.Sub(w.since)
	return imagepull.PulledMessage(i.name, min(i.took, waited), waited, i.info.SizeBytes)
}

// pullNext begins a pull with the next credential. Which pod it is for the
// runtime may want to know; nil for none.
func (a *images) pullNext(ctx *kernel.Context[Message], i *image, p *v1.Pod) {
	name := i.name
	i.with, i.next = i.next[0], i.next[1:]
	i.by, i.parted = nil, purse{}
	a.asksFor(name)
	var auth *port.ImageAuth
	if i.with != (imagepull.Credential{}) {
		auth = &port.ImageAuth{Username: i.with.Username, Password: i.with.Password}
	}
	kind, pool := pullKind, PullPool
	if a.lowest != nil && a.lowest.ask.Image == name {
		kind, pool = pullAheadKind, AheadPool
	}
	i.pulling = portcall.Do(ctx, kernel.Effect[Message]{
		Kind: kind, Object: name, Lane: "pull/" + name, Pool: pool, Rank: a.pullsFor(i, p), Tag: name,
		Deadline: a.deps.PullDeadline, Patience: time.Minute,
	}, func(c context.Context, done func(pulled, error)) {
		m := pulled{image: name, began: kernel.Now(c)}
		a.deps.Runtime.PullImage(c, port.PullImage{Image: name, Pod: p, Auth: auth}, func(ref string, err error) {
			m.ref = ref
			done(m, err)
		})
	}, func(id kernel.EffectID, m pulled, err error) Message {
		m.id, m.image, m.err = id, name, err
		return m
	})
	i.asked = i.pulling
}

// cancelPull gives up the call of the runtime under way for an image, if there is one. dropped: it waited for a slot,
// and is over. Else the runtime answers it.
func (a *images) cancelPull(ctx *kernel.Context[Message], i *image) (begun, dropped bool) {
	if i.pulling == 0 || i.pulling != i.asked {
		return false, false // before it begins, it is seen that it is not to: see noted
	}
	if dropped = ctx.Cancel(i.pulling); dropped {
		i.pulling = 0
		a.pullsFor(i, nil)
	}
	return true, dropped
}

// abandon gives up a pull that no pod waits for any more, as a kubelet does when a pod is deleted or evicted. It would
// hold its slot, and fill the disk, for nobody.
func (a *images) abandon(ctx *kernel.Context[Message], i *image) {
	if len(i.waiting) > 0 || i.abandoned {
		return
	}
	begun, dropped := a.cancelPull(ctx, i)
	if i.abandoned = begun && !dropped; dropped {
		i.next = nil
		a.notPulled(ctx, i.name, nil) // the runtime was not asked
	}
}

func (a *images) pulled(ctx *kernel.Context[Message], m pulled) {
	i := a.of[m.image]
	if (i == nil || i.pulling != m.id) && m.err == nil {
		a.record(ctx, m.ref, m.image, nil, a.idle(m.image)) // it was given up, and has worked after all
	}
	if m.err != nil && a.idle(m.image) {
		a.settle(ctx, m.image) // it was given up, and may have brought the image before it failed
	}
	if i == nil {
		return
	}
	if i.pulling != m.id {
		i.checkedAt = time.Time{} // late: look
		a.advance(ctx, i)
		return
	}
	i.pulling = 0
	a.pullsFor(i, nil)
	i.checking = 0 // what is being looked at is from before
	a.lowestPulled(ctx, i, &m)
	abandoned := i.abandoned
	if i.abandoned = false; abandoned && m.err != nil { // who waits now came later
		i.next = nil
		a.notPulled(ctx, i.name, m.err)
		a.advance(ctx, i)
		a.drop(ctx, i)
		return
	}
	if m.err != nil {
		if !i.inherited {
			i.failedWith(i.with, m.err)
		}
		if len(i.next) > 0 && len(i.waiting) > 0 && !mayGoOn(m.err) {
			a.pullNext(ctx, i, i.waiting[0].forPod())
			return
		}
		i.exhaust(m.err) // if it may go on: an image is pulled once at a time
		a.notPulled(ctx, i.name, m.err)
		a.failed(ctx, i, a.concerned(ctx, i), port.KindOf(m.err) == port.Unavailable, i.why())
		return
	}
	a.recordPull(ctx, i, m.ref)
	// A pull gives the reference; who needs the image's user looks at it now. It
	// was made for those who have what it was made with. The event tells the size, so it comes with the look.
	i.ended = ctx.Now()
	i.took = i.ended.Sub(m.began)
	entitled := i.entitlement()
	for _, w := range i.waiting {
		if !entitled(w) {
			continue
		}
		if w.pulled = true; w.ask.Policy == v1.PullAlways {
			w.ask.Policy = v1.PullIfNotPresent // done for this incarnation
			if w.since.IsZero() {
				w.since = i.begun // it waited for the end of its backoff, and need not pull now
			}
		}
	}
	i.checkedAt = time.Time{}
	a.advance(ctx, i)
	a.drop(ctx, i)
}

// concerned are those for whom a pull was made that failed with all credentials that they have. One that was in a
// backoff of its own meanwhile only had no part in it.
func (a *images) concerned(ctx *kernel.Context[Message], i *image) (out []*waiter) {
	tried := make(map[imagepull.Credential]bool, len(i.tried))
	for _, t := range i.tried {
		tried[t.with] = true
	}
	type share struct {
		of  purse
		pod types.UID
	}
	known := map[share]bool{}
	exhausted := func(w *waiter) bool {
		s := share{w.purse(), w.pod.UID}
		is, asked := known[s]
		if !asked {
			with := a.usable(i, w, ctx.Now())
			is = len(with) > 0 && !slices.ContainsFunc(with, func(c imagepull.Credential) bool { return !tried[c] })
			known[s] = is
		}
		return is
	}
	for _, w := range i.waiting {
		if w.secretsKnown() && w.looking == 0 && exhausted(w) &&
			imagepull.Decide(w.ask.Policy, i.name, i.present && w.verdict != refused) == imagepull.Pull {
			out = append(out, w)
		}
	}
	return out
}

// exhaust gives up what was not tried yet, with the error of what was.
func (i *image) exhaust(err error) {
	for _, c := range i.next {
		i.failedWith(c, err)
	}
	i.next = nil
}

// failedWith notes why a pull failed with one credential. There may be tens of thousands, each with a text of its own.
func (i *image) failedWith(c imagepull.Credential, err error) {
	text := detail(err)
	if n := len(i.tried); n > 0 && i.tried[n-1].err == text {
		text = i.tried[n-1].err // as a rule all are the same
	} else if n >= wholeTexts {
		text = strings.Clone(strings.ToValidUTF8(text[:min(len(text), shortText)], ""))
	}
	i.tried = append(i.tried, attempt{c, text})
}

// wholeTexts is how many of these texts are kept as they are, shortText what is kept of the others, in bytes.
const wholeTexts, shortText = 500, 100

// why is what a container is told of a pull that failed: what its own credentials got, and which of its plugins failed.
func (i *image) why() func(*waiter) string {
	known := map[purse]string{}
	return func(w *waiter) string {
		p := w.purse()
		text, asked := known[p]
		if !asked {
			own := map[imagepull.Credential]bool{}
			for _, c := range w.credentials() {
				own[c] = true
			}
			var texts []string
			for _, t := range i.tried {
				if own[t.with] {
					texts = append(texts, t.err)
				}
			}
			text = imagepull.PullError(texts)
			known[p] = text
		}
		return strings.Join(append([]string{text}, w.found.Failures...), "; ")
	}
}

// failed begins the backoffs of those for whom a pull failed. down: no registry was asked, so the wait does not grow.
func (a *images) failed(
	ctx *kernel.Context[Message], i *image, concerned []*waiter, down bool, why func(*waiter) string,
) {
	now := ctx.Now()
	for _, w := range concerned {
		text := why(w)
		reason, message := imagepull.PullFailure(i.name, text)
		f := i.failures[w.pod.UID]
		if !now.Before(f.RetryAt(a.deps.Backoff)) || f.with == nil {
			f.with, f.all = map[imagepull.Credential]bool{}, map[purse]bool{}
		}
		if !f.all[w.purse()] { // of each of its containers
			f.all[w.purse()] = true
			for _, c := range w.credentials() {
				f.with[c] = true
			}
		}
		f.inTurn = f.inTurn || !w.ask.Ahead
		if !f.At.Equal(now) { // else another container of the pod waits as well
			if down || now.Sub(f.At) > 2*a.deps.Backoff.Max { // or it is too long ago to count
				f.Count = 0
			}
			f.Failures = f.Failed(reason, message, now)
		}
		i.failures[w.pod.UID] = f
		w.since = time.Time{}
		a.event(ctx, w, true, "Failed", fmt.Sprintf("Failed to pull image %q: %s", i.name, text))
		if reason == imagepull.ErrImagePull {
			a.warnOfSecrets(ctx, w)
		}
	}
	a.backOff(ctx, i, concerned)
	a.advance(ctx, i)
	a.drop(ctx, i)
}

// backOff tells waiters why they wait for a pull, and gives when that changes:
// from what happened to the back-off, and then to the next try. In between it
// is checked whether the image was loaded by other means.
func (a *images) backOff(ctx *kernel.Context[Message], i *image, held []*waiter) (next time.Time) {
	now := ctx.Now()
	for _, w := range held {
		reason, message, until := i.failures[w.pod.UID].Status(a.deps.Backoff, i.name, now)
		next = sooner(next, until)
		if reason == imagepull.ImagePullBackOff && w.told.Reason != reason {
			a.event(ctx, w, false, "BackOff", imagepull.BackOffMessage(i.name))
		}
		a.tell(w, imagepull.Image{State: imagepull.Failed, Reason: reason, Message: message})
		if w.ask.Policy != v1.PullAlways {
			next = sooner(next, now.Add(a.deps.LookEvery))
		}
	}
	return next
}

// owners are whose the credential of the pull under way is, among those who wait for the image.
func (i *image) owners() (out []imagepull.Offer) {
	asked, seen := map[purse]bool{}, map[imagepull.Offer]bool{}
	for _, w := range i.waiting {
		if asked[w.purse()] || !w.secretsKnown() || w.prepull != nil {
			continue
		}
		asked[w.purse()] = true
		for o := range w.offers() {
			if o.Credential == i.with && !seen[o] {
				seen[o] = true
				out = append(out, o)
			}
		}
	}
	return out
}

// parts notes whose the credential of the pull under way was, before a waiter leaves or gets other ones.
func (i *image) parts(w *waiter) {
	if i.pulling == 0 || !w.secretsKnown() || w.prepull != nil || i.with == (imagepull.Credential{}) || i.parted == w.purse() {
		return
	}
	i.parted = w.purse()
	for o := range w.offers() {
		if o.Credential == i.with && !slices.Contains(i.by, o) && len(i.by) < mostParted {
			i.by = append(i.by, o)
		}
	}
}

// mostParted is more offers than a record of a pull has.
const mostParted = 1000

// recordPull notes with whose credentials an image was pulled. Whoever waits now and has the same was pulled for, too.
func (a *images) recordPull(ctx *kernel.Context[Message], i *image, ref string) {
	var by []imagepull.Offer
	switch {
	case i.inherited: // nobody knows
	case i.with == (imagepull.Credential{}):
		by = []imagepull.Offer{{}} // it needs none
	default:
		by = append(i.by, i.owners()...)
	}
	a.record(ctx, ref, i.name, by, true)
	i.by = nil
}
