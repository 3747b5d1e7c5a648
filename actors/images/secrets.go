package images

import (
	"fmt"
	"slices"
	"strings"

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

// untried are those of some waiters that have a credential that has not failed yet.
func (i *image) untried(waiters []*waiter) (out []*waiter) {
	for _, w := range waiters {
		if slices.ContainsFunc(w.credentials(i.name), func(c imagepull.Credential) bool {
			return !slices.Contains(i.tried, c)
		}) {
			out = append(out, w)
		}
	}
	return out
}

// anotherMayDo reports whether another credential may give what this one did not.
func anotherMayDo(err error) bool {
	switch port.KindOf(err) {
	case port.Unavailable, port.Deadline, port.Canceled, port.RegistryUnavailable, port.InvalidImageName,
		port.ImageSignature:
		return false
	default:
		return true
	}
}

// warnOfSecrets tells people of secrets that are not there, or hold nothing. It is
// pulled all the same: the image may need none.
func (a *images) warnOfSecrets(ctx *kernel.Context[Message], i *image, w *waiter) {
	if len(w.secrets.found) == 0 && len(w.secrets.absent) == 0 {
		return
	}
	_, broken := imagepull.Credentials(i.name, w.secrets.found)
	if names := slices.Concat(w.secrets.absent, broken); len(names) > 0 {
		a.event(ctx, w, true, "FailedToRetrieveImagePullSecret",
			fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.",
				strings.Join(names, ", ")))
	}
}
