package volumes_test

import (
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
)

// TestFreed: what another pod had otherwise is tried again when that pod is gone, without the wait of a failure.
func TestFreed(t *testing.T) {
	r := newRig(t)
	first := r.mounts("a", "one")
	r.actor.Tell(first)
	r.actor.Tell(r.mounts("b", "two"))
	r.actor.Tell(r.mounts("c", "three"))
	r.host.Answer(nil, "prepare a", "mount a/one", "prepare b", "prepare c")
	r.host.Answer(&port.Error{Kind: port.StateConflict, Verb: "MountVolume", Detail: "conflicting SELinux labels"}, "mount b/two")
	r.host.Answer(broken("device busy"), "mount c/three")
	r.Forget()
	r.actor.Tell(unmounts(first))
	r.host.Answer(nil, "unmount a", "mount b/two")
	r.WantByListener("only what was taken", "host: unmount a", "host: mount b/two", "a: down, unmounted",
		`b: failed: MountVolume.SetUp failed for volume "two" : conflicting SELinux labels`, "b: up two=/two")
}
