package volumes_test

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/port"
)

func broken(detail string) error {
	return &port.Error{Kind: port.Other, Verb: "MountVolume", Object: "default/a", Detail: detail}
}

const noMount = `MountVolume.SetUp failed for volume "one" : no space left on device`

// TestMount: the pod's directories first, then all of its volumes at once, and the pod is told when all stand.
func TestMount(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.mounts("a", "one two"))
	r.want("first", "host: prepare a")
	r.answers(nil, "prepare a")
	r.want("then", "host: mount a/one", "host: mount a/two")
	r.answers(nil, "mount a/two")
	r.want("not all")
	r.answers(nil, "mount a/one")
	r.want("all", "a: up two=/two one=/one")
	r.pass(time.Hour)
	r.want("and no more is said")
	r.wantEvents("nor to people")
}

// TestNoVolumes: a pod without any has its directories made.
func TestNoVolumes(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "")
	r.ref.Tell(m)
	r.answers(nil, "prepare a")
	r.want("prepared", "host: prepare a", "a: up")
	r.ref.Tell(unmounts(m))
	r.answers(nil, "unmount a")
	r.want("and taken down", "host: unmount a", "a: down, unmounted")
}

// TestTwice: a request that comes again makes no second call, and is answered again.
func TestTwice(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.ref.Tell(m)
	r.answers(nil, "prepare a", "mount a/one")
	r.want("once", "host: prepare a", "host: mount a/one", "a: up one=/one")
	r.ref.Tell(m)
	r.want("answered again", "a: up one=/one")
}

// TestOneFails: the others are mounted, and the one is tried again, with a wait that doubles.
func TestOneFails(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.mounts("a", "one two"))
	r.answers(nil, "prepare a")
	r.answers(broken("no space left on device"), "mount a/one")
	r.want("failed", "host: prepare a", "host: mount a/one", "host: mount a/two", "a: failed: "+noMount)
	r.wantEvents("and people know", "a: FailedMount: "+noMount)
	r.answers(nil, "mount a/two")
	r.want("the other does not help", "a: failed: "+noMount)
	r.pass(base)
	r.answers(broken("no space left on device"), "mount a/one")
	r.want("again", "a: failed: "+noMount, "host: mount a/one", "a: failed: "+noMount)
	r.pass(2*base - time.Millisecond)
	r.want("twice as long")
	r.pass(time.Millisecond)
	r.answers(nil, "mount a/one")
	r.want("in the end", "a: failed: "+noMount, "host: mount a/one", "a: up two=/two one=/one")
}

// TestPrepareFails: no volume is mounted for a pod that has no directories.
func TestPrepareFails(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.mounts("a", "one"))
	r.answers(broken("read-only file system"), "prepare a")
	text := "MountVolume default/a: read-only file system"
	r.want("failed", "host: prepare a", "a: failed: "+text)
	r.wantEvents("people know", "a: FailedMount: "+text)
	r.pass(base)
	r.answers(nil, "prepare a", "mount a/one")
	r.want("in the end", "host: prepare a", "a: failed: "+text, "a: pending", "host: mount a/one",
		"a: up one=/one")
}

// TestHangingVolume delays its own pod only.
func TestHangingVolume(t *testing.T) {
	r := newRig(t)
	r.ref.Tell(r.mounts("a", "one two"))
	r.answers(nil, "prepare a", "mount a/two")
	r.ref.Tell(r.mounts("b", "one"))
	r.answers(nil, "prepare b", "mount b/one")
	r.want("the other pod", "host: prepare a", "host: mount a/one", "host: mount a/two",
		"host: prepare b", "host: mount b/one", "b: up one=/one")
	r.pass(10 * time.Second)
	r.want("after a while it is said what is missing",
		`a: pending: waiting for volume "one" since 00:00:00 UTC: its file system does not answer`)
	r.pass(deadline - 10*time.Second)
	text := `MountVolume.SetUp failed for volume "one" : the file system did not answer within 2m0s`
	r.want("no answer", "host: mount a/one: given up", "a: failed: "+text)
	r.wantEvents("people know", "a: FailedMount: "+text)
	r.pass(3 * time.Second)
	r.want("tried again, and the summary", "host: mount a/one", "a: failed: "+text, "a: failed: "+text)
	r.wantEvents("people know", "a: FailedMount: Unable to attach or mount volumes: unmounted volumes=[one], "+
		"unattached volumes=[], failed to process volumes=[]: timed out waiting for the condition")
	r.answers(nil, "mount a/one")
	r.want("the late answer of the first counts for nothing", "a: failed: "+text)
	r.answers(nil, "mount a/one")
	r.want("in the end", "a: up two=/two one=/one")
}

// TestObjects: a volume of an object that is not known yet waits for its pod to tell; one that is not there is a
// failure, which ends at once when it is there.
func TestObjects(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "map")
	r.ref.Tell(with(m, "", podobjects.Unknown))
	r.answers(nil, "prepare a")
	r.want("not known", "host: prepare a")
	r.pass(time.Minute)
	r.want("and not tried", `a: pending: waiting for volume "map" since 00:00:00 UTC: `+
		`configmap default/settings is not known yet`)
	r.ref.Tell(with(m, "", podobjects.Missing))
	text := `MountVolume.SetUp failed for volume "map" : configmap "settings" not found`
	r.want("not there", "a: failed: "+text)
	r.ref.Tell(with(m, "1", podobjects.Found))
	r.answers(nil, "mount a/map key=1")
	r.want("there", "host: mount a/map key=1", "a: failed: "+text, "a: up map=/map")
}

// TestNewContent is written. If that fails, the volume and the pod stay as they were.
func TestNewContent(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "map")
	r.ref.Tell(with(m, "1", podobjects.Found))
	r.answers(nil, "prepare a", "mount a/map key=1")
	r.said = nil
	m.Later = true
	r.ref.Tell(with(m, "2", podobjects.Found))
	r.answers(broken("no space left on device"), "mount a/map key=2")
	r.want("failed, and still up", "a: up map=/map", "host: mount a/map key=2", "a: up map=/map")
	r.wantEvents("people know", `a: FailedMount: MountVolume.SetUp failed for volume "map" : no space left on device`)
	r.pass(base)
	r.answers(nil, "mount a/map key=2")
	r.want("tried again", "host: mount a/map key=2", "a: up map=/map", "a: up map=/map")
	r.ref.Tell(with(m, "2", podobjects.Found))
	r.want("the same again is not written", "a: up map=/map")
}

// TestUnmount: taken down as a whole, tried again until it is.
func TestUnmount(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one two")
	r.ref.Tell(m)
	r.answers(nil, "prepare a", "mount a/one", "mount a/two")
	r.said = nil
	r.ref.Tell(unmounts(m))
	r.ref.Tell(unmounts(m))
	r.answers(broken("device busy"), "unmount a")
	text := "MountVolume default/a: device busy"
	r.want("failed", "host: unmount a", "a: failed, going: "+text)
	r.wantEvents("people know", "a: FailedUnMount: "+text)
	r.pass(base)
	r.answers(nil, "unmount a")
	r.want("down", "host: unmount a", "a: failed, going: "+text, "a: down, unmounted")
	if r.Timers() != 0 {
		t.Errorf("%d timers are left", r.Timers())
	}
	r.ref.Tell(unmounts(m))
	r.answers(nil, "unmount a")
	r.want("asked again, it is made sure again", "host: unmount a", "a: down, unmounted")
}

// TestUnmountHangs: the pod is told after a while what it waits for.
func TestUnmountHangs(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.answers(nil, "prepare a", "mount a/one")
	r.said = nil
	r.ref.Tell(unmounts(m))
	r.pass(10 * time.Second)
	r.want("what it waits for", "host: unmount a",
		"a: pending, going: its volumes are being unmounted since 00:00:00 UTC; a file system does not answer")
	r.answers(nil, "unmount a")
	r.want("down", "a: down, unmounted")
}

// TestUnmountWhileMounting: the mount is given up, and nothing is taken down before it is over: it would come up
// behind it. What it says then counts for nothing.
func TestUnmountWhileMounting(t *testing.T) {
	for name, err := range map[string]error{"it came up": nil, "it failed": broken("canceled")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.mounts("a", "one two")
			r.ref.Tell(m)
			r.answers(nil, "prepare a", "mount a/two")
			r.said = nil
			r.ref.Tell(unmounts(m))
			r.want("given up", "host: mount a/one: given up")
			r.answers(err, "mount a/one")
			r.want("then", "host: unmount a")
			r.wantEvents("and no failure")
			r.answers(nil, "unmount a")
			r.want("down", "a: down, unmounted")
		})
	}
}

// TestUnmountBehindHangingMount: the deadline of a mount that hangs ends the wait for it.
func TestUnmountBehindHangingMount(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.answers(nil, "prepare a")
	r.ref.Tell(unmounts(m))
	r.pass(deadline)
	r.said = nil
	r.answers(nil, "unmount a")
	r.want("down", "a: down, unmounted")
	r.answers(nil, "mount a/one")
	r.want("what comes later is nobody's")
}

// TestComesBack: a pod that wants its volumes again while they are taken down is told that they are, asks again,
// and has them mounted anew.
func TestComesBack(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.answers(nil, "prepare a", "mount a/one")
	r.ref.Tell(unmounts(m))
	r.Settle()
	r.said = nil
	r.ref.Tell(m)
	r.want("nothing is mounted")
	r.answers(nil, "unmount a")
	r.want("down", "a: down, unmounted")
	r.ref.Tell(m)
	r.answers(nil, "prepare a", "mount a/one")
	r.want("mounted anew", "host: prepare a", "host: mount a/one", "a: up one=/one")
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated, and finds what stands. What its
// predecessor mounts is over before the same is mounted again.
func TestRestart(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.answers(nil, "prepare a")
	r.Settle()
	r.said = nil
	r.crash = true
	r.ref.Tell(r.mounts("b", "one"))
	r.pass(time.Second)
	r.want("restarted", "all: repeat")
	r.ref.Tell(m)
	r.answers(nil, "prepare a")
	r.want("one after the other", "host: prepare a")
	r.answers(nil, "mount a/one", "mount a/one")
	r.want("found", "host: mount a/one", "a: up one=/one")
}

// TestUnmountAfterRestart: what a predecessor mounts is waited for too.
func TestUnmountAfterRestart(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.ref.Tell(m)
	r.answers(nil, "prepare a")
	r.crash = true
	r.ref.Tell(m)
	r.pass(time.Second)
	r.said = nil
	r.ref.Tell(unmounts(m))
	r.want("given up", "host: mount a/one: given up")
	r.answers(broken("canceled"), "mount a/one")
	r.answers(nil, "unmount a")
	r.want("then down", "host: unmount a", "a: down, unmounted")
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	flood := func() {
		for range 20 {
			r.ref.Tell(m)
		}
	}
	for range 3 {
		flood()
		r.pass(10 * time.Millisecond)
	}
	r.want("not while there is no room", "host: prepare a")
	r.pass(time.Second)
	r.want("once", "all: repeat")
	flood()
	r.pass(time.Second)
	r.want("and at the next overflow", "all: repeat")
}
