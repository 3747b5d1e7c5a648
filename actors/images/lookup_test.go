package images_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
)

// plugins makes a rig in which the test plays the actor of credentials: it answers with what give has at that time.
func plugins(t *testing.T, give *credentials.Found) (*rig, *[]func()) {
	t.Helper()
	var asked []func()
	r := makeRig(t, func(r *rig, d *images.Deps) {
		d.Lookup = func(_ string, p *v1.Pod, left func() bool, reply func(credentials.Found)) {
			r.Say("credentials: %s asks", p.Name)
			asked = append(asked, func() { r.left = left(); reply(*give); r.Settle() })
		}
	})
	return r, &asked
}

func of(user string) imagepull.Offer {
	return imagepull.Offer{Credential: imagepull.Credential{Username: user, Password: "p"}}
}

// TestPluginCredentials: they are tried after pull secrets, and looked up again when the backoff is over.
func TestPluginCredentials(t *testing.T) {
	give := &credentials.Found{Offers: []imagepull.Offer{of("plugin")}}
	r, asked := plugins(t, give)
	r.actor.Tell(r.asks("a", v1.PullAlways, secret("mine", podobjects.Found)))
	r.WantByListener("asked", "credentials: a asks")
	(*asked)[0]()
	r.WantByListener("the secret first", "runtime: "+pull+" as mine")
	r.runtime.Answer(refused(port.Other, "no"), pull+" as mine")
	r.WantByListener("then the plugin", "runtime: "+pull+" as plugin")
	give.Offers = []imagepull.Offer{of("fresh")}
	r.runtime.Answer(refused(port.Other, "token has expired"), pull+" as plugin")
	r.WantByListener("failed", "a: app waits: ErrImagePull: [no, token has expired]")
	r.Advance(base - time.Millisecond)
	r.Keep("credentials: ", "runtime: ")
	r.WantByListener("nothing is tried in the backoff")
	r.Advance(time.Millisecond)
	r.WantByListener("it may be another now", "credentials: a asks")
	(*asked)[1]()
	r.WantByListener("all of it again", "runtime: "+pull+" as mine")
	r.runtime.Answer(refused(port.Other, "no"), pull+" as mine")
	r.runtime.Answer(nil, pull+" as fresh")
	r.runtime.Answer(nil, look)
	if got := strings.Join(r.Lines(), " "); !strings.Contains(got, "a: "+ready) {
		t.Error(got)
	}
}

// TestFreshCredentialsDontShortenBackoff: a plugin that gives another credential each time is asked once a backoff.
func TestFreshCredentialsDontShortenBackoff(t *testing.T) {
	give := &credentials.Found{Offers: []imagepull.Offer{of("x")}}
	r, asked := plugins(t, give)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	for n := range 3 {
		r.Advance(time.Duration(n) * base)
		if len(*asked) != n+1 {
			t.Fatalf("asked %d times after %v", len(*asked), r.Since())
		}
		give.Offers[0].Username = strings.Repeat("x", n+1)
		(*asked)[n]()
		r.runtime.Answer(refused(port.Other, "no"), pull+" as "+give.Offers[0].Username)
		r.Advance(base - time.Second)
		if len(*asked) != n+1 {
			t.Fatalf("asked again within the backoff")
		}
		r.Advance(time.Second)
	}
}

// TestPluginFails: it is pulled without, and if that fails the reason names the plugin.
func TestPluginFails(t *testing.T) {
	give := &credentials.Found{Failures: []string{`credential provider plugin "ecr" failed for image "x": exit status 1`}}
	r, asked := plugins(t, give)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.Settle()
	(*asked)[0]()
	r.runtime.Answer(refused(port.Other, "unauthorized"), pull)
	r.Keep("a: ")
	r.WantByListener("why", "a: app waits: ErrImagePull: unauthorized; "+give.Failures[0])
}

// TestNobodyAnswers: the image is pulled without credentials then, and others are pulled meanwhile.
func TestNobodyAnswers(t *testing.T) {
	r, asked := plugins(t, &credentials.Found{})
	r.actor.Tell(r.asks("a", v1.PullAlways))
	other := r.asks("b", v1.PullAlways)
	other.Ask.Image = "reg.io/other:1"
	r.actor.Tell(other)
	r.Settle()
	(*asked)[1]()
	r.Keep("runtime: ")
	r.WantByListener("another image", "runtime: pull reg.io/other:1")
	r.Advance(3 * time.Minute)
	r.Keep("runtime: ")
	r.WantByListener("without", "runtime: "+pull)
	r.runtime.Answer(refused(port.Other, "no"), pull)
	if got := strings.Join(r.Lines(), " "); !strings.Contains(got, "credentials could not be looked up") {
		t.Error(got)
	}
	(*asked)[0]() // late: nothing of it
}

// lookups is how many lookups run.
func (r *rig) lookups() (n int) {
	for _, e := range r.runner.InFlight("images") {
		if e.Kind == "LookUpCredentials" {
			n++
		}
	}
	return n
}

// TestCredentialsRestart: lookups that were lost are made again at once, and the answers to the first ones are late.
func TestCredentialsRestart(t *testing.T) {
	give := &credentials.Found{Offers: []imagepull.Offer{of("plugin")}}
	r, asked := plugins(t, give)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.Settle()
	r.Forget()
	for range 2 {
		r.actor.Tell(images.CredentialsRestarted{})
		r.WantByListener("again", "credentials: a asks")
	}
	(*asked)[0]()
	r.WantByListener("late")
	(*asked)[2]()
	r.WantByListener("pulled", "runtime: "+pull+" as plugin")
	r.actor.Tell(images.CredentialsRestarted{})
	r.WantByListener("what is known is kept")
	if n := r.lookups(); n > 0 {
		t.Errorf("%d lookups that were given up are not over", n)
	}
}

// TestLeft: what is looked up for a pod that is gone, or that asks anew, is given up.
func TestLeft(t *testing.T) {
	r, asked := plugins(t, &credentials.Found{})
	r.actor.Tell(r.asks("a", v1.PullAlways))
	again := r.asks("a", v1.PullAlways)
	again.Ask.Attempt++
	r.actor.Tell(again)
	r.Settle()
	if n := r.lookups(); n != 1 || len(*asked) != 2 {
		t.Errorf("%d run of %d", n, len(*asked))
	}
	r.actor.Tell(images.Forget{UID: "a"})
	r.Settle()
	if n := r.lookups(); n != 0 {
		t.Errorf("%d run for a pod that is gone", n)
	}
	for i := range *asked {
		if (*asked)[i](); !r.left {
			t.Errorf("%d does not know", i)
		}
	}
}

// TestPresentNeedsNoCredentials: nobody is asked for an image that is there.
func TestPresentNeedsNoCredentials(t *testing.T) {
	r, asked := plugins(t, &credentials.Found{})
	r.has[img] = true
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	if len(*asked) > 0 {
		t.Error("asked")
	}
}

// TestPullRate: a pull that comes too early gets a turn, and its pod is told if that takes long.
func TestPullRate(t *testing.T) {
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Bucket = imagepull.NewBucket(1, 1) })
	for n, name := range []string{"a", "b", "c"} {
		of := r.asks(name, v1.PullAlways)
		of.Ask.Image = []string{"reg.io/0", "reg.io/1", "reg.io/2"}[n]
		r.actor.Tell(of)
	}
	r.WantByListener("one at once", "runtime: pull reg.io/0")
	r.events.Keep("b: PullDelayed", "c: PullDelayed")
	r.events.WantByListener("the others are told",
		`b: PullDelayed: Image "reg.io/1" is pulled in 1s: pull QPS exceeded (registryPullQPS, registryBurst)`,
		`c: PullDelayed: Image "reg.io/2" is pulled in 2s: pull QPS exceeded (registryPullQPS, registryBurst)`)
	r.Advance(time.Second)
	r.WantByListener("then the next", "runtime: pull reg.io/1")
	r.runtime.Answer(nil, "pull reg.io/0") // it had one of two slots
	r.Advance(time.Second)
	r.Keep("runtime: pull")
	r.WantByListener("and the next", "runtime: pull reg.io/2")
}
