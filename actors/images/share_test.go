package images_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
)

// wants has the n-th container of a pod ask for an image.
func (r *rig) wants(pod string, n int, image string) {
	of := r.asks(pod, v1.PullAlways)
	of.Ask.Container, of.Ask.Image = fmt.Sprint("c", n), "reg.io/"+image
	r.actor.Tell(of)
}

// inTurn wants pulls one after the other, a second apart at most. Each is answered.
func (r *rig) inTurn(images ...string) {
	for _, name := range images {
		r.Keep("runtime: pull")
		r.WantByListener("its turn", "runtime: pull reg.io/"+name)
		r.runtime.Answer(nil, "pull reg.io/"+name)
		r.Advance(time.Second)
	}
}

// TestTurnsAreShared: a pod that wants many images has one turn at a time.
func TestTurnsAreShared(t *testing.T) {
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Bucket = imagepull.NewBucket(1, 1) })
	for n := range 5 {
		r.wants("a", n, fmt.Sprint("a", n))
	}
	r.wants("b", 0, "b0")
	r.wants("b", 1, "a4") // as the first one, which has a turn in any case
	r.inTurn("a0", "a1", "b0", "a2", "a4", "a3")
	r.Keep("runtime: pull")
	r.WantByListener("no more")
}

// TestTurnsOfAPodThatIsGone: what others want of its images is pulled in their turn.
func TestTurnsOfAPodThatIsGone(t *testing.T) {
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Bucket = imagepull.NewBucket(1, 1) })
	for n := range 4 {
		r.wants("a", n, fmt.Sprint("a", n))
	}
	r.wants("b", 0, "b0")
	r.wants("b", 1, "a3")
	r.inTurn("a0")
	r.Keep("runtime: pull")
	r.WantByListener("its next", "runtime: pull reg.io/a1")
	r.actor.Tell(images.Forget{UID: "a"})
	r.WantByListener("which is given up", "runtime: pull reg.io/a1: given up")
	r.Advance(time.Second)
	r.inTurn("b0")
	r.Advance(time.Second) // that of a2, which nobody wants
	r.inTurn("a3")
	r.Keep("runtime: pull")
	r.WantByListener("no more")
}

// TestTurnOfAnImageThatIsNotWanted: a container that wants another image now gives up its turn, also if others wait for
// the first one.
func TestTurnOfAnImageThatIsNotWanted(t *testing.T) {
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Bucket = imagepull.NewBucket(1, 1) })
	waits := r.asks("b", v1.PullNever)
	waits.Ask.Image = "reg.io/x"
	r.actor.Tell(waits)
	r.runtime.Answer(nil, "look reg.io/x")
	for n, image := range []string{"a0", "x", "a2"} {
		r.wants("a", n, image)
	}
	r.wants("a", 1, "a1")
	r.inTurn("a0")
	r.Advance(time.Second) // that of x, which nobody pulls
	r.inTurn("a2", "a1")
}

// TestTurnOfAnImageThatCannotBeLookedFor: it does not hold up the others of its pod.
func TestTurnOfAnImageThatCannotBeLookedFor(t *testing.T) {
	r := makeRig(t, func(_ *rig, d *images.Deps) { d.Bucket = imagepull.NewBucket(1, 1) })
	before := []string{"p0", "p1", "p2", "p3", "p4", "p5"} // for longer than freshFor
	for _, name := range before {
		r.wants(name, 0, name)
	}
	looked := r.asks("a", v1.PullIfNotPresent)
	looked.Ask.Image = "reg.io/x"
	r.actor.Tell(looked)
	r.runtime.Answer(nil, "look reg.io/x")
	r.wants("a", 1, "a1")
	r.inTurn(before...)
	r.runtime.Answer(refused(port.Other, "it is broken"), "look reg.io/x")
	r.Advance(time.Second)
	r.inTurn("a1")
}

// TestSlotsAreShared: the first pull of a pod comes before the second one of another.
func TestSlotsAreShared(t *testing.T) {
	r := newRig(t)
	for n := range 4 {
		r.wants("a", n, fmt.Sprint("a", n))
	}
	r.wants("b", 0, "b0")
	r.Keep("runtime: pull")
	r.WantByListener("two slots", "runtime: pull reg.io/a0", "runtime: pull reg.io/a1")
	r.runtime.Answer(nil, "pull reg.io/a0")
	r.Keep("runtime: pull")
	r.WantByListener("the other pod", "runtime: pull reg.io/b0")
	r.runtime.Answer(nil, "pull reg.io/b0")
	r.Keep("runtime: pull")
	r.WantByListener("its own", "runtime: pull reg.io/a2")
}
