package images_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/prepull"
	"github.com/troupe-dev/troupe/tests/actortest"
)

const (
	other     = "reg.io/other:1"
	pullOther = "pull " + other
	lookOther = "look " + other
)

// ahead makes a node that pulls these images ahead.
func ahead(t *testing.T, counted *imagecache.Counts, names ...string) *node {
	t.Helper()
	var n *node
	n = newNodeWith(t, usual, func(d *images.Deps) {
		d.Collect.Ahead = names
		d.Collect.Listed = func(list []observed.Image, at time.Time) { n.prepull.Tell(prepull.Listed{List: list, At: at}) }
		d.Collect.Removed = func(id string) { n.prepull.Tell(prepull.Removed{ID: id}) }
	})
	n.ahead = counted
	n.pullsAhead(prepull.Deps{Left: n.Left, Low: usual.Low, Checkpoints: n, Counts: n}, names...)
	return n
}

// pullsAhead spawns the actor that has these images pulled.
func (r *rig) pullsAhead(deps prepull.Deps, names ...string) {
	for _, name := range names {
		deps.Images = append(deps.Images, imagecache.Image{Name: name})
	}
	deps.Runtime, deps.Deadline = r, checkDeadline
	deps.Load = func(reply func(imagecache.Load)) { r.actor.Tell(images.AskLoad{Reply: reply}) }
	deps.Pull = func(image string, reply func(imagecache.End)) {
		r.actor.Tell(images.Prepull{Image: image, Reply: reply})
	}
	deps.Stop = func(image string) { r.actor.Tell(images.StopPrepull{Image: image}) }
	r.prepull = actortest.Spawn(r.Rig, kernel.Spec[prepull.Message]{
		Name: "prepull", Policy: kernel.ForPods, Runner: r.runner, New: prepull.New(&deps),
	})
}

// noCheckpoints has none.
type noCheckpoints struct{ port.Checkpoints }

func (noCheckpoints) Load(_ context.Context, _ string, done func([]byte, error))   { done(nil, nil) }
func (noCheckpoints) Save(_ context.Context, _ string, _ []byte, done func(error)) { done(nil) }

// pulling is a node in the middle of pulling an image ahead.
func pulling(t *testing.T, name string) *node {
	t.Helper()
	n := ahead(t, nil, name)
	n.WantAfter("looked for", imagecache.Quiet, "runtime: look "+name)
	n.runtime.Answer(nil, "look "+name)
	n.WantAfter("pulled", 10*time.Millisecond, "runtime: pull "+name)
	return n
}

var canceled = &port.Error{Kind: port.Canceled, Verb: "PullImage", Object: other, Detail: "canceled"}

// TestAhead: one at a time, and not what is there already.
func TestAhead(t *testing.T) {
	var counted imagecache.Counts
	n := ahead(t, &counted, other, "reg.io/there:1", img)
	n.has["reg.io/there:1"] = true
	n.WantAfter("nothing at first", imagecache.Quiet-time.Millisecond)
	n.WantAfter("looked for", 2*time.Millisecond, "runtime: "+lookOther)
	n.runtime.Answer(nil, lookOther)
	n.WantAfter("pulled", 10*time.Millisecond, "runtime: "+pullOther)
	n.WantAfter("one at a time", time.Minute)
	n.list = append(n.list, named(other))
	n.runtime.Answer(nil, pullOther)
	n.WantAfter("the next", 0, "runtime: look reg.io/there:1")
	n.runtime.Answer(nil, "look reg.io/there:1")
	n.WantAfter("and the next", 0, "runtime: "+look)
	n.runtime.Answer(nil, look)
	n.WantAfter("pulled", 10*time.Millisecond, "runtime: "+pull)
	n.list = append(n.list, named("reg.io/there:1"), named(img))
	n.runtime.Answer(nil, pull)
	n.WantAfter("no more", 24*time.Hour)
	if counted != (imagecache.Counts{Present: 3}) || n.Logged("pre-pulled image") != 2 {
		t.Errorf("counted %+v; the log is %s", counted, n.Log.String())
	}
	n.actor.Tell(n.asks("a", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	n.WantByListener("a pod finds it there", "runtime: "+look, "a: "+ready)
}

// TestAheadGivesWay: a pod's pull begins at once, and the other is made when it is quiet again.
func TestAheadGivesWay(t *testing.T) {
	n := pulling(t, other)
	n.actor.Tell(n.asks("a", v1.PullAlways))
	n.WantByListener("the pod first", "runtime: "+pullOther+": given up", "runtime: "+pull)
	n.runtime.Answer(canceled, pullOther)
	n.WantAfter("it is busy", time.Minute)
	n.runtime.Answer(nil, pull)
	n.runtime.Answer(nil, look)
	n.WantByListener("the pod has it", "runtime: "+look, "a: "+ready)
	n.WantAfter("quiet again", imagecache.Quiet+10*time.Millisecond, "runtime: "+pullOther)
	n.actor.Tell(n.asks("b", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	n.WantByListener("a pod whose image is there needs no pull", "runtime: "+look, "b: "+ready)
	if n.Logged("WRN")+n.Logged("warn") > 0 {
		t.Errorf("the log is %s", n.Log.String())
	}
}

// occupant holds the slot of pulls ahead.
type occupant struct{}

func (occupant) Start(ctx *kernel.Context[struct{}]) {
	portcall.Do0(ctx, kernel.Effect[struct{}]{Kind: "Occupy", Lane: "x", Pool: images.AheadPool, Deadline: time.Hour},
		func(context.Context, func(error)) {}, func(kernel.EffectID, error) struct{} { return struct{}{} })
}

func (occupant) Receive(*kernel.Context[struct{}], struct{}) {}

// TestAheadGivesWayBeforeItBegins: a pull ahead that waits for its turn is forgotten when all images are looked at,
// because the runtime says that the image of a pod came by a pull of an earlier agent.
func TestAheadGivesWayBeforeItBegins(t *testing.T) {
	d := &disk{files: map[string]string{"i/" + imagepull.RecordFileName(img): string(imagepull.EncodeIntent(img))}}
	r := recording(t, d, kubelet.NeverVerifyPreloadedImages)
	r.pullsAhead(prepull.Deps{Checkpoints: noCheckpoints{}}, other)
	r.has[img] = true
	actortest.Spawn(r.Rig, kernel.Spec[struct{}]{
		Name: "occupant", Runner: r.runner, New: func() kernel.Behavior[struct{}] { return occupant{} },
	})
	r.WantAfter("what has come, and what to pull ahead", imagecache.Quiet, "runtime: "+look, "runtime: "+lookOther)
	r.runtime.Answer(nil, lookOther)
	r.WantAfter("before the pull", 5*time.Millisecond, "runtime: "+lookOther)
	r.runtime.Answer(nil, lookOther)
	r.WantAfter("it waits for its turn", 5*time.Millisecond)
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
	r.WantByListener("a pod wants the other", "runtime: "+look)
	r.runtime.Answer(nil, look)
	r.Advance(5 * time.Millisecond)
	r.Keep("runtime: pull")
	r.Want("it needs a pull", "runtime: "+pull+" as mine")
}

// TestAheadOfAPod: a pod that wants the image that is being pulled waits for that pull, and has its events.
func TestAheadOfAPod(t *testing.T) {
	n := pulling(t, img)
	n.actor.Tell(n.asks("a", v1.PullAlways))
	n.WantByListener("it is pulled already")
	n.actor.Tell(n.asks("b", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	n.WantByListener("by now it is a pull of pods", "runtime: "+look)
	n.runtime.Answer(nil, pull)
	n.runtime.Answer(nil, look)
	n.WantByListener("both have it", "runtime: "+look, "a: "+ready, "b: "+ready)
	if got := n.events.Lines(); !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, `a: Pulled: Successfully pulled image`) }) {
		t.Errorf("the events are %q", got)
	}
}

// TestAheadFails: people are told once, the next try is after a backoff, and no pod waits for that.
func TestAheadFails(t *testing.T) {
	n := pulling(t, img)
	n.runtime.Answer(refused(port.ImageNotFound, "not found"), pull)
	n.WantAfter("a backoff", time.Minute-time.Millisecond)
	n.WantAfter("the next try", 10*time.Millisecond, "runtime: "+pull)
	n.runtime.Answer(refused(port.ImageNotFound, "not found"), pull)
	if got := n.Logged("cannot pre-pull an image", img, "not found"); got != 1 {
		t.Errorf("told %d times", got)
	}
	n.actor.Tell(n.asks("a", v1.PullAlways))
	n.WantByListener("a pod has no backoff", "runtime: "+pull)
	n.runtime.Answer(nil, pull)
	n.runtime.Answer(nil, look)
	n.WantByListener("it is there", "runtime: "+look, "a: "+ready)
}

// TestAheadWithoutARuntime: while the runtime is down, no image is to blame.
func TestAheadWithoutARuntime(t *testing.T) {
	n := ahead(t, nil, other)
	n.WantAfter("looked for", imagecache.Quiet, "runtime: "+lookOther)
	down := &port.Error{Kind: port.Unavailable, Verb: "ImageStatus", Object: other, Detail: "connection refused"}
	for range 3 {
		n.runtime.Answer(down, lookOther)
		n.WantAfter("again", imagecache.Quiet, "runtime: "+lookOther)
	}
	n.runtime.Answer(nil, lookOther)
	n.WantAfter("pulled", 10*time.Millisecond, "runtime: "+pullOther)
	n.runtime.Answer(down, pullOther)
	n.WantAfter("again", imagecache.Quiet+10*time.Millisecond, "runtime: "+pullOther)
	if n.Logged("cannot pre-pull an image") > 0 {
		t.Errorf("the log is %s", n.Log.String())
	}
}

// TestAheadFailsForAPod: a pod that waits for the pull is told why it failed.
func TestAheadFailsForAPod(t *testing.T) {
	n := pulling(t, img)
	n.actor.Tell(n.asks("a", v1.PullAlways))
	n.Settle()
	n.runtime.Answer(refused(port.ImageNotFound, "not found"), pull)
	n.WantByListener("it waits", "a: app waits: ErrImagePull: not found")
}

// TestAheadRoom: nothing is pulled over the low threshold of image garbage collection. What did not fit is held back,
// also by the next agent.
func TestAheadRoom(t *testing.T) {
	n := ahead(t, nil, other)
	n.other = 80
	n.Advance(imagecache.Quiet)
	n.runtime.Answer(nil, lookOther)
	n.WantAfter("no room", 4*time.Minute, "runtime: "+lookOther)
	n.other = 60
	n.WantAfter("there is room", time.Minute+10*time.Millisecond, "runtime: "+pullOther)
	n.other = 79
	n.WantAfter("it goes on", 6*time.Second)
	n.other = 80
	n.WantAfter("it is too big", 6*time.Second, "runtime: "+pullOther+": given up")
	n.runtime.Answer(canceled, pullOther)
	n.other = 50
	n.WantAfter("held back", 5*time.Hour)
	if n.Logged("not pre-pulling images") != 1 || n.Logged("gave up the pre-pull of an image", other) != 1 {
		t.Errorf("the log is %s", n.Log.String())
	}
	next := ahead(t, nil, other)
	next.disk = n.disk
	next.other = 61
	next.WantAfter("looked for", imagecache.Quiet+10*time.Millisecond, "runtime: "+lookOther)
	next.runtime.Answer(nil, lookOther)
	next.WantAfter("there is less room than did not do", 12*time.Hour)
	next.other = 50
	for hours := 0; len(next.Lines()) == 0 && hours < 7; hours++ {
		next.Advance(59 * time.Minute)
	}
	next.Want("there is more", "runtime: "+pullOther)
}

// TestAheadCrash: the next incarnation does not pull what its predecessor is pulling, and waits for its end.
func TestAheadCrash(t *testing.T) {
	n := pulling(t, other)
	n.actor.Crash()
	n.WantAfter("it is busy", time.Minute, "all: repeat")
	n.list = append(n.list, named(other))
	n.runtime.Answer(nil, pullOther)
	n.WantAfter("looked for", 2*imagecache.Quiet, "runtime: "+lookOther)
	n.runtime.Answer(nil, lookOther)
	n.WantAfter("it is there", 24*time.Hour)
}

// TestAheadIsRemovedFirst: by garbage collection, and it is not pulled again soon.
func TestAheadIsRemovedFirst(t *testing.T) {
	n := pulling(t, other)
	n.runtime.Answer(nil, pullOther)
	n.list = append(n.list, named("reg.io/older:1"), named(other))
	n.Advance(6 * period)
	n.other = 85
	n.WantAfter("over the threshold", period, "runtime: remove sha256:"+other, "runtime: remove sha256:reg.io/older:1")
	n.runtime.Answer(nil, "remove sha256:"+other)
	n.other = 50
	n.runtime.Answer(nil, "remove sha256:reg.io/older:1")
	n.Keep("runtime: pull", "runtime: look")
	n.WantAfter("not again", 5*time.Hour)
	n.WantAfter("but some day", 90*time.Minute, "runtime: "+pullOther)
}

// TestAheadRecords: an image that was pulled with a credential of the node is not there for each pod; one that needs no
// credential is.
func TestAheadRecords(t *testing.T) {
	for _, c := range []struct {
		what  string
		found credentials.Found
		want  []string
	}{
		{"with one of the node", credentials.Found{Offers: []imagepull.Offer{
			{Credential: imagepull.Credential{Username: "node", Password: "p"}},
			{Credential: imagepull.Credential{Username: "account", Password: "p"}, Source: imagepull.Source{Owner: imagepull.OfServiceAccount, Name: "x"}},
		}}, []string{"did: look " + img, "did: pull " + img + " as mine"}},
		{"without any", credentials.Found{}, []string{"did: look " + img, "a: " + ready}},
	} {
		d := &disk{}
		answer := c.found
		r := recording(t, d, kubelet.NeverVerifyPreloadedImages, func(_ *rig, deps *images.Deps) {
			deps.Lookup = func(_ string, p *v1.Pod, _ func() bool, reply func(credentials.Found)) {
				if p != nil {
					reply(credentials.Found{})
					return
				}
				reply(answer)
			}
		})
		r.pullsAhead(prepull.Deps{Checkpoints: noCheckpoints{}}, img)
		r.Advance(imagecache.Quiet)
		r.run("*")
		if got := strings.Join(r.Lines(), ", "); strings.Contains(got, "account") || !strings.Contains(got, "did: pull "+img) {
			t.Fatalf("%s: %s", c.what, got)
		}
		r.Forget()
		r.actor.Tell(r.asks("a", v1.PullIfNotPresent, secret("mine", podobjects.Found)))
		r.run("*")
		if got := r.Lines(); len(got) < len(c.want) || !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
