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
	noTag      = "no such tag"
	failed     = `Failed to pull image "` + img + `": ` + noTag
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
			r.actor.Tell(r.asks("a", c.policy))
			for _, text := range c.looks {
				r.WantByListener("one call after another", "runtime: "+text)
				r.runtime.Answer(nil, text)
			}
			r.WantByListener("the answer", "a: "+c.said)
		})
	}
}

// TestNeverIsLookedForAgain: an image that must not be pulled may be loaded by other means.
func TestNeverIsLookedForAgain(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullNever))
	r.runtime.Answer(nil, look)
	r.WantByListener("not there", "runtime: "+look, "a: app waits: ErrImageNeverPull: "+never)
	r.Advance(lookEvery - time.Millisecond)
	r.WantByListener("not yet")
	r.Advance(time.Millisecond)
	r.runtime.Answer(nil, look)
	r.WantByListener("looked again, and nothing said twice", "runtime: "+look)
	r.events.WantByListener("told once", "a: ErrImageNeverPull: "+never)
	r.has[img] = true
	r.Advance(lookEvery)
	r.runtime.Answer(nil, look)
	r.WantByListener("there", "runtime: "+look, "a: "+ready)
}

// TestAskedAgain: a pod whose actor has begun anew, or which was told that answers may be lost, is told again why it
// waits. People are not.
func TestAskedAgain(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullNever))
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.runtime.Answer(nil, look)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(time.Second)
	r.Forget()
	r.events.Forget()
	r.actor.Tell(r.asks("a", v1.PullNever))
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.WantByListener("again", "a: app waits: ErrImageNeverPull: "+never,
		"b: app waits: ImagePullBackOff: "+backingOff+": ErrImagePull: "+noTag)
	r.events.WantByListener("told")
}

// TestTwoPodsMakeOnePull: and each is told of it in its events.
func TestTwoPodsMakeOnePull(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.WantByListener("one pull", "runtime: "+pull)
	r.Advance(3 * time.Second)
	r.runtime.Answer(nil, pull)
	r.WantByListener("one look", "runtime: "+look)
	r.runtime.Answer(nil, look)
	r.WantByListener("both have it", "a: "+ready, "b: "+ready)
	pulled := `Pulled: Successfully pulled image "` + img + `" in 3s (3s including waiting). Image size: 4096 bytes.`
	pulling := `Pulling: Pulling image "` + img + `"`
	r.events.WantByListener("both events", "a: "+pulling, "b: "+pulling, "a: "+pulled, "b: "+pulled)
}

// TestEventsOfASharedPull: who waits for a pull that another pod has begun is told that it is pulled, and for how long
// it has waited itself. Who found the image there was told that. (image_manager.go EnsureImageExists)
func TestEventsOfASharedPull(t *testing.T) {
	r := newRig(t)
	tell := func(pod, container string, policy v1.PullPolicy) {
		m := r.asks(pod, policy)
		m.Ask.Container = container
		r.actor.Tell(m)
		r.Settle()
	}
	pulled := func(took time.Duration) string {
		return "Pulled: " + imagepull.PulledMessage(img, took, took, 4096)
	}
	const pulling = `Pulling: Pulling image "` + img + `"`
	const present = `Pulled: Container image "` + img + `" already present on machine`
	tell("failed", "app", v1.PullAlways)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	tell("late", "app", v1.PullIfNotPresent)
	r.runtime.Answer(nil, look)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(time.Second)
	r.events.Forget() // these two wait for the ends of their backoffs
	tell("a", "app", v1.PullAlways)
	r.Advance(time.Second)
	tell("b", "app", v1.PullIfNotPresent)
	r.Advance(time.Second)
	tell("a", "sidecar", v1.PullAlways)
	tell("b", "sidecar", v1.PullIfNotPresent) // it comes after the first, which has it pulled
	r.events.WantByListener("pulling", "a: "+pulling, "a: "+pulling, "b: "+pulling)
	r.Advance(time.Second)
	r.runtime.Answer(nil, pull)
	tell("c", "app", v1.PullIfNotPresent)
	r.runtime.Answer(nil, look)
	r.events.WantByListener("pulled", "failed: "+pulled(3*time.Second), "late: "+present, "a: "+pulled(3*time.Second),
		"b: "+pulled(2*time.Second), "a: "+pulled(time.Second), "b: "+present, "c: "+present)
}

// TestEventsOfTwoPulls: who waits for the pull of another, and then needs one with its own credential, is told once
// that it is pulled.
func TestEventsOfTwoPulls(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found)))
	r.actor.Tell(r.asks("b", v1.PullAlways, secret("bob", podobjects.Found)))
	r.Advance(time.Second)
	r.runtime.Answer(nil, pull+" as ann")
	r.runtime.Answer(nil, look)
	r.Advance(time.Second)
	r.runtime.Answer(nil, pull+" as bob")
	r.runtime.Answer(nil, look)
	pulling := `Pulling: Pulling image "` + img + `"`
	r.events.WantByListener("events",
		"a: "+pulling, "a: Pulled: "+imagepull.PulledMessage(img, time.Second, time.Second, 4096),
		"b: "+pulling, "b: Pulled: "+imagepull.PulledMessage(img, time.Second, 2*time.Second, 4096))
}

// TestTwoLookOnce: what was looked up a moment ago is good for others.
func TestTwoLookOnce(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.actor.Tell(r.asks("a", v1.PullNever))
	r.actor.Tell(r.asks("b", v1.PullIfNotPresent))
	r.WantByListener("one look", "runtime: "+look)
	r.runtime.Answer(nil, look)
	r.WantByListener("both have it", "a: "+ready, "b: "+ready)
	present := `Pulled: Container image "` + img + `" already present on machine`
	r.events.WantByListener("that it was there", "a: "+present, "b: "+present)
}

// TestTwice: the newer request replaces the older of the same container, and is answered once.
func TestTwice(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	next := r.asks("a", v1.PullAlways)
	next.Ask.Attempt = 1
	r.actor.Tell(next)
	r.actor.Tell(next)
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("one answer", "runtime: "+pull, "runtime: "+look, "a: app ready for 1: sha256:"+img)
}

// TestAnotherImage: a container whose image was changed does not wait for the first any more. Another does.
func TestAnotherImage(t *testing.T) {
	for _, other := range []string{"reg.io/app:2", "Not An Image"} {
		r := newRig(t)
		sidecar := r.asks("a", v1.PullNever)
		sidecar.Ask.Container = "sidecar"
		r.actor.Tell(sidecar)
		r.actor.Tell(r.asks("a", v1.PullAlways))
		r.runtime.Answer(nil, look)
		next := r.asks("a", v1.PullAlways)
		next.Ask.Image = other
		r.actor.Tell(next)
		r.Settle()
		r.Forget()
		r.events.Forget()
		r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
		r.events.WantByListener("nobody is told of the first")
		r.Advance(base)
		r.WantByListener("nor is it pulled again")
		r.Advance(lookEvery)
		r.has[img] = true
		r.runtime.Answer(nil, look)
		r.WantByListener("the other container", "runtime: "+look, "a: sidecar ready for 0: sha256:"+img)
	}
}

// TestInvalidName: no call is made for what cannot be a name.
func TestInvalidName(t *testing.T) {
	r := newRig(t)
	m := r.asks("a", v1.PullAlways)
	m.Ask.Image = "Not An Image"
	r.actor.Tell(m)
	_, err := imagepull.ParseReference(m.Ask.Image)
	text := imagepull.InvalidNameMessage(m.Ask.Image, err)
	r.WantByListener("at once", "a: app waits: InvalidImageName: "+text)
	r.events.WantByListener("event", "a: InspectFailed: "+text)
}

// TestBackoff: a pull that fails is made again after a wait that doubles, and the pod is told so. Another container of
// the pod waits with it.
func TestBackoff(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.WantByListener("failed", "runtime: "+pull, "a: app waits: ErrImagePull: "+noTag)
	r.Advance(time.Second)
	waits := " waits: ImagePullBackOff: " + backingOff + ": ErrImagePull: " + noTag
	r.WantByListener("backs off", "a: app"+waits)
	sidecar := r.asks("a", v1.PullAlways)
	sidecar.Ask.Container = "sidecar"
	r.actor.Tell(sidecar)
	r.WantByListener("another container waits too", "a: sidecar"+waits)
	r.events.WantByListener("events",
		`a: Pulling: Pulling image "`+img+`"`, "a: Failed: "+failed, "a: BackOff: "+backingOff, "a: BackOff: "+backingOff)
	r.Advance(base - time.Second - time.Millisecond)
	r.WantByListener("not yet")
	r.Advance(time.Millisecond)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.WantByListener("again", "runtime: "+pull, "a: app waits: ErrImagePull: "+noTag, "a: sidecar waits: ErrImagePull: "+noTag)
	r.Advance(2*base - time.Millisecond)
	r.WantByListener("twice as long", "a: app"+waits, "a: sidecar"+waits)
	r.Advance(time.Millisecond)
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("in the end", "runtime: "+pull, "runtime: "+look, "a: "+ready, "a: sidecar ready for 0: sha256:"+img)
}

// TestBackoffIsOfOnePod: a new pod pulls at once, and what becomes of that pull is nothing to one that waits for its own
// backoff, unless it brings the image.
func TestBackoffIsOfOnePod(t *testing.T) {
	r := newRig(t)
	waits := "app waits: ImagePullBackOff: " + backingOff + ": ErrImagePull: " + noTag
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(base / 2)
	r.Forget()
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.WantByListener("at once", "runtime: "+pull)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(time.Second)
	r.WantByListener("its own backoff", "b: app waits: ErrImagePull: "+noTag, "b: "+waits)
	r.Advance(base/2 - time.Second)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.WantByListener("the first one's is over", "runtime: "+pull, "a: app waits: ErrImagePull: "+noTag)
	r.Advance(base / 2)
	r.WantByListener("and then the second one's", "a: "+waits, "runtime: "+pull)
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("both have it", "runtime: "+look, "a: "+ready, "b: "+ready)
}

// TestAskPutsOffNobody: a pod that asks again, and whose own backoff is long, does not put off what others wait for.
func TestAskPutsOffNobody(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(base / 2)
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.Advance(time.Second)
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.Forget()
	r.Advance(base/2 - time.Second)
	r.Keep("runtime: ")
	r.WantByListener("the first one's backoff is over", "runtime: "+pull)
}

// TestSharedFailure: a pull that is under way is shared, and so is its failure.
func TestSharedFailure(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.Advance(time.Minute)
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.WantByListener("one pull", "runtime: "+pull)
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.WantByListener("both failed", "a: app waits: ErrImagePull: "+noTag, "b: app waits: ErrImagePull: "+noTag)
	r.Advance(base)
	r.Keep("runtime: ")
	r.WantByListener("one pull again", "runtime: "+pull)
}

// TestSlowFailure: a pull that takes long to fail begins a new row of failures.
func TestSlowFailure(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	for range 3 {
		r.WantByListener("it pulls", "runtime: "+pull)
		r.Advance(11 * time.Minute)
		r.runtime.Answer(refused(port.Other, noTag), pull)
		r.Forget()
		r.Advance(base)
		r.Keep("runtime: ")
	}
}

// TestBackoffEndsWithItsPod: nothing is kept of a pod that is gone.
func TestBackoffEndsWithItsPod(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, noTag), pull)
	r.actor.Tell(images.Forget{UID: "a"})
	r.Settle()
	r.Forget()
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.WantByListener("at once", "runtime: "+pull)
}

// TestLoadedDuringBackoff: an image that comes by other means ends the wait.
func TestLoadedDuringBackoff(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
	for _, wait := range []time.Duration{base, 2 * base} {
		r.Advance(wait)
		r.runtime.Answer(nil, look)
		r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
	}
	r.Forget()
	r.Advance(lookEvery + time.Second)
	r.runtime.Answer(nil, look)
	r.WantByListener("not before the next pull, which is after 40 s",
		"a: app waits: ImagePullBackOff: "+backingOff+": ErrImagePull: "+noTag, "runtime: "+look)
	r.has[img] = true
	r.Advance(lookEvery - 2*time.Second)
	r.WantByListener("not yet")
	r.Advance(time.Second)
	r.runtime.Answer(nil, look)
	r.WantByListener("found", "runtime: "+look, "a: "+ready)
}

// TestReasons: why a pull failed, by the first word of the runtime's error only, in the words that programs match.
func TestReasons(t *testing.T) {
	const unauthorized = "rpc error: code = PermissionDenied desc = go away"
	for _, c := range []struct {
		kind                  port.ErrorKind
		text, reason, message string
	}{
		{port.ImageNotFound, "rpc error: code = NotFound desc = no such tag", "ErrImagePull", "rpc error: code = NotFound desc = no such tag"},
		{port.InvalidImageName, "short name is ambiguous", "ErrImagePull", "short name is ambiguous"},
		{port.Other, unauthorized, "ErrImagePull", unauthorized},
		{port.Other, "dial tcp: connect: connection refused", "ErrImagePull", "dial tcp: connect: connection refused"},
		{port.Other, "the word RegistryUnavailable", "ErrImagePull", "the word RegistryUnavailable"},
		{port.Other, "RegistryUnavailable: 503", "RegistryUnavailable",
			"image pull failed for " + img + " because the registry is unavailable: 503"},
		{port.Other, "SignatureValidationFailed: no key", "SignatureValidationFailed",
			"image pull failed for " + img + " because the signature validation failed: no key"},
	} {
		r := newRig(t)
		r.actor.Tell(r.asks("a", v1.PullAlways))
		r.runtime.Answer(refused(c.kind, c.text), pull)
		r.WantByListener(c.reason, "runtime: "+pull, "a: app waits: "+c.reason+": "+c.message)
		r.events.WantByListener("the event has the runtime's error", `a: Pulling: Pulling image "`+img+`"`,
			`a: Failed: Failed to pull image "`+img+`": `+c.text)
		r.Advance(time.Second)
		r.WantByListener("and then", "a: app waits: ImagePullBackOff: "+backingOff+": "+c.reason+": "+c.message)
	}
}

// TestRuntimeDown: as long as no registry is asked, the wait for the next pull does not grow.
func TestRuntimeDown(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	for range 4 {
		r.runtime.Answer(refused(port.Unavailable, "connection refused"), pull)
		r.Forget()
		r.Advance(base)
		r.WantByListener("as soon as the first time",
			`a: app waits: ImagePullBackOff: `+backingOff+`: ErrImagePull: connection refused`, "runtime: "+pull)
	}
}

// TestDeadline: a pull without an answer has failed. Its late answer makes the actor look.
func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("it pulls", "runtime: "+look, "runtime: "+pull)
	r.Advance(pullDeadline)
	r.WantByListener("no answer", "a: app waits: ErrImagePull: no answer within 1h0m0s",
		"runtime: "+pull+": given up", "runtime: "+look)
	r.runtime.Answer(nil, look)
	r.WantByListener("not there")
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("there after all", "runtime: "+look, "a: "+ready)
}

// TestPulledButNotThere: a runtime that pulls and has nothing is not asked again and again.
func TestPulledButNotThere(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(nil, pull)
	delete(r.has, img)
	r.runtime.Answer(nil, look)
	r.WantByListener("a failure", "runtime: "+pull, "runtime: "+look, "a: app waits: ErrImagePull: "+
		"the image was pulled, but the runtime does not have it")
}

// TestLookFails: that is the runtime's trouble, is tried again soon, and at once when the runtime is back.
func TestLookFails(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(refused(port.Unavailable, "connection refused"), look)
	text := `Failed to inspect image "` + img + `": connection refused`
	r.WantByListener("failed", "runtime: "+look, "a: app waits: ImageInspectError: "+text)
	r.Advance(time.Second)
	r.runtime.Answer(refused(port.Unavailable, "connection refused"), look)
	r.WantByListener("again, and nothing said twice", "runtime: "+look)
	r.events.WantByListener("events", "a: InspectFailed: "+text, "a: InspectFailed: "+text)
	r.Advance(time.Second)
	r.WantByListener("twice as long")
	r.actor.Tell(images.RuntimeBack{})
	r.runtime.Answer(nil, look)
	r.WantByListener("at once", "runtime: "+look, "a: "+ready)
}

// TestLookWithoutAnswer: its deadline ends it, and a late answer is none.
func TestLookWithoutAnswer(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.Advance(checkDeadline)
	r.WantByListener("no answer", "runtime: "+look, "runtime: "+look+": given up",
		`a: app waits: ImageInspectError: Failed to inspect image "`+img+`": no answer within 1m0s`)
	r.runtime.Answer(nil, look)
	r.WantByListener("late")
	r.Advance(time.Second)
	r.runtime.Answer(nil, look)
	r.WantByListener("looked again", "runtime: "+look, "a: "+ready)
}

// TestForgotten: nobody is told of an image that its pod does not want any more. The pull is given up, and what else it
// might be pulled with is not tried.
func TestForgotten(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("ann", podobjects.Found), secret("bob", podobjects.Found)))
	r.WantByListener("the first", "runtime: "+pull+" as ann")
	r.actor.Tell(images.Forget{UID: "a"})
	r.WantByListener("given up", "runtime: "+pull+" as ann: given up")
	r.runtime.Answer(refused(port.Canceled, "context canceled"), pull+" as ann")
	r.WantByListener("no second")
	r.Advance(base)
	r.WantByListener("nor a second try")
	if r.Timers() != 0 {
		t.Errorf("%d timers are left", r.Timers())
	}
}

// TestPullForNobody: a pull is given up when the last pod that waited for it is gone, also if it waits for a slot. A
// pod that comes before it has ended is told nothing of that, and has it pulled anew.
func TestPullForNobody(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.actor.Tell(r.asks("b", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("one for both", "runtime: "+pull, "runtime: "+look)
	r.actor.Tell(images.Forget{UID: "a"})
	r.WantByListener("the other waits for it")
	r.actor.Tell(images.Forget{UID: "b"})
	r.WantByListener("nobody does", "runtime: "+pull+": given up")
	r.actor.Tell(r.asks("c", v1.PullAlways))
	r.actor.Tell(images.Forget{UID: "nobody"})
	r.WantByListener("it has not ended")
	r.runtime.Answer(refused(port.Canceled, "context canceled"), pull)
	r.WantByListener("anew", "runtime: "+pull)
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("there", "runtime: "+look, "c: "+ready)
	for n := range 3 { // of which two have a slot
		r.wants("d", n, fmt.Sprint("d", n))
	}
	r.WantByListener("two slots", "runtime: pull reg.io/d0", "runtime: pull reg.io/d1")
	r.actor.Tell(images.Forget{UID: "d"})
	r.WantByListener("all are given up", "runtime: pull reg.io/d0: given up", "runtime: pull reg.io/d1: given up")
	r.runtime.Answer(refused(port.Canceled, "context canceled"), "pull reg.io/d0", "pull reg.io/d1")
	r.Advance(time.Minute)
	r.WantByListener("nor is the third pulled")
	if r.Timers() != 0 {
		t.Errorf("%d timers are left", r.Timers())
	}
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated. It keeps the pull under way,
// but does not know what it is made with: who must pull pulls again.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("it pulls", "runtime: "+look, "runtime: "+pull)
	r.actor.Crash()
	r.actor.Tell(images.RuntimeBack{})
	r.Advance(time.Second)
	r.WantByListener("restarted", "all: repeat")
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("no second pull", "runtime: "+look)
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.runtime.Answer(nil, pull)
	r.WantByListener("who must pull, pulls", "runtime: "+look, "runtime: "+pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("who only needs it has it", "a: "+ready)
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	for range 3 {
		for range 20 {
			r.actor.Tell(images.Forget{UID: "a"})
		}
		r.Advance(10 * time.Millisecond)
	}
	r.WantByListener("not while there is no room")
	r.Advance(time.Second)
	r.WantByListener("once", "all: repeat")
	for range 20 {
		r.actor.Tell(images.Forget{UID: "a"})
	}
	r.Advance(time.Second)
	r.WantByListener("and at the next overflow", "all: repeat")
}
