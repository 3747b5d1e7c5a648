package csi_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/check"
)

// ofPods is a driver of inline volumes.
var ofPods = storagev1.CSIDriverSpec{
	AttachRequired: new(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
}

// useMany has a pod ask for n inline volumes at once.
func (r *rig) useMany(pod string, n int) {
	m := volumes.UseCSI{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod, UID: types.UID(pod)}}}
	for i := range n {
		s := spec(pod, fmt.Sprint("h", i))
		s.Inline = true
		m.Volumes = append(m.Volumes, volumes.CSIVolume{Name: fmt.Sprint("v", i), Spec: s})
	}
	r.actor.Tell(csi.Use{UseCSI: m})
	r.Settle()
}

// TestToldAtOnce: a pod is told in one message what is new of its volumes, and one with many of them of all that becomes new
// in a while.
func TestToldAtOnce(t *testing.T) {
	for n, while := range map[int]time.Duration{3: 0, 40: 400 * time.Microsecond} { // order-free: each on its own
		r := newRig(t)
		told := func(what string, news, messages int) {
			t.Helper()
			r.Keep("volumes:")
			if while > 0 {
				r.WantAfter(what+": in a while", while-1)
				r.Advance(1)
			}
			r.Keep("volumes:")
			check.Equal(t, len(r.Lines()), news, "%s", what)
			check.Equal(t, r.answers, messages, "%s: messages", what)
			r.Forget()
			r.answers = 0
		}
		r.register(ofPods)
		r.nodeSays(nil, nil)
		r.Forget()
		r.useMany("a", n)
		told("it is being published", n, 1)
		for i := range n {
			r.calls.Answer(nil, fmt.Sprintf("publish h%d for a", i))
		}
		if while > 0 {
			told("it is there", n, 1)
		} else {
			told("it is there", n, n)
		}
		r.watch(port.CSIDriver{Name: driver, Gone: true})
		r.release("a")
		told("of what the release waits for only the newest counts", 1, 1)
	}
}
