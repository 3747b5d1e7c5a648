package volumes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

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
	r.actor.Tell(r.mounts("a", "one two"))
	r.WantByListener("first", "host: prepare a")
	r.host.Answer(nil, "prepare a")
	r.WantByListener("then", "host: mount a/one", "host: mount a/two")
	r.host.Answer(nil, "mount a/two")
	r.WantByListener("not all")
	r.host.Answer(nil, "mount a/one")
	r.WantByListener("all", "a: up two=/two one=/one")
	r.Advance(time.Hour)
	r.WantByListener("and no more is said")
	r.events.WantByListener("nor to people")
}

// TestNoVolumes: a pod without any has its directories made.
func TestNoVolumes(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.WantByListener("prepared", "host: prepare a", "a: up")
	r.actor.Tell(unmounts(m))
	r.host.Answer(nil, "unmount a")
	r.WantByListener("and taken down", "host: unmount a", "a: down, unmounted")
}

// TestTwice: a request that comes again makes no second call, and is answered again.
func TestTwice(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("once", "host: prepare a", "host: mount a/one", "a: up one=/one")
	r.actor.Tell(m)
	r.WantByListener("answered again", "a: up one=/one")
}

// TestOneFails: the others are mounted, and the one is tried again, with a wait that doubles.
func TestOneFails(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.mounts("a", "one two"))
	r.host.Answer(nil, "prepare a")
	r.host.Answer(broken("no space left on device"), "mount a/one")
	r.WantByListener("failed", "host: prepare a", "host: mount a/one", "host: mount a/two", "a: failed: "+noMount)
	r.events.WantByListener("and people know", "a: FailedMount: "+noMount)
	r.host.Answer(nil, "mount a/two")
	r.WantByListener("the other does not help", "a: failed: "+noMount)
	r.Advance(base)
	r.host.Answer(broken("no space left on device"), "mount a/one")
	r.WantByListener("again", "a: failed: "+noMount, "host: mount a/one", "a: failed: "+noMount)
	r.Advance(2*base - time.Millisecond)
	r.WantByListener("twice as long")
	r.Advance(time.Millisecond)
	r.host.Answer(nil, "mount a/one")
	r.WantByListener("in the end", "a: failed: "+noMount, "host: mount a/one", "a: up two=/two one=/one")
}

// TestPrepareFails: no volume is mounted for a pod that has no directories.
func TestPrepareFails(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.mounts("a", "one"))
	r.host.Answer(broken("read-only file system"), "prepare a")
	text := "MountVolume default/a: read-only file system"
	r.WantByListener("failed", "host: prepare a", "a: failed: "+text)
	r.events.WantByListener("people know", "a: FailedMount: "+text)
	r.Advance(base)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("in the end", "host: prepare a", "a: failed: "+text, "a: pending", "host: mount a/one",
		"a: up one=/one")
}

// TestHangingVolume delays its own pod only.
func TestHangingVolume(t *testing.T) {
	r := newRig(t)
	r.actor.Tell(r.mounts("a", "one two"))
	r.host.Answer(nil, "prepare a", "mount a/two")
	r.actor.Tell(r.mounts("b", "one"))
	r.host.Answer(nil, "prepare b", "mount b/one")
	r.WantByListener("the other pod", "host: prepare a", "host: mount a/one", "host: mount a/two",
		"host: prepare b", "host: mount b/one", "b: up one=/one")
	r.Advance(10 * time.Second)
	r.WantByListener("after a while it is said what is missing",
		`a: pending: waiting for volume "one" since 00:00:00 UTC: its file system does not answer`)
	r.events.Want("kubectl describe shows it", `a: FailedMount: MountVolume.SetUp failed for volume "one" : waiting: its file system does not answer`)
	r.Advance(deadline - 10*time.Second)
	text := `MountVolume.SetUp failed for volume "one" : the file system did not answer within 2m0s`
	r.WantByListener("no answer", "host: mount a/one: given up", "a: failed: "+text)
	r.events.WantByListener("people know", "a: FailedMount: "+text)
	r.Advance(3 * time.Second)
	r.WantByListener("tried again, and the summary", "host: mount a/one", "a: failed: "+text, "a: failed: "+text)
	r.events.WantByListener("people know", "a: FailedMount: Unable to attach or mount volumes: unmounted volumes=[one], "+
		"unattached volumes=[], failed to process volumes=[]: context deadline exceeded")
	r.host.Answer(nil, "mount a/one")
	r.WantByListener("the late answer of the first counts for nothing", "a: failed: "+text)
	r.host.Answer(nil, "mount a/one")
	r.WantByListener("in the end", "a: up two=/two one=/one")
}

// TestHangingTarget: a disk says which target does not answer.
func TestHangingTarget(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "disk")
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1", IQN: "iqn.x:y", Lun: 1}}
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.WantByListener("asked", "host: prepare a", "host: mount a/disk")
	r.Advance(10 * time.Second)
	r.WantByListener("after a while it is said what is missing",
		`a: pending: waiting for volume "disk" since 00:00:00 UTC: iSCSI target iqn.x:y (LUN 1) at 10.0.0.1:3260 does not answer`)
	r.Advance(deadline - 10*time.Second)
	r.WantByListener("no answer", "host: mount a/disk: given up",
		`a: failed: MountVolume.SetUp failed for volume "disk" : iSCSI target iqn.x:y (LUN 1) at 10.0.0.1:3260 did not answer within 2m0s`)
}

// TestObjects: a volume of an object that is not known yet waits for its pod to tell; one that is not there is a
// failure, which ends at once when it is there.
func TestObjects(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "map")
	r.actor.Tell(with(m, "", podobjects.Unknown))
	r.host.Answer(nil, "prepare a")
	r.WantByListener("not known", "host: prepare a")
	r.Advance(time.Minute)
	r.WantByListener("and not tried", `a: pending: waiting for volume "map" since 00:00:00 UTC: `+
		`configmap default/settings is not known yet`)
	r.actor.Tell(with(m, "", podobjects.Missing))
	text := `MountVolume.SetUp failed for volume "map" : configmap "settings" not found`
	r.WantByListener("not there", "a: failed: "+text)
	r.actor.Tell(with(m, "1", podobjects.Found))
	r.host.Answer(nil, "mount a/map key=1")
	r.WantByListener("there", "host: mount a/map key=1", "a: failed: "+text, "a: up map=/map")
}

// TestNewContent is written. If that fails, the volume and the pod stay as they were.
func TestNewContent(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "map")
	r.actor.Tell(with(m, "1", podobjects.Found))
	r.host.Answer(nil, "prepare a", "mount a/map key=1")
	r.Forget()
	m.Later = true
	r.actor.Tell(with(m, "2", podobjects.Found))
	r.host.Answer(broken("no space left on device"), "mount a/map key=2")
	r.WantByListener("failed, and still up", "a: up map=/map", "host: mount a/map key=2", "a: up map=/map")
	r.events.WantByListener("people know", `a: FailedMount: MountVolume.SetUp failed for volume "map" : no space left on device`)
	r.Advance(base)
	r.host.Answer(nil, "mount a/map key=2")
	r.WantByListener("tried again", "host: mount a/map key=2", "a: up map=/map", "a: up map=/map")
	r.actor.Tell(with(m, "2", podobjects.Found))
	r.WantByListener("the same again is not written", "a: up map=/map")
}

// TestUnmount: taken down as a whole, tried again until it is.
func TestUnmount(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one two")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one", "mount a/two")
	r.Forget()
	r.actor.Tell(unmounts(m))
	r.actor.Tell(unmounts(m))
	r.host.Answer(broken("device busy"), "unmount a")
	text := "MountVolume default/a: device busy"
	r.WantByListener("failed", "host: unmount a", "a: failed, going: "+text)
	r.events.WantByListener("people know", "a: FailedUnMount: "+text)
	r.Advance(base)
	r.host.Answer(nil, "unmount a")
	r.WantByListener("down", "host: unmount a", "a: failed, going: "+text, "a: down, unmounted")
	if r.Timers() != 0 {
		t.Errorf("%d timers are left", r.Timers())
	}
	r.actor.Tell(unmounts(m))
	r.host.Answer(nil, "unmount a")
	r.WantByListener("asked again, it is made sure again", "host: unmount a", "a: down, unmounted")
}

// TestUnmountHangs: the pod is told after a while what it waits for.
func TestUnmountHangs(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.Forget()
	r.actor.Tell(unmounts(m))
	r.Advance(10 * time.Second)
	r.WantByListener("what it waits for", "host: unmount a",
		"a: pending, going: its volumes are being unmounted since 00:00:00 UTC; a file system does not answer")
	r.events.Want("kubectl describe shows it", "a: FailedUnMount: UnmountVolume.TearDown has not ended: its volumes are being "+
		"unmounted since 00:00:00 UTC; a file system does not answer")
	r.host.Answer(nil, "unmount a")
	r.WantByListener("down", "a: down, unmounted")
}

// TestUnmountWhileMounting: the mount is given up, and nothing is taken down before it is over: it would come up
// behind it. What it says then counts for nothing.
func TestUnmountWhileMounting(t *testing.T) {
	for name, err := range map[string]error{"it came up": nil, "it failed": broken("canceled")} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := r.mounts("a", "one two")
			r.actor.Tell(m)
			r.host.Answer(nil, "prepare a", "mount a/two")
			r.Forget()
			r.actor.Tell(unmounts(m))
			r.WantByListener("given up", "host: mount a/one: given up")
			r.host.Answer(err, "mount a/one")
			r.WantByListener("then", "host: unmount a")
			r.events.WantByListener("and no failure")
			r.host.Answer(nil, "unmount a")
			r.WantByListener("down", "a: down, unmounted")
		})
	}
}

// TestUnmountBehindHangingMount: the deadline of a mount that hangs ends the wait for it.
func TestUnmountBehindHangingMount(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(unmounts(m))
	r.Advance(deadline)
	r.Forget()
	r.host.Answer(nil, "unmount a")
	r.WantByListener("down", "a: down, unmounted")
	r.host.Answer(nil, "mount a/one")
	r.WantByListener("what comes later is nobody's")
}

// TestComesBack: a pod that wants its volumes again while they are taken down is told that they are, asks again,
// and has them mounted anew.
func TestComesBack(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.actor.Tell(unmounts(m))
	r.Settle()
	r.Forget()
	r.actor.Tell(m)
	r.WantByListener("nothing is mounted")
	r.host.Answer(nil, "unmount a")
	r.WantByListener("down", "a: down, unmounted")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("mounted anew", "host: prepare a", "host: mount a/one", "a: up one=/one")
}

// TestRestart: an incarnation that knows nothing asks to have everything repeated, and finds what stands. What its
// predecessor mounts is over before the same is mounted again.
func TestRestart(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.Settle()
	r.Forget()
	r.actor.Crash()
	r.actor.Tell(r.mounts("b", "one"))
	r.Advance(time.Second)
	r.WantByListener("restarted", "all: repeat")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.WantByListener("one after the other", "host: prepare a")
	r.host.Answer(nil, "mount a/one", "mount a/one")
	r.WantByListener("found", "host: mount a/one", "a: up one=/one")
}

// TestUnmountAfterRestart: what a predecessor mounts is waited for too.
func TestUnmountAfterRestart(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Crash()
	r.actor.Tell(m)
	r.Advance(time.Second)
	r.Forget()
	r.actor.Tell(unmounts(m))
	r.WantByListener("given up", "host: mount a/one: given up")
	r.host.Answer(broken("canceled"), "mount a/one")
	r.host.Answer(nil, "unmount a")
	r.WantByListener("then down", "host: unmount a", "a: down, unmounted")
}

// TestOverflow: however much is lost, everything is asked for again once.
func TestOverflow(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "one")
	flood := func() {
		for range 20 {
			r.actor.Tell(m)
		}
	}
	for range 3 {
		flood()
		r.Advance(10 * time.Millisecond)
	}
	r.WantByListener("not while there is no room", "host: prepare a")
	r.Advance(time.Second)
	r.WantByListener("once", "all: repeat")
	flood()
	r.Advance(time.Second)
	r.WantByListener("and at the next overflow", "all: repeat")
}
