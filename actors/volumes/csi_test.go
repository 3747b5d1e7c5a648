package volumes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/volumes"
)

// plays is csi, which the test plays.
type plays struct{ *rig }

// Use implements volumes.CSI.
func (p plays) Use(m volumes.UseCSI) { p.Say("csi: use %s of %s", m.Spec.Driver, m.Pod.UID) }

// Release implements volumes.CSI.
func (p plays) Release(m volumes.ReleaseCSI) { p.Say("csi: release %s", m.UID) }

// TestCSI: a volume of a CSI driver is left to csi, and a pod is unmounted once all of it are released.
func TestCSI(t *testing.T) {
	r := newRig(t)
	r.deps.CSI = plays{r}
	m := r.mounts("a", "one")
	m.Pod.Spec.Volumes = append(m.Pod.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{
		CSI: &v1.CSIVolumeSource{Driver: "d"},
	}})
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("asked", "csi: use d of a", "host: prepare a", "host: mount a/one")
	tell := func(a volumes.CSIAnswer) {
		a.UID = "a"
		r.actor.Tell(a)
		r.Settle()
	}
	tell(volumes.CSIAnswer{Volume: "disk", Failure: "no disk", Waiting: "no disk"})
	r.WantByListener("a failure", "a: failed: no disk")
	r.events.Want("an event", "a: FailedMount: no disk")
	r.actor.Tell(volumes.CSIRestarted{})
	tell(volumes.CSIAnswer{Volume: "disk", Path: "/disk"})
	r.WantByListener("asked again, and up", "a: up one=/one disk=/disk", "csi: use d of a")
	r.actor.Tell(unmounts(m))
	r.Advance(10 * time.Second)
	r.WantByListener("nothing is unmounted", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC; CSI drivers have not unpublished them", "csi: release a")
	tell(volumes.CSIAnswer{Waiting: "it hangs"})
	r.WantByListener("what it waits for", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC: it hangs")
	r.actor.Tell(volumes.CSIReleased{UID: "a"})
	r.host.Answer(nil, "unmount a")
	r.WantByListener("then it is", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC; a file system does not answer", "a: down, unmounted", "host: unmount a")
}
