package images_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestCredentials: they are tried one after the other, whatever the one before got, and all over again after the backoff.
func TestCredentials(t *testing.T) {
	for _, text := range []string{
		"pull access denied", "429 Too Many Requests", "503 Service Unavailable", "x509: certificate has expired",
		"unexpected EOF", "dial tcp: i/o timeout", "RegistryUnavailable: away", "SignatureValidationFailed: no key",
	} {
		r := newRig(t)
		ask := r.asks("a", v1.PullAlways, secret("ann", podobjects.Found), secret("bob", podobjects.Found))
		r.actor.Tell(ask)
		r.runtime.Answer(refused(port.Other, text), pull+" as ann")
		r.WantByListener("the second", "runtime: "+pull+" as ann", "runtime: "+pull+" as bob")
		r.runtime.Answer(refused(port.ImageNotFound, noTag), pull+" as bob")
		r.WantByListener("both failed", "a: app waits: ErrImagePull: ["+text+", "+noTag+"]")
		r.Advance(base)
		r.Forget()
		r.runtime.Answer(refused(port.Unavailable, noTag), pull+" as ann")
		r.runtime.Answer(refused(port.Unavailable, noTag), pull+" as bob")
		r.WantByListener("the same twice", "runtime: "+pull+" as bob", "a: app waits: ErrImagePull: "+noTag)
	}
}

// TestAnotherCredential: a pod that has another waits for the pull under way, and then pulls with its own.
func TestAnotherCredential(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found)))
	r.WantByListener("it pulls", "runtime: "+pull+" as ann")
	r.actor.Tell(r.asks("b", v1.PullAlways, secret("bob", podobjects.Found)))
	r.WantByListener("another waits")
	r.runtime.Answer(refused(port.Other, noTag), pull+" as ann")
	r.WantByListener("the failure is not its own", "a: app waits: ErrImagePull: "+noTag, "runtime: "+pull+" as bob")
	r.runtime.Answer(nil, pull+" as bob")
	r.WantByListener("it has it", "runtime: "+look)
	r.runtime.Answer(nil, look)
	r.WantByListener("and the first has not", "b: "+ready)
	r.Advance(base)
	r.Keep("runtime: ")
	r.WantByListener("until its backoff is over", "runtime: "+pull+" as ann")
	r.runtime.Answer(nil, pull+" as ann")
	r.runtime.Answer(nil, look)
	r.WantByListener("then it pulls", "runtime: "+look, "a: "+ready)
}

// TestCredentialsOfContainers: two containers of a pod have different credentials. What one has failed with is not new
// because the other failed later: both wait for the backoff.
func TestCredentialsOfContainers(t *testing.T) {
	r := newRig(t)
	other := r.asks("a", v1.PullAlways, secret("bob", podobjects.Found))
	other.Ask.Container = "other"
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found)))
	r.actor.Tell(other)
	r.runtime.Answer(refused(port.Other, noTag), pull+" as ann")
	r.runtime.Answer(refused(port.Other, noTag), pull+" as bob")
	r.Keep("runtime: ")
	r.WantByListener("each once", "runtime: "+pull+" as ann", "runtime: "+pull+" as bob")
	r.Advance(base - time.Millisecond)
	r.Keep("runtime: ")
	r.WantByListener("none within the backoff")
}

// TestSecretComesLater: it is pulled with it at once, and with it only, until the backoff is over.
func TestSecretComesLater(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found)))
	r.runtime.Answer(refused(port.Other, noTag), pull+" as ann")
	r.Advance(2 * time.Second)
	r.Forget()
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found), secret("bob", podobjects.Found)))
	r.runtime.Answer(refused(port.Other, "nor this"), pull+" as bob")
	r.WantByListener("at once", "runtime: "+pull+" as bob", "a: app waits: ErrImagePull: nor this")
	r.Advance(2*base - time.Millisecond)
	r.Keep("runtime: ")
	r.WantByListener("and then twice as long")
	r.Advance(time.Millisecond)
	r.WantByListener("all over again", "runtime: "+pull+" as ann")
}

// TestSecretNotKnownYet: it is not pulled before the pod says what with. One that is not there is told of if that fails.
func TestSecretNotKnownYet(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Unknown)))
	r.WantByListener("waits")
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Missing)))
	r.WantByListener("without", "runtime: "+pull)
	r.events.WantByListener("it may need none", `a: Pulling: Pulling image "`+img+`"`)
	r.runtime.Answer(refused(port.Other, noTag), pull)
	r.events.WantByListener("events", "a: Failed: "+failed,
		"a: FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (of-ann); "+
			"attempting to pull the image may not succeed.")
}
