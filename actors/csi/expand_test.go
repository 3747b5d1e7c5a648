package csi_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestExpandRefused: a driver that refuses a size is not asked again while the claim says so. It is asked again for the same
// size once the controller of storage has taken that from the claim.
func TestExpandRefused(t *testing.T) {
	r := registered(t)
	s := spec("a", "v")
	s.Claim, s.Name = "c", "pv-v"
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	claim := func(status v1.ClaimResourceStatus) {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		c.Spec.Resources.Requests, c.Status.Capacity = size("2Ki"), size("1Ki")
		c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: status}
		r.stored[port.APIKeyOf(c)] = c
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-v"}, Spec: v1.PersistentVolumeSpec{Capacity: size("2Ki")}}
	r.stored[port.APIKeyOf(pv)] = pv
	r.use(s)
	r.calls.Answer(nil, "stage v", "publish v for a")
	claim(v1.PersistentVolumeClaimNodeResizePending)
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Invalid, "never"), "expand v to 2048 for a")
	claim(v1.PersistentVolumeClaimNodeResizeInfeasible)
	r.Forget()
	r.Advance(time.Hour)
	r.Keep("driver:")
	r.WantByListener("not again")
	claim(v1.PersistentVolumeClaimNodeResizePending)
	r.Advance(time.Minute)
	r.calls.Answer(nil, "expand v to 2048 for a")
	r.Advance(time.Hour)
	r.Keep("driver:")
	r.WantByListener("again, once", "driver: expand v to 2048 for a")
}

// usesMany has a pod use a volume of several nodes (ReadWriteMany) that another node has expanded.
func (r *rig) usesMany() {
	s := spec("a", "v")
	s.Claim, s.Name, s.Has = "c", "pv-v", 1024
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	c.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Ki")}
	c.Status.Capacity = c.Spec.Resources.Requests
	r.stored[port.APIKeyOf(c)] = c
	r.use(s)
	r.calls.Answer(nil, "stage v", "publish v for a")
}

// TestExpandedElsewhere: a volume of several nodes that another node has expanded is expanded here, too, once, and nothing is
// written into its claim. A second pod, which comes when the claim is done, changes nothing about that.
func TestExpandedElsewhere(t *testing.T) {
	for _, refused := range []bool{false, true} {
		r := registered(t)
		r.usesMany()
		second := spec("b", "v")
		second.Claim, second.Name, second.Has = "c", "pv-v", 2048
		r.use(second)
		r.calls.Answer(nil, "publish v for b")
		r.Forget()
		r.Advance(time.Minute)
		if !refused {
			r.calls.Answer(nil, "expand v to 2048 for a")
		} else {
			r.calls.Answer(fails(port.Invalid, "never"), "expand v to 2048 for a")
			r.Keep("api: patch")
			r.WantByListener("the claim says so", "api: patch PersistentVolumeClaim default/c: 2Ki map[storage:NodeResizeInfeasible] 1")
			r.Forget()
		}
		r.Advance(time.Hour)
		r.Keep("driver: expand", "api: patch")
		if refused {
			r.WantByListener("not again")
			continue
		}
		r.WantByListener("once, and the claim is left alone", "driver: expand v to 2048 for a")
	}
}

// TestExpandedNames: a pod that names a claim several times is told of each name, in the order of the names.
func TestExpandedNames(t *testing.T) {
	r := registered(t)
	r.usesMany()
	s := spec("a", "v")
	s.Claim, s.Name, s.Has = "c", "pv-v", 1024
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}
	told := func(name string) string {
		return fmt.Sprintf(`a: VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume "pv-v" (%s): Node d.example.com: busy`, name)
	}
	want := []string{told("data-v")}
	for _, name := range []string{"e", "f", "g", "h", "i", "j"} {
		r.actor.Tell(asks(p, name, s))
		want = append(want, told(name))
	}
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Other, "busy"), "expand v to 2048 for a")
	r.events.Want("in order", want...)
}

// TestExpandLowered: a size that a driver refuses for now is asked for again, until the user gives the claim another one.
// Then it is the controller's turn, and the driver is asked for the size that it has made. A driver that is not there
// says nothing of a claim.
func TestExpandLowered(t *testing.T) {
	r := registered(t)
	s := spec("a", "v")
	s.Claim, s.Name = "c", "pv-v"
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	key := port.APIKey{Kind: port.PersistentVolumeClaimKind, Namespace: "default", Name: "c"}
	set := func(request, volume string, status v1.ClaimResourceStatus) {
		c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		if old, is := r.stored[key].(*v1.PersistentVolumeClaim); is {
			c = old.DeepCopy()
		}
		c.Spec.Resources.Requests, c.Status.Capacity = size(request), size("1Ki")
		if status != "" {
			c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: status}
		}
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-v"}, Spec: v1.PersistentVolumeSpec{Capacity: size(volume)}}
		r.stored[key], r.stored[port.APIKeyOf(pv)] = c, pv
	}
	want := func(what string, status v1.ClaimResourceStatus, conditions int) {
		t.Helper()
		c := r.stored[key].(*v1.PersistentVolumeClaim)
		if got := c.Status.AllocatedResourceStatuses[v1.ResourceStorage]; got != status || len(c.Status.Conditions) != conditions {
			t.Errorf("%s: the claim has %q, %+v", what, got, c.Status.Conditions)
		}
	}
	set("1Ki", "1Ki", "")
	r.use(s)
	r.calls.Answer(nil, "stage v", "publish v for a")
	set("4Ki", "4Ki", v1.PersistentVolumeClaimNodeResizePending)
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.NotCalled, "is not registered"), "expand v to 4096 for a")
	want("absent", v1.PersistentVolumeClaimNodeResizeInProgress, 0)
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Unavailable, "connection closed"), "expand v to 4096 for a")
	want("no answer", v1.PersistentVolumeClaimNodeResizeInProgress, 0)
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Other, "no space"), "expand v to 4096 for a")
	want("refused", v1.PersistentVolumeClaimNodeResizeInProgress, 1)
	set("3Ki", "4Ki", "") // by the user
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Other, "no space"), "expand v to 4096 for a")
	want("lowered", v1.PersistentVolumeClaimNodeResizeInfeasible, 1)
	set("3Ki", "3Ki", v1.PersistentVolumeClaimNodeResizePending) // by the controller
	r.Advance(time.Minute)
	r.calls.Answer(nil, "expand v to 3072 for a")
	want("expanded", "", 0)
	// What a pod was told of the size may be old: what the claim wants now counts, and that is nothing.
	r.Forget()
	late := spec("b", "v")
	late.Claim, late.Name, late.Size = "c", "pv-v", 8192
	r.use(late)
	r.Advance(time.Hour)
	r.Keep("driver: expand")
	r.WantByListener("nothing to do")
}

// usesSmall has a pod use a volume that its controller has expanded.
func (r *rig) usesSmall() {
	s := spec("a", "v")
	s.Claim, s.Name, s.Size = "c", "pv-v", 2048
	size := func(text string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
	}
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	c.Spec.Resources.Requests, c.Status.Capacity = size("2Ki"), size("1Ki")
	c.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{
		v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending,
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-v"}, Spec: v1.PersistentVolumeSpec{Capacity: size("2Ki")}}
	r.stored[port.APIKeyOf(c)], r.stored[port.APIKeyOf(pv)] = c, pv
	r.use(s)
	r.calls.Answer(nil, "stage v", "publish v for a")
}

// TestExpandBegins: a volume that is too small for a pod that begins is expanded where it is published. The pod, and the
// question how full the volume is, wait until that has worked or failed.
func TestExpandBegins(t *testing.T) {
	for name, err := range map[string]error{
		"works": nil, "refused": fails(port.Invalid, "never"), "fails": fails(port.Other, "busy"), "no driver": fails(port.NotCalled, "gone"),
	} {
		t.Run(name, func(t *testing.T) {
			r := registered(t, func(r *rig) { r.period = time.Minute })
			r.usesSmall()
			r.Keep("driver:", "volumes: a data-v at")
			r.WantByListener("it waits", "driver: stage v", "driver: publish v for a", "driver: expand v to 2048 for a")
			r.calls.Answer(err, "expand v to 2048 for a")
			r.Keep("driver:", "volumes: a data-v at")
			r.WantByListener("it begins", "driver: stats v for a as [data-v]", "volumes: a data-v at /a")
		})
	}
}

// TestExpandNoAnswer: an expansion that is not answered in time is asked for again, before the next look at the claim.
func TestExpandNoAnswer(t *testing.T) {
	r := registered(t)
	r.usesSmall()
	r.Forget()
	r.Advance(csi.CallDeadline)
	r.calls.Answer(fails(port.Unavailable, "canceled"), "expand v to 2048 for a")
	r.Advance(5 * time.Second)
	r.Keep("driver:", "volumes: a data-v at")
	r.WantByListener("asked again", "driver: expand v to 2048 for a: given up", "driver: expand v to 2048 for a", "volumes: a data-v at /a")
}

// TestExpandUnsupported: a driver that never expands on nodes is asked once, and the pods are told nothing of it.
func TestExpandUnsupported(t *testing.T) {
	r := registered(t)
	r.usesMany()
	r.Forget()
	r.Advance(time.Minute)
	r.calls.Answer(fails(port.Unsupported, "no such call"), "expand v to 2048 for a")
	r.Advance(time.Hour)
	r.Keep("driver: expand", "api: patch")
	r.WantByListener("once", "driver: expand v to 2048 for a")
	r.events.Want("nothing is said")
}
