package images

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// secrets are what a pod pulls with.
type secrets struct {
	// known: of each it is known whether it is there.
	known bool
	found []*v1.Secret
	// absent are the names of those that can't be had.
	absent []string
}

func secretsOf(m pod.EnsureImage) secrets {
	s := secrets{known: true}
	for _, r := range podobjects.PullSecrets(m.Pod) {
		switch secret, err := m.Objects.Secret(r.Namespace, r.Name); {
		case err == nil:
			s.found = append(s.found, secret)
		case podobjects.StateOf(err) == podobjects.Unknown:
			s.known = false
		default:
			s.absent = append(s.absent, r.Name)
		}
	}
	return s
}

// offers are what a container may pull an image with, in the order in which it is tried: what fits of the pull secrets,
// of the docker configuration of the node, and of what plugins have answered.
func (w *waiter) offers(image string) []imagepull.Offer {
	var fit []imagepull.Offer
	if len(w.secrets.found) > 0 {
		fit, _ = imagepull.Credentials(image, w.secrets.found)
	}
	return append(fit, w.found.Offers...)
}

// credentials are those that are tried for an image, one after the other: those
// that fit, or none at all.
func (w *waiter) credentials(image string) []imagepull.Credential {
	var out []imagepull.Credential
	for _, o := range w.offers(image) {
		if !slices.Contains(out, o.Credential) {
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
	return !i.inherited && w.secrets.known &&
		(i.with == (imagepull.Credential{}) || slices.Contains(w.credentials(i.name), i.with))
}

// usable are the credentials with which a container may pull now: all that it has, or in the backoff of its pod those
// that it did not have when it failed. A pull secret may have come.
func (a *images) usable(i *image, w *waiter, now time.Time) (out []imagepull.Credential) {
	f := i.failures[w.pod.UID]
	held := now.Before(f.RetryAt(a.deps.Backoff))
	for _, c := range w.credentials(i.name) {
		if !held || !slices.Contains(f.with, c) {
			out = append(out, c)
		}
	}
	return out
}

// exhausted reports whether credentials were all tried, and failed.
func (i *image) exhausted(with []imagepull.Credential) bool {
	return !slices.ContainsFunc(with, func(c imagepull.Credential) bool {
		return !slices.ContainsFunc(i.tried, func(t attempt) bool { return t.with == c })
	})
}

// warnOfSecrets tells people of secrets that are not there, or hold nothing, when a pull has failed: the image may have
// needed none.
func (a *images) warnOfSecrets(ctx *kernel.Context[Message], i *image, w *waiter) {
	if len(w.secrets.found) == 0 && len(w.secrets.absent) == 0 {
		return
	}
	_, broken := imagepull.Credentials(i.name, w.secrets.found)
	if names := slices.Concat(w.secrets.absent, broken); len(names) > 0 {
		a.deps.Events.Record(port.Event{
			Pod: w.pod, Warning: true, Reason: "FailedToRetrieveImagePullSecret", At: ctx.Now(),
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); "+
				"attempting to pull the image may not succeed.", strings.Join(names, ", ")),
		})
	}
}
