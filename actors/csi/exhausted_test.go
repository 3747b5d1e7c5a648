package csi_test

import (
	"math"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestExhausted: a pod that has waited long for a volume ends if the node has no room for it, and the driver is asked for
// its number of volumes. Without a period in the CSIDriver, or with another failure, the pod goes on waiting.
func TestExhausted(t *testing.T) {
	const full = 8
	for name, c := range map[string]struct {
		period int64
		code   *int32
		ends   bool
	}{
		"full": {math.MaxInt64, new(int32(full)), true}, "no period": {0, new(int32(full)), false},
		"another failure": {3600, new(int32(13)), false}, "no code": {3600, nil, false},
	} {
		r := newRig(t)
		r.register(storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &c.period})
		r.nodeSays(nil, nil)
		r.calls.Answer(nil, "info "+driver)
		k := decide.Key{Driver: driver, Handle: "1"}
		va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: decide.AttachmentName(k, "n")}}
		va.Status.AttachError = &storagev1.VolumeError{Message: "takes no more", ErrorCode: c.code}
		r.stored[port.APIKeyOf(va)] = va
		r.use(spec("a", "1"))
		r.nodeSays([]string{"1"}, nil)
		r.Forget()
		r.Advance(2 * time.Minute)
		r.Keep("pods:")
		r.WantByListener(name + ": too soon")
		r.Advance(time.Minute)
		r.Keep("pods:", "driver: info")
		if c.ends {
			const why = "VolumeAttachmentLimitExceeded: Node has reached its volume attachment limit, rejecting pod. " +
				"unattached volumes=[data-1]: takes no more"
			r.WantByListener(name, "driver: info d.example.com", "pods: reject a: "+why)
			r.events.Want(name, "a: "+why)
			continue
		}
		r.WantByListener(name)
		r.events.Want(name)
	}
}

// TestPeriodChanges: a driver is asked again as its CSIDriver says now.
func TestPeriodChanges(t *testing.T) {
	r := newRig(t, func(r *rig) { r.prompt, r.infos = true, map[string]decide.Info{driver: {NodeID: "id"}} })
	r.register(notAttached)
	r.nodeSays(nil, nil)
	r.Forget()
	r.Advance(time.Hour)
	r.Keep("driver: info")
	r.WantByListener("once")
	set := func(seconds int64) {
		r.objects.Tell(port.APISet{Object: &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &seconds},
		}})
		r.Settle()
	}
	set(10)
	r.Advance(20 * time.Second)
	r.Keep("driver: info")
	r.WantByListener("again and again", "driver: info d.example.com", "driver: info d.example.com")
	set(math.MaxInt64)
	r.Advance(time.Hour)
	r.Keep("driver: info")
	r.WantByListener("a year")
	set(10)
	set(0)
	r.Advance(time.Hour)
	r.Keep("driver: info")
	r.WantByListener("no more")
}

// TestPeriodEnds: a driver that has come back and does not answer is asked again, though its CSIDriver has no period any more.
func TestPeriodEnds(t *testing.T) {
	r := newRig(t)
	r.register(storagev1.CSIDriverSpec{AttachRequired: new(false), NodeAllocatableUpdatePeriodSeconds: new(int64(30))})
	r.nodeSays(nil, nil)
	r.calls.Answer(nil, "info "+driver)
	r.watch(port.CSIDriver{Name: driver, Gone: true})
	r.watch(port.CSIDriver{Name: driver, Endpoint: "/e"})
	r.calls.Answer(fails(port.Unavailable, "not yet"), "info "+driver)
	r.Forget()
	r.objects.Tell(port.APISet{Object: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: notAttached}})
	r.WantAfter("asked again", time.Minute, "driver: info d.example.com")
}
