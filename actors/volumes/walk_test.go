package volumes_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// TestWalk: giving the files of a large disk to the group of a pod takes as long as it takes, and people are told how far it
// is. The host bounds the mount itself. A pod that goes does not wait for it.
func TestWalk(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "disk")
	m.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(7))}
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{FC: &v1.FCVolumeSource{WWIDs: []string{"3600"}}}
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.Advance(10 * time.Second)
	const either = "Fibre Channel disk 3600 does not answer, or its files are being given to the group of the pod (fsGroup 7), " +
		"which takes the longer the more there are"
	r.WantByListener("asked", "host: prepare a", "host: mount a/disk", `a: pending: waiting for volume "disk" since 00:00:00 UTC: `+either)
	r.events.Want("it may be the disk", `a: FailedMount: MountVolume.SetUp failed for volume "disk" : waiting: `+either)
	if r.last.Patience != deadline {
		t.Errorf("the mount may take %v", r.last.Patience)
	}
	r.last.Walked(7)
	r.Settle()
	const how = "its files are being given to the group of the pod (fsGroup 7), 7 of them so far"
	r.WantByListener("how far it is", `a: pending: waiting for volume "disk" since 00:00:00 UTC: `+how)
	r.events.Want("people know", `a: VolumePermissionChangeInProgress: Setting volume ownership of "disk" takes long: `+how+
		". With fsGroupChangePolicy OnRootMismatch it is done once, and not for each pod")
	r.Advance(24 * time.Hour)
	r.Keep("host: ")
	r.WantByListener("it goes on")
	r.Forget()
	r.last.Walked(7)
	r.Settle()
	r.WantByListener("said again", `a: pending: waiting for volume "disk" since 00:00:00 UTC: `+how)
	r.actor.Tell(unmounts(m))
	r.Settle()
	r.Keep("host: ")
	r.WantByListener("given up", "host: mount a/disk: given up")
}

// TestWalkOfCSI: csi tells how far it is.
func TestWalkOfCSI(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	m := r.mounts("a", "disk")
	m.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(7))}
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}}
	podtest.UseVolumes(&m.Pod.Spec)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	for _, w := range []csi.Walk{{Reports: 1, Files: 5}, {Reports: 1, Files: 5}, {Reports: 2, Files: 6}, {Reports: 3, Files: 6}} {
		r.actor.Tell(news("a", volumes.CSINews{Volume: "disk", Waiting: "it is being walked", Walk: w}))
		r.Settle()
	}
	const before, after = `a: VolumePermissionChangeInProgress: Setting volume ownership of "disk" takes long: its files are being given ` +
		"to the group of the pod (fsGroup 7), ", " of them so far. With fsGroupChangePolicy OnRootMismatch it is done once, and not for each pod"
	r.events.Want("each report", before+"5"+after, before+"6"+after, before+"6"+after)
	r.actor.Tell(news("a", volumes.CSINews{Volume: "disk", Path: "/disk"}))
	r.Settle()
	r.WantByListener("done", "csi: use d of a", "host: prepare a", "a: up disk=/disk")
}

// TestWalkAfterFailure: what failed first is not said any more when a later try is at the files.
func TestWalkAfterFailure(t *testing.T) {
	r := newRig(t)
	m := r.mounts("a", "disk")
	m.Pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: new(int64(7))}
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{FC: &v1.FCVolumeSource{WWIDs: []string{"3600"}}}
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.host.Answer(&port.Error{Kind: port.Other, Verb: "MountVolume", Detail: "no such disk"}, "mount a/disk")
	r.Advance(30 * time.Second)
	r.Forget()
	r.last.Walked(7)
	r.Settle()
	r.WantByListener("how far it is", `a: pending: waiting for volume "disk" since 00:00:00 UTC: its files are being given to the group of the pod (fsGroup 7), 7 of them so far`)
}
