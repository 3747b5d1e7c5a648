package images_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// early is the request of a container that waits for others.
func (r *rig) early(name string, policy v1.PullPolicy) images.Ensure {
	m := r.asks(name, policy)
	m.Ask.Ahead = true
	return m
}

// TestAheadOfItsTurn: what fails ahead of a container's turn is told to nobody, and does not delay the pull when it is its turn.
func TestAheadOfItsTurn(t *testing.T) {
	r := newRig(t)
	fails := refused(port.ImageNotFound, "no such tag")
	waits := "a: app waits: ImagePullBackOff: " + backingOff + ": ErrImagePull: no such tag"
	r.actor.Tell(r.early("a", v1.PullAlways))
	r.runtime.Answer(fails, pull)
	r.Advance(time.Second)
	r.WantByListener("it is pulled", "runtime: "+pull, "a: app waits: ErrImagePull: no such tag", waits)
	r.events.WantByListener("in silence")
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(fails, pull)
	r.WantByListener("its turn", "runtime: "+pull, "a: app waits: ErrImagePull: no such tag")
	r.events.WantByListener("as if it were the first", `a: Pulling: Pulling image "`+img+`"`, "a: Failed: "+failed)
	r.Advance(base - time.Millisecond)
	r.WantByListener("the backoff of the first", waits)
	r.Advance(time.Millisecond)
	r.WantByListener("and no longer", "runtime: "+pull)
}

// TestTurnIsLostAndComesBack: a container that is held up again, and then no more, goes on with its backoff.
func TestTurnIsLostAndComesBack(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
	r.Forget()
	for range 3 {
		r.actor.Tell(r.early("a", v1.PullAlways))
		r.actor.Tell(r.asks("a", v1.PullAlways))
		r.Advance(time.Second)
	}
	r.Keep("runtime: ")
	r.WantByListener("no pull within the backoff")
}

// TestStillPulledInTurn: a pull that is under way when it is the container's turn is its own, from then on.
func TestStillPulledInTurn(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.early("a", v1.PullAlways))
	r.WantByListener("pulls", "runtime: "+pull)
	r.events.WantByListener("in silence")
	r.Advance(2 * time.Second)
	r.actor.Tell(r.asks("a", v1.PullAlways))
	r.events.WantByListener("its turn", `a: Pulling: Pulling image "`+img+`"`)
	r.Advance(time.Second)
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("there", "runtime: "+look, "a: "+ready)
	r.events.WantByListener("pulled", `a: Pulled: Successfully pulled image "`+img+
		`" in 1s (1s including waiting). Image size: 4096 bytes.`)
}

// TestThereInTurn: when it is its turn, it is looked for by the policy.
func TestThereInTurn(t *testing.T) {
	r := newRig(t)
	r.has[img] = true
	r.actor.Tell(r.early("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("there", "runtime: "+look, "a: "+ready)
	r.events.WantByListener("in silence")
	r.actor.Tell(r.asks("a", v1.PullIfNotPresent))
	r.runtime.Answer(nil, look)
	r.WantByListener("its turn", "runtime: "+look, "a: "+ready)
	r.events.WantByListener("told", `a: Pulled: Container image "`+img+`" already present on machine`)
	r.actor.Tell(r.early("b", v1.PullAlways))
	r.runtime.Answer(nil, pull)
	r.runtime.Answer(nil, look)
	r.WantByListener("pulled ahead", "runtime: "+pull, "runtime: "+look, "b: "+ready)
	r.actor.Tell(r.asks("b", v1.PullAlways))
	r.WantByListener("its turn: what the name means now", "runtime: "+pull)
}

// containersOf are whose events were recorded.
type containersOf []string

// Record implements port.Recorder.
func (c *containersOf) Record(e port.Event) { *c = append(*c, e.Container+": "+e.Reason) }

// TestImageOfAVolume: the events of its pull are the pod's.
func TestImageOfAVolume(t *testing.T) {
	for of, want := range map[string][]string{
		"app":                         {"app: Pulling", "app: Failed"},
		imagepull.VolumeImage("data"): {": Pulling", ": Failed"},
	} {
		var got containersOf
		r := makeRig(t, func(_ *rig, d *images.Deps) { d.Events = &got })
		m := r.asks("a", v1.PullAlways)
		m.Ask.Container = of
		r.actor.Tell(m)
		r.runtime.Answer(refused(port.ImageNotFound, "no such tag"), pull)
		check.Same(t, []string(got), want, "events of %s", of)
	}
}
