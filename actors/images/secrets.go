package images

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// offers are what a container may pull an image with, in the order in which it is tried: what fits of the pull secrets,
// of the docker configuration of the node, and of what plugins have answered.
func (w *waiter) offers() iter.Seq[imagepull.Offer] {
	return func(yield func(imagepull.Offer) bool) {
		for o := range w.secrets.All() {
			if !yield(o) {
				return
			}
		}
		for _, o := range w.found.Offers {
			if !yield(o) {
				return
			}
		}
	}
}

// purse tells apart what waiters may pull an image with: the containers of a pod have the same pull secrets. There may
// be thousands of containers, and of credentials.
type purse struct {
	fit   *imagepull.Fit
	found *imagepull.Offer // the first
}

func (w *waiter) purse() purse {
	p := purse{fit: w.secrets}
	if len(w.found.Offers) > 0 {
		p.found = &w.found.Offers[0]
	}
	return p
}

// credentials are those that are tried for an image, one after the other: those
// that fit, or none at all.
func (w *waiter) credentials() []imagepull.Credential {
	out := make([]imagepull.Credential, 0, w.secrets.Len()+len(w.found.Offers))
	seen := make(map[imagepull.Credential]bool, cap(out))
	for o := range w.offers() {
		if !seen[o.Credential] {
			seen[o.Credential] = true
			out = append(out, o.Credential)
		}
	}
	if len(out) == 0 {
		return nothing
	}
	return out
}

// nothing is to pull without a credential.
var nothing = []imagepull.Credential{{}}

// entitled reports whether what a pull was made with lets a container have the image too:
// it has the same, or nothing was needed. A different credential does not.
func (i *image) entitled(w *waiter) bool {
	return !i.inherited && w.secretsKnown() && (i.with == (imagepull.Credential{}) || w.has(i.with))
}

// entitlement is entitled for many waiters.
func (i *image) entitlement() func(*waiter) bool {
	known := map[purse]bool{}
	return func(w *waiter) bool {
		p := w.purse()
		is, asked := known[p]
		if !asked {
			is = i.entitled(w)
			known[p] = is
		}
		return is
	}
}

func (w *waiter) secretsKnown() bool { return w.secrets != nil && w.secrets.Known }

func (w *waiter) has(c imagepull.Credential) bool {
	for o := range w.offers() {
		if o.Credential == c {
			return true
		}
	}
	return false
}

// heldUp reports whether a container waits for the backoff of its pod: it failed with all that the container may pull
// with. A pull secret may have come.
func (a *images) heldUp(i *image, w *waiter, now time.Time) bool {
	f := i.failures[w.pod.UID]
	if !now.Before(f.RetryAt(a.deps.Backoff)) {
		return false
	}
	p := w.purse()
	if f.all[p] {
		return true
	}
	for _, c := range w.credentials() {
		if !f.with[c] {
			return false
		}
	}
	f.all[p] = true
	return true
}

// usable are the credentials with which a container may pull now: all that it has, or in the backoff of its pod those
// that it did not have when it failed.
func (a *images) usable(i *image, w *waiter, now time.Time) []imagepull.Credential {
	all := w.credentials()
	f := i.failures[w.pod.UID]
	if !now.Before(f.RetryAt(a.deps.Backoff)) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(c imagepull.Credential) bool { return f.with[c] })
}

// warnOfSecrets tells people of secrets that are not there, or hold nothing, when a pull has failed: the image may have
// needed none.
func (a *images) warnOfSecrets(ctx *kernel.Context[Message], w *waiter) {
	if names := w.secrets.Unusable(); len(names) > 0 {
		a.deps.Events.Record(port.Event{
			Pod: w.pod, Warning: true, Reason: "FailedToRetrieveImagePullSecret", At: ctx.Now(),
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
				"attempting to pull the image may not succeed.", strings.Join(names, ", ")),
		})
	}
}
