package csi_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
