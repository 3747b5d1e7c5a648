package volumes_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestShared: people are told that another pod has a volume, with another group.
func TestShared(t *testing.T) {
	r := newRig(t)
	m := r.placed("a", false)
	m.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(3000))}
	r.actor.Tell(nodeIn("a"))
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.Settle()
	r.last.Taken(2000)
	r.Settle()
	r.events.WantByListener("warned", "a: AlreadyMountedVolume: The requested fsGroup is 3000, but the volume pv has GID 2000. "+
		"The volume may not be shareable.")
	r.actor.Tell(unmounts(m))
	r.Settle()
	r.last.Taken(2000)
	r.Settle()
	r.events.WantByListener("it goes")
}
