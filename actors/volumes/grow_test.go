package volumes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/podtest"
)

// claims plays the apiserver with a claim and its local volume.
type claims struct {
	r      *rig
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// err is what it answers instead.
	err error
}

func newClaims(r *rig) *claims {
	c := &claims{
		r: r,
		claim: &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "c1"},
			Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
		},
		volume: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{
			ClaimRef: &v1.ObjectReference{UID: "c1"},
		}},
	}
	c.volume.Spec.Local = &v1.LocalVolumeSource{Path: "/disk"}
	c.claim.Status.Capacity, c.volume.Spec.Capacity = size("1Ki"), size("1Ki")
	r.deps.API = c
	return c
}

func size(text string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

// bigger gives the volume another size.
func (c *claims) bigger(text string) {
	c.volume = c.volume.DeepCopy()
	c.volume.Spec.Capacity = size(text)
}

// Get implements expand.API.
func (c *claims) Get(_ context.Context, k port.APIKey, done func(port.APIObject, error)) {
	switch {
	case c.err != nil:
		done(nil, c.err)
	case k == port.APIKeyOf(c.claim):
		done(c.claim, nil)
	case k == port.APIKeyOf(c.volume):
		done(c.volume, nil)
	default:
		done(nil, &port.Error{Kind: port.NotFound, Verb: "Get", Object: k.String()})
	}
}

// Patch implements expand.API.
func (c *claims) Patch(_ context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	c.claim = p.To.(*v1.PersistentVolumeClaim)
	s := &c.claim.Status
	c.r.Say("api: patch %s %v %d", fmt.Sprint(s.Capacity.Storage()), s.AllocatedResourceStatuses, len(s.Conditions))
	done(p.To, nil)
}

// mounts is a pod that has the claim.
func (c *claims) mounts(pod string, readOnly bool) volumes.Mount {
	m := c.r.mounts(pod, "data")
	m.Pod.Spec.NodeName = "n"
	m.Pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c", ReadOnly: readOnly}}
	m.Objects = podobjects.NewSet([]podobjects.Entry{
		{Ref: podobjects.Ref{Kind: podobjects.Claim, Namespace: "default", Name: "c"}, State: podobjects.Found, Object: c.claim},
		{Ref: podobjects.Ref{Kind: podobjects.Volume, Name: "pv"}, State: podobjects.Found, Object: c.volume},
	})
	return m
}

const (
	hasGrown = `FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "pv" n`
	toClaim  = "PersistentVolumeClaim default/c c1: "
)

// TestGrowsAtMount: a local volume that is bigger than its claim says is grown before its pod begins, and the claim says so
// once it is. A failure keeps the pod from beginning, as with a kubelet, and is tried again.
func TestGrowsAtMount(t *testing.T) {
	r := newRig(t)
	c := newClaims(r)
	c.bigger("2Ki")
	r.actor.Tell(c.mounts("a", false))
	r.host.Answer(nil, "prepare a", "mount a/data")
	r.host.Answer(&port.Error{Kind: port.Other, Verb: "GrowVolume", Detail: "it is full"}, "grow pv for a")
	const why = `MountVolume.SetUp failed for volume "pv" : it is full`
	r.WantByListener("failed", "host: prepare a", "host: mount a/data", "host: grow pv for a", "a: failed: "+why)
	r.events.Want("people know", "a: FailedMount: "+why)
	r.Advance(base)
	r.host.Answer(nil, "mount a/data", "grow pv for a")
	r.WantByListener("grown", "a: failed: "+why, "host: mount a/data", "host: grow pv for a", "api: patch 2Ki map[] 0", "a: up data=/data")
	r.events.Want("people know", "a: "+hasGrown, toClaim+hasGrown)
	r.Advance(time.Hour)
	r.WantByListener("once")
	if got := c.claim.Status.Capacity.Storage().Value(); got != 2048 {
		t.Errorf("the claim has %d", got)
	}
}

// TestGrowsInUse: a local volume that becomes bigger is grown while pods use it, once for all of them. What fails is said, and
// tried again at the next look; the pods go on.
func TestGrowsInUse(t *testing.T) {
	r := newRig(t)
	c := newClaims(r)
	for _, pod := range []string{"a", "b"} {
		r.actor.Tell(c.mounts(pod, false))
		r.host.Answer(nil, "prepare "+pod, "mount "+pod+"/data")
	}
	r.Forget()
	r.Advance(10 * time.Minute)
	r.WantByListener("it has its size")
	c.bigger("2Ki")
	r.Advance(time.Minute)
	r.host.Answer(&port.Error{Kind: port.Other, Verb: "GrowVolume", Object: "pv", Detail: "it is full"}, "grow pv for a")
	r.WantByListener("failed", "host: grow pv for a")
	const why = `VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume "pv" (data): GrowVolume pv: it is full`
	r.events.Want("people know", "a: "+why, "b: "+why)
	r.Advance(time.Minute)
	r.host.Answer(nil, "grow pv for a")
	r.WantByListener("grown", "host: grow pv for a", "api: patch 2Ki map[] 0")
	r.events.Want("people know, the claim once", "a: "+hasGrown, "b: "+hasGrown, toClaim+hasGrown)
	c.err = &port.Error{Kind: port.NotFound, Verb: "Get", Object: "c"}
	r.Advance(10 * time.Minute)
	r.WantByListener("once")
	r.events.Want("nothing is said")
}

// TestGrowsWithController: somebody says in the claim that it is the node's turn, and is told what comes of it, as for a volume
// of a CSI driver.
func TestGrowsWithController(t *testing.T) {
	r := newRig(t)
	c := newClaims(r)
	r.actor.Tell(c.mounts("a", false))
	r.host.Answer(nil, "prepare a", "mount a/data")
	r.Forget()
	c.bigger("2Ki")
	c.claim = c.claim.DeepCopy()
	c.claim.Spec.Resources.Requests = size("2Ki")
	c.claim.Status.AllocatedResources = size("2Ki")
	c.claim.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
	r.Advance(time.Minute)
	r.host.Answer(&port.Error{Kind: port.Other, Verb: "GrowVolume", Object: "pv", Detail: "it is full"}, "grow pv for a")
	r.WantByListener("failed", "api: patch 1Ki map[storage:NodeResizeInProgress] 0", "host: grow pv for a",
		"api: patch 1Ki map[storage:NodeResizeInProgress] 1")
	r.Advance(time.Minute)
	r.host.Answer(nil, "grow pv for a")
	r.WantByListener("grown", "api: patch 1Ki map[storage:NodeResizeInProgress] 1", "host: grow pv for a", "api: patch 2Ki map[] 0")
}

// TestGrowsReadOnly: a pod that may only read does not grow its volume, and people are told.
func TestGrowsReadOnly(t *testing.T) {
	r := newRig(t)
	c := newClaims(r)
	c.bigger("2Ki")
	r.actor.Tell(c.mounts("a", true))
	r.host.Answer(nil, "prepare a", "mount a/data")
	r.WantByListener("mounted", "host: prepare a", "host: mount a/data", "a: up data=/data")
	r.events.Want("people know", "a: "+isReadOnly, toClaim+isReadOnly)
	r.Advance(time.Hour)
	r.WantByListener("not later either")
}

const isReadOnly = `FileSystemResizeFailed: MountVolume.NodeExpandVolume failed for volume "pv" requested read-only file system`

// TestCSIStaysReadOnly: the same is said once of a volume of a CSI driver, unless another volume of the pod may write to it.
func TestCSIStaysReadOnly(t *testing.T) {
	for _, writes := range []bool{false, true} {
		r := newRig(t)
		r.csi(plays{r})
		c := newClaims(r)
		c.bigger("2Ki")
		c.volume.Spec.Local, c.volume.Spec.CSI = nil, &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
		m := c.mounts("a", true)
		if writes {
			m.Pod.Spec.Volumes = append(m.Pod.Spec.Volumes, v1.Volume{Name: "too", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}})
			podtest.UseVolumes(&m.Pod.Spec)
		}
		r.actor.Tell(m)
		r.host.Answer(nil, "prepare a")
		for range 2 {
			r.actor.Tell(news("a", volumes.CSINews{Volume: "data", Path: "/data"}))
			r.Settle()
		}
		want := []string{"a: " + isReadOnly, toClaim + isReadOnly}
		if writes {
			want = nil
		}
		r.events.Want("people know", want...)
	}
}

// TestGrowthGivenUp: a pod that ends while its volume grows waits until that was given up, and another pod that has it grows it
// later.
func TestGrowthGivenUp(t *testing.T) {
	r := newRig(t)
	c := newClaims(r)
	a, b := c.mounts("a", false), c.mounts("b", false)
	for _, m := range []volumes.Mount{a, b} {
		r.actor.Tell(m)
		r.host.Answer(nil, "prepare "+m.Pod.Name, "mount "+m.Pod.Name+"/data")
	}
	c.bigger("2Ki")
	r.Forget()
	r.Advance(time.Minute)
	r.actor.Tell(unmounts(a))
	r.WantByListener("it is waited for", "host: grow pv for a", "host: grow pv for a: given up")
	r.host.Answer(&port.Error{Kind: port.Unavailable, Verb: "GrowVolume", Object: "pv", Detail: "canceled"}, "grow pv for a")
	r.host.Answer(nil, "unmount a")
	r.WantByListener("down", "a: down, unmounted", "host: unmount a")
	r.Advance(time.Minute)
	r.host.Answer(nil, "grow pv for b")
	r.WantByListener("grown", "host: grow pv for b", "api: patch 2Ki map[] 0")
	r.events.Want("people know", "b: "+hasGrown, toClaim+hasGrown)
	r.actor.Tell(unmounts(b))
	r.host.Answer(nil, "unmount b")
	r.Forget()
	c.bigger("4Ki")
	r.Advance(time.Hour)
	r.WantByListener("no pod has it")
}
