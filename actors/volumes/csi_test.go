package volumes_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// csi connects what plays csi.
func (r *rig) csi(to interface {
	Use(volumes.UseCSI)
	Release(volumes.ReleaseCSI)
}) {
	r.deps.UseCSI, r.deps.ReleaseCSI = to.Use, to.Release
}

// plays is csi, which the test plays.
type plays struct{ *rig }

// Use has what Deps.UseCSI has.
func (p plays) Use(m volumes.UseCSI) {
	for _, v := range m.Volumes {
		p.Say("csi: use %s of %s", v.Spec.Driver, m.Pod.UID)
	}
}

// news is what csi says of volumes of a pod.
func news(uid types.UID, all ...volumes.CSINews) volumes.CSIAnswer {
	return volumes.CSIAnswer{UID: uid, News: all}
}

// Release has what Deps.ReleaseCSI has.
func (p plays) Release(m volumes.ReleaseCSI) { p.Say("csi: release %s", m.UID) }

// TestCSI: a volume of a CSI driver is left to csi, and a pod is unmounted once all of it are released.
func TestCSI(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	m := r.mounts("a", "one")
	m.Pod.Spec.Volumes = append(m.Pod.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{
		CSI: &v1.CSIVolumeSource{Driver: "d"},
	}})
	podtest.UseVolumes(&m.Pod.Spec)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a", "mount a/one")
	r.WantByListener("asked", "csi: use d of a", "host: prepare a", "host: mount a/one")
	tell := func(n volumes.CSINews) {
		r.actor.Tell(news("a", n))
		r.Settle()
	}
	tell(volumes.CSINews{Volume: "disk", Failure: "no disk", Waiting: "no disk"})
	r.WantByListener("a failure", "a: failed: no disk")
	r.events.Want("an event", "a: FailedMount: no disk")
	r.actor.Tell(volumes.CSIRestarted{})
	tell(volumes.CSINews{Volume: "disk", Path: "/disk"})
	r.WantByListener("asked again, and up", "a: up one=/one disk=/disk", "csi: use d of a")
	r.actor.Tell(unmounts(m))
	r.Advance(10 * time.Second)
	r.WantByListener("nothing is unmounted", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC; CSI drivers have not unpublished them", "csi: release a")
	tell(volumes.CSINews{Waiting: "it hangs"})
	r.WantByListener("what it waits for", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC: it hangs")
	r.actor.Tell(volumes.CSIReleased{UID: "a"})
	r.host.Answer(nil, "unmount a")
	r.WantByListener("then it is", "a: pending, going: its volumes are being unmounted since 00:00:00 UTC; a file system does not answer", "a: down, unmounted", "host: unmount a")
}

// TestCSIRepeatFails: what is published stays, and an event says that it could not be published once more.
func TestCSIRepeatFails(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	r.actor.Tell(nodeIn("a"))
	m := r.placed("a", true)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/data"}))
	r.Settle()
	r.Forget()
	r.events.Forget()
	r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/data", Failure: "no token"}))
	r.Settle()
	r.WantByListener("it is up")
	r.events.Want("people are told", "a: FailedMount: no token")
}

// TestCSIDevice: that a device of a CSI driver is there is said once.
func TestCSIDevice(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	r.actor.Tell(nodeIn("a"))
	m := r.placed("a", true)
	pv, _ := m.Objects.Volume("pv")
	pv.Spec.VolumeMode = new(v1.PersistentVolumeBlock)
	m.Pod.Spec.Containers[0].VolumeMounts, m.Pod.Spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: "data"}}
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	for range 2 {
		r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/publish/pv/a"}))
		r.Settle()
	}
	r.events.Want("it is there", `a: SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "pv" globalMapPath "/publish/pv"`)
}

// TestAskedAgainInOrder: after a restart of csi it is asked for the volumes of one pod after the other, in the same order
// in each run.
func TestAskedAgainInOrder(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	var again []string
	for _, name := range []string{"d", "a", "f", "c", "b", "e"} {
		m := r.mounts(name, "")
		m.Pod.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}}}}
		podtest.UseVolumes(&m.Pod.Spec)
		r.actor.Tell(m)
		r.host.Answer(nil, "prepare "+name)
		again = append(again, "csi: use d of "+name)
	}
	r.Settle()
	r.Forget()
	r.actor.Tell(volumes.CSIRestarted{})
	slices.Sort(again)
	r.Want("asked again", again...)
}

// TestAskedAtOnce: csi is asked for all volumes of a pod in one message, however many the pod has, and after its restart as
// well: they may be more than its mailbox has places.
func TestAskedAtOnce(t *testing.T) {
	r := newRig(t)
	var asked []int
	r.csi(counting{plays{r}, &asked})
	m := r.mounts("a", "")
	for i := range 50 {
		m.Pod.Spec.Volumes = append(m.Pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{
			CSI: &v1.CSIVolumeSource{Driver: "d"},
		}})
	}
	podtest.UseVolumes(&m.Pod.Spec)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(volumes.CSIRestarted{})
	r.Settle()
	r.Forget()
	check.Same(t, asked, []int{50, 50}, "volumes in each message to csi")
	up := make([]volumes.CSINews, 50)
	for i := range up {
		up[i] = volumes.CSINews{Volume: fmt.Sprint("v", i), Path: "/v"}
	}
	r.actor.Tell(news("a", up...))
	r.Settle()
	lines := r.Lines()
	check.Equal(t, len(lines), 1, "messages to the pod")
	check.Has(t, lines[0], "a: up v0=/v", "what it is told")
	r.Forget()
}

// counting notes how many volumes each message asks for.
type counting struct {
	plays
	asked *[]int
}

// Use has what Deps.UseCSI has.
func (c counting) Use(m volumes.UseCSI) {
	*c.asked = append(*c.asked, len(m.Volumes))
	c.plays.Use(m)
}

// badly is the same request, after the claim has gone bad.
func badly(m volumes.Mount) volumes.Mount {
	ref := podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "c"}
	c := m.Objects.Get(ref).Object.(*v1.PersistentVolumeClaim).DeepCopy()
	c.Status.Phase = v1.ClaimLost
	volume := podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}
	m.Objects = podobjects.NewSet([]podobjects.Entry{{Ref: ref, State: podobjects.Found, Object: c}, m.Objects.Get(volume)})
	return m
}

// TestClaimMended: once a claim is mended, its CSI volume waits for csi, and no longer for the claim.
func TestClaimMended(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	r.actor.Tell(nodeIn("a"))
	m := r.placed("a", true)
	r.actor.Tell(badly(m))
	r.host.Answer(nil, "prepare a")
	r.WantByListener("a bad claim", "host: prepare a", "a: failed: Unable to attach or mount volumes: unmounted volumes=[data], "+
		`unattached volumes=[], failed to process volumes=[data]: error processing PVC default/c: PVC is not bound: its phase is "Lost"`)
	r.actor.Tell(m)
	r.Settle()
	r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Waiting: "it is not attached"}))
	r.WantByListener("mended", "csi: use d of a", "a: pending")
	r.Advance(10 * time.Second)
	r.WantByListener("what it waits for", `a: pending: waiting for volume "data" since 00:00:00 UTC: it is not attached`)
	r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Waiting: "it is not attached", Unattached: true}))
	r.Settle()
	r.events.Forget()
	r.Advance(113 * time.Second)
	r.events.Want("after two minutes", "a: FailedMount: Unable to attach or mount volumes: unmounted volumes=[data], "+
		"unattached volumes=[data], failed to process volumes=[]: context deadline exceeded")
}

// TestSummaryOfAClaim: what is not known of a claim keeps its volume from being processed, and the summary says so.
func TestSummaryOfAClaim(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	m := r.placed("a", true)
	m.Objects = podobjects.Set{}
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.Advance(10 * time.Second)
	r.events.Want("nothing has failed")
	r.Advance(113 * time.Second)
	r.events.Want("after two minutes", "a: FailedMount: Unable to attach or mount volumes: unmounted volumes=[data], "+
		"unattached volumes=[], failed to process volumes=[data]: context deadline exceeded")
}

// TestAskedAgainWithoutClaim: after a restart of csi a volume that is up is asked for as before, although its claim can't
// be used any more. What the claim wanted of its size does not count.
func TestAskedAgainWithoutClaim(t *testing.T) {
	r := newRig(t)
	var got *csi.Spec
	r.csi(noting{plays{r}, &got})
	r.actor.Tell(nodeIn("a"))
	m := r.placed("a", true)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/data"}))
	r.WantByListener("up", "host: prepare a", "csi: use d of a", "a: up data=/data")
	got.Size = 1024
	r.actor.Tell(badly(m))
	r.Settle()
	r.Forget()
	r.actor.Tell(volumes.CSIRestarted{})
	r.WantByListener("asked again", "csi: use d of a")
	if got.Handle != "h" || got.Size != 0 {
		t.Errorf("asked for %+v", got)
	}
}

// TestNotAskedAgainWithoutClaim: a volume that is not up yet waits for its claim.
func TestNotAskedAgainWithoutClaim(t *testing.T) {
	r := newRig(t)
	r.csi(plays{r})
	r.actor.Tell(nodeIn("a"))
	m := r.placed("a", true)
	r.actor.Tell(m)
	r.host.Answer(nil, "prepare a")
	r.actor.Tell(badly(m))
	r.Settle()
	r.Forget()
	r.actor.Tell(volumes.CSIRestarted{})
	r.WantByListener("not asked")
}

// noting notes what csi was asked for last.
type noting struct {
	plays
	got **csi.Spec
}

// Use has what Deps.UseCSI has.
func (n noting) Use(m volumes.UseCSI) {
	*n.got = m.Volumes[len(m.Volumes)-1].Spec
	n.plays.Use(m)
}
