package images_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
)

const (
	look, pull = "look " + img, "pull " + img
	ready      = "app ready for 0: sha256:" + img
	failed     = `Failed to pull image "` + img + `": no such tag`
	backingOff = `Back-off pulling image "` + img + `"`
	never      = `Container image "` + img + `" is not present with pull policy of Never`
)

// TestPolicies: what is called, and what the pod is told, if the image is there and if it is not.
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy  v1.PullPolicy
		present bool
		looks   []string // in this order, each answered without an error
		said    string
	}{
		{v1.PullIfNotPresent, true, []string{look}, ready},
		{v1.PullIfNotPresent, false, []string{look, pull, look}, ready},
		{v1.PullNever, true, []string{look}, ready},
		{v1.PullNever, false, []string{look}, "app waits: ErrImageNeverPull: " + never},
		{v1.PullAlways, true, []string{pull, look}, ready},
		{v1.PullAlways, false, []string{pull, look}, ready},
		{"", false, []string{look, pull, look}, ready}, // it has a tag: not Always
	} {
		t.Run(fmt.Sprintf("%s, there %v", c.policy, c.present), func(t *testing.T) {
			r := newRig(t)
			r.has[img] = c.present
			r.ref.Tell(r.asks("a", c.policy))
			for _, text := range c.looks {
				r.want("one call after another", "runtime: "+text)
				r.answers(text, nil)
			}
			r.want("the answer", "a: "+c.said)
		})
	}
}

// TestNeverIsLookedForAgain: an image that must not be pulled may be loaded by other means.
func TestNeverIsLookedForAgain(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullNever))
	r.answers(look, nil)
	r.want("not there", "runtime: "+look, "a: app waits: ErrImageNeverPull: "+never)
	r.pass(lookEvery - time.Millisecond)
	r.want("not yet")
	r.pass(time.Millisecond)
	r.answers(look, nil)
	r.want("looked again, and nothing said twice", "runtime: "+look)
	r.wantEvents("told once", "a: ErrImageNeverPull: "+never, "a: Failed: Error: ErrImageNeverPull")
	r.has[img] = true
	r.pass(lookEvery)
	r.answers(look, nil)
	r.want("there", "runtime: "+look, "a: "+ready)
}

// TestTwoPodsMakeOnePull: and each is told of it in its events.
func TestTwoPodsMakeOnePull(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	r.ref.Tell(r.asks("b", v1.PullAlways))
	r.want("one pull", "runtime: "+pull)
	r.pass(3 * time.Second)
	r.answers(pull, nil)
	r.want("one look", "runtime: "+look)
	r.answers(look, nil)
	r.want("both have it", "a: "+ready, "b: "+ready)
	pulled := `Pulled: Successfully pulled image "` + img + `" in 3s`
	r.wantEvents("both events", `a: Pulling: Pulling image "`+img+`"`, "a: "+pulled, "b: "+pulled)
}

// TestTwoLookOnce: what was looked up a moment ago is good for others.
func TestTwoLookOnce(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.ref.Tell(r.asks("a", v1.PullNever))
	r.ref.Tell(r.asks("b", v1.PullIfNotPresent))
	r.want("one look", "runtime: "+look)
	r.answers(look, nil)
	r.want("both have it", "a: "+ready, "b: "+ready)
	present := `Pulled: Container image "` + img + `" already present on machine`
	r.wantEvents("that it was there", "a: "+present, "b: "+present)
}

// TestTwice: the newer request replaces the older of the same container, and is answered once.
func TestTwice(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	next := r.asks("a", v1.PullAlways)
	next.Ask.Attempt = 1
	r.ref.Tell(next)
	r.ref.Tell(next)
	r.answers(pull, nil)
	r.answers(look, nil)
	r.want("one answer", "runtime: "+pull, "runtime: "+look, "a: app ready for 1: sha256:"+img)
}

// TestAnotherImage: a container whose image was changed does not wait for the first any more. Another does.
func TestAnotherImage(t *testing.T) {
	for _, other := range []string{"reg.io/app:2", "Not An Image"} {
		r := newRig(t)
		sidecar := r.asks("a", v1.PullNever)
		sidecar.Ask.Container = "sidecar"
		r.ref.Tell(sidecar)
		r.ref.Tell(r.asks("a", v1.PullAlways))
		r.answers(look, nil)
		next := r.asks("a", v1.PullAlways)
		next.Ask.Image = other
		r.ref.Tell(next)
		r.Settle()
		r.said, r.events = nil, nil
		r.answers(pull, refused(port.ImageNotFound, "no such tag"))
		r.wantEvents("nobody is told of the first")
		r.pass(base)
		r.want("nor is it pulled again")
		r.pass(lookEvery)
		r.has[img] = true
		r.answers(look, nil)
		r.want("the other container", "runtime: "+look, "a: sidecar ready for 0: sha256:"+img)
	}
}

// TestInvalidName: no call is made for what cannot be a name.
func TestInvalidName(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", v1.PullAlways)
	m.Ask.Image = "Not An Image"
	r.ref.Tell(m)
	_, err := imagepull.Parse(m.Ask.Image)
	text := imagepull.InvalidNameMessage(m.Ask.Image, err)
	r.want("at once", "a: app waits: InvalidImageName: "+text)
	r.wantEvents("events", "a: InspectFailed: "+text, "a: Failed: Error: InvalidImageName")
}

// TestBackoff: a pull that fails is made again after a wait that doubles, and the pod is told so. One who asks
// meanwhile waits with it.
func TestBackoff(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	r.answers(pull, refused(port.ImageNotFound, "no such tag"))
	r.want("failed", "runtime: "+pull, "a: app waits: ErrImagePull: "+failed)
	r.pass(time.Second)
	waits := "app waits: ImagePullBackOff: " + backingOff + ": ErrImagePull: " + failed
	r.want("backs off", "a: "+waits)
	r.ref.Tell(r.asks("b", v1.PullAlways))
	r.want("another waits too", "b: "+waits)
	r.wantEvents("events",
		`a: Pulling: Pulling image "`+img+`"`, "a: Failed: "+failed, "a: Failed: Error: ErrImagePull",
		"a: BackOff: "+backingOff, "a: Failed: Error: ImagePullBackOff",
		"b: BackOff: "+backingOff, "b: Failed: Error: ImagePullBackOff")
	r.pass(base - time.Second - time.Millisecond)
	r.want("not yet")
	r.pass(time.Millisecond)
	r.answers(pull, refused(port.ImageNotFound, "no such tag"))
	r.want("again", "runtime: "+pull, "a: app waits: ErrImagePull: "+failed, "b: app waits: ErrImagePull: "+failed)
	r.pass(2*base - time.Millisecond)
	r.want("twice as long", "a: "+waits, "b: "+waits)
	r.pass(time.Millisecond)
	r.answers(pull, nil)
	r.answers(look, nil)
	r.want("in the end", "runtime: "+pull, "runtime: "+look, "a: "+ready, "b: "+ready)
}

// TestBackoffOutlivesItsPod: a pod that is made again does not shorten it.
func TestBackoffOutlivesItsPod(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	r.answers(pull, refused(port.ImageNotFound, "no such tag"))
	r.ref.Tell(images.Forget{UID: "a"})
	r.pass(base / 2)
	r.said = nil
	r.ref.Tell(r.asks("b", v1.PullAlways))
	r.want("waits", "b: app waits: ImagePullBackOff: "+backingOff+": ErrImagePull: "+failed)
	r.ref.Tell(images.Forget{UID: "b"})
	r.pass(base)
	r.want("nobody wants it any more")
	r.ref.Tell(r.asks("c", v1.PullAlways))
	r.want("and it is forgotten", "runtime: "+pull)
}

// TestLoadedDuringBackoff: an image that comes by other means ends the wait.
func TestLoadedDuringBackoff(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.answers(look, nil)
	r.answers(pull, refused(port.ImageNotFound, "no such tag"))
	for _, wait := range []time.Duration{base, 2 * base} {
		r.pass(wait)
		r.answers(look, nil)
		r.answers(pull, refused(port.ImageNotFound, "no such tag"))
	}
	r.said = nil
	r.pass(lookEvery + time.Second)
	r.answers(look, nil)
	r.want("not before the next pull, which is after 40 s",
		"a: app waits: ImagePullBackOff: "+backingOff+": ErrImagePull: "+failed, "runtime: "+look)
	r.has[img] = true
	r.pass(lookEvery - 2*time.Second)
	r.want("not yet")
	r.pass(time.Second)
	r.answers(look, nil)
	r.want("found", "runtime: "+look, "a: "+ready)
}

// TestReasons: why a pull failed, in the words that users know.
func TestReasons(t *testing.T) {
	for kind, reason := range map[port.ErrorKind]string{
		port.ImageNotFound: "ErrImagePull", port.RegistryUnavailable: "RegistryUnavailable",
		port.ImageSignature: "SignatureValidationFailed", port.InvalidImageName: "InvalidImageName",
	} {
		r := newRig(t)
		r.ref.Tell(r.asks("a", v1.PullAlways))
		r.answers(pull, refused(kind, "no such tag"))
		r.want(reason, "runtime: "+pull, "a: app waits: "+reason+": "+failed)
	}
}

// TestRuntimeDown: as long as no registry is asked, the wait for the next pull does not grow.
func TestRuntimeDown(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	for range 4 {
		r.answers(pull, refused(port.Unavailable, "connection refused"))
		r.said = nil
		r.pass(base)
		r.want("as soon as the first time",
			`a: app waits: ImagePullBackOff: `+backingOff+`: ErrImagePull: Failed to pull image "`+img+
				`": connection refused`, "runtime: "+pull)
	}
}

// TestDeadline: a pull without an answer has failed. Its late answer makes the actor look.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.answers(look, nil)
	r.want("it pulls", "runtime: "+look, "runtime: "+pull)
	r.pass(pullDeadline)
	r.want("no answer", `a: app waits: ErrImagePull: Failed to pull image "`+img+`": no answer within 1h0m0s`,
		"runtime: "+look)
	r.answers(look, nil)
	r.want("not there")
	r.answers(pull, nil)
	r.answers(look, nil)
	r.want("there after all", "runtime: "+look, "a: "+ready)
}

// TestPulledButNotThere: a runtime that pulls and has nothing is not asked again and again.
func TestPulledButNotThere(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways))
	r.answers(pull, nil)
	delete(r.has, img)
	r.answers(look, nil)
	r.want("a failure", "runtime: "+pull, "runtime: "+look, `a: app waits: ErrImagePull: Failed to pull image "`+img+
		`": the image was pulled, but the runtime does not have it`)
}

// TestLookFails: that is the runtime's trouble, is tried again soon, and at once when the runtime is back.
func TestLookFails(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.answers(look, refused(port.Unavailable, "connection refused"))
	text := `Failed to inspect image "` + img + `": connection refused`
	r.want("failed", "runtime: "+look, "a: app waits: ImageInspectError: "+text)
	r.pass(time.Second)
	r.answers(look, refused(port.Unavailable, "connection refused"))
	r.want("again, and nothing said twice", "runtime: "+look)
	r.wantEvents("events", "a: InspectFailed: "+text, "a: InspectFailed: "+text)
	r.pass(time.Second)
	r.want("twice as long")
	r.ref.Tell(images.RuntimeBack{})
	r.answers(look, nil)
	r.want("at once", "runtime: "+look, "a: "+ready)
}

// TestLookWithoutAnswer: its deadline ends it, and a late answer is none.
func TestLookWithoutAnswer(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.pass(checkDeadline)
	r.want("no answer", "runtime: "+look, `a: app waits: ImageInspectError: Failed to inspect image "`+img+
		`": no answer within 1m0s`)
	r.answers(look, nil)
	r.want("late")
	r.pass(time.Second)
	r.answers(look, nil)
	r.want("looked again", "runtime: "+look, "a: "+ready)
}

// TestForgotten: nobody is told of an image that its pod does not want any more. The pull goes on, but what else
// it might be pulled with is not tried.
func TestForgotten(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found), secret("bob", podobjects.Found)))
	r.want("the first", "runtime: "+pull+" as ann")
	r.ref.Tell(images.Forget{UID: "a"})
	r.answers(pull+" as ann", refused(port.ImageUnauthorized, "go away"))
	r.want("no second")
	r.pass(base)
	r.want("nor a second try")
	if r.Timers() != 0 {
		t.Errorf("%d timers are left", r.Timers())
	}
}

// TestCredentials: they are tried one after the other, but only as long as another may help.
func TestCredentials(t *testing.T) {
	r := newRig(t)
	ask := r.asks("a", v1.PullAlways, secret("ann", podobjects.Found), secret("bob", podobjects.Found))
	r.ref.Tell(ask)
	r.answers(pull+" as ann", refused(port.ImageUnauthorized, "go away"))
	r.want("the second", "runtime: "+pull+" as ann", "runtime: "+pull+" as bob")
	r.answers(pull+" as bob", refused(port.RegistryUnavailable, "no such tag"))
	r.want("both failed", "a: app waits: RegistryUnavailable: "+failed)
	r.pass(base)
	r.said = nil
	r.answers(pull+" as ann", refused(port.RegistryUnavailable, "no such tag"))
	r.want("another does not help", "a: app waits: RegistryUnavailable: "+failed)
}

// TestAnotherCredential does not wait for a backoff that is not its own; the same does.
func TestAnotherCredential(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found)))
	r.answers(pull+" as ann", refused(port.ImageUnauthorized, "no such tag"))
	r.pass(2 * time.Second)
	waits := "app waits: ImagePullBackOff: " + backingOff + ": ErrImagePull: " + failed
	r.said = nil
	r.ref.Tell(r.asks("b", v1.PullAlways, secret("ann", podobjects.Found)))
	r.want("the same waits", "b: "+waits)
	r.ref.Tell(r.asks("c", v1.PullAlways, secret("bob", podobjects.Found)))
	r.want("another does not", "runtime: "+pull+" as bob")
	r.answers(pull+" as bob", nil)
	r.want("who is not entitled pulls with its own", "runtime: "+look, "runtime: "+pull+" as ann")
	r.answers(look, nil)
	r.want("who is has it", "c: "+ready)
	r.answers(pull+" as ann", nil)
	r.answers(look, nil)
	r.want("and then the others", "runtime: "+look, "a: "+ready, "b: "+ready)
}

// TestSecretNotKnownYet: it is not pulled before the pod says what with. One that is not there is told of.
func TestSecretNotKnownYet(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Unknown)))
	r.want("waits")
	r.ref.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Missing)))
	r.want("without", "runtime: "+pull)
	r.wantEvents("events", `a: Pulling: Pulling image "`+img+`"`,
		"a: FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (of-ann); "+
			"attempting to pull the image may not succeed.")
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated. It keeps the pull under way,
// but does not know what it is made with: who must pull pulls again.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.answers(look, nil)
	r.want("it pulls", "runtime: "+look, "runtime: "+pull)
	r.crash = true
	r.ref.Tell(images.RuntimeBack{})
	r.pass(time.Second)
	r.want("restarted", "all: repeat")
	r.ref.Tell(r.asks("a", v1.PullIfNotPresent))
	r.answers(look, nil)
	r.want("no second pull", "runtime: "+look)
	r.ref.Tell(r.asks("b", v1.PullAlways))
	r.answers(pull, nil)
	r.want("who must pull, pulls", "runtime: "+look, "runtime: "+pull)
	r.answers(look, nil)
	r.want("who only needs it has it", "a: "+ready)
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	for range 3 {
		for range 20 {
			r.ref.Tell(images.Forget{UID: "a"})
		}
		r.pass(10 * time.Millisecond)
	}
	r.want("not while there is no room")
	r.pass(time.Second)
	r.want("once", "all: repeat")
	for range 20 {
		r.ref.Tell(images.Forget{UID: "a"})
	}
	r.pass(time.Second)
	r.want("and at the next overflow", "all: repeat")
}
