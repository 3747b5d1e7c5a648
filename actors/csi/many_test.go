package csi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/csi"
	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/volumes"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// ofPods is a driver of inline volumes as well.
var ofPods = storagev1.CSIDriverSpec{AttachRequired: new(false), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
	storagev1.VolumeLifecycleEphemeral, storagev1.VolumeLifecyclePersistent,
}}

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

// eachAsked has a pod ask for n inline volumes, one after the other.
func (r *rig) eachAsked(pod string, n int) {
	for i := range n {
		s := spec(pod, fmt.Sprint("h", i))
		s.Inline = true
		r.use(s)
	}
}

// TestManyInlineVolumes: each inline volume of a pod costs the same, however many the pod has. Its driver is not there.
func TestManyInlineVolumes(t *testing.T) {
	linear.Held(t, 500, func(n int) func() {
		r := newRig(t)
		r.objects.Tell(port.APIReplaced{})
		return func() {
			r.eachAsked("greedy", n)
			r.useMany("other", n)
			r.Advance(time.Minute) // a sweep
			r.release("greedy")
			r.release("other")
			r.Forget()
		}
	})
}

// atOnce answers all calls of drivers at once.
type atOnce struct{ *rig }

func (atOnce) NodeInfo(_ context.Context, _ port.CSIDriver, done func(decide.Info, error)) {
	done(decide.Info{NodeID: "id"}, nil)
}

func (atOnce) StageVolume(_ context.Context, _ port.CSIDriver, _ decide.Stage, done func(error)) {
	done(nil)
}

func (atOnce) PublishVolume(
	_ context.Context, _ port.CSIDriver, _ decide.Publish, _ port.Walked, done func(string, error),
) {
	done("/v", nil)
}

func (atOnce) UnpublishVolume(_ context.Context, _ port.CSIDriver, _ decide.Found, done func(error)) {
	done(nil)
}

func (atOnce) UnstageVolume(_ context.Context, _ port.CSIDriver, _ decide.Found, done func(error)) {
	done(nil)
}

func (a atOnce) VolumeStats(_ context.Context, _ port.CSIDriver, _ decide.Measure, done func(decide.Usage, error)) {
	a.measured++
	done(decide.Usage{}, nil)
}

// TestManyPublished: so does each that is published, whose figures are asked for, and that goes; and each that is attached
// and staged before.
func TestManyPublished(t *testing.T) {
	for name, attached := range map[string]bool{"inline": false, "attached": true} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 250, func(n int) func() {
				r := newRig(t, func(r *rig) { r.period, r.drivers = time.Minute, atOnce{r} })
				r.register(storagev1.CSIDriverSpec{AttachRequired: &attached, VolumeLifecycleModes: ofPods.VolumeLifecycleModes})
				handles := make([]string, n)
				for i := range handles {
					handles[i] = fmt.Sprint("h", i)
					va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{
						Name: decide.AttachmentName(decide.Key{Driver: driver, Handle: handles[i]}, "n"),
					}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
					r.stored[port.APIKeyOf(va)] = va
				}
				r.nodeSays(nil, nil)
				return func() {
					if attached {
						for _, h := range handles {
							r.use(spec("greedy", h))
						}
						r.nodeSays(handles, handles)
					} else {
						r.eachAsked("greedy", n)
					}
					r.Advance(5*time.Minute + time.Second)
					check.Equal(t, r.measured, 6*n, "figures")
					r.release("greedy")
					r.Settle()
					check.Equal(t, r.Count("volumes: greedy released"), 1, "it goes")
					r.Forget()
				}
			})
		})
	}
}

// TestManyOfOneClaim: so does each volume of a pod that is of the same claim.
func TestManyOfOneClaim(t *testing.T) {
	linear.Held(t, 1000, func(n int) func() {
		r := newRig(t, func(r *rig) { r.period, r.drivers = time.Minute, atOnce{r} })
		r.register(notAttached)
		r.nodeSays(nil, nil)
		m := volumes.UseCSI{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "a"}}}
		for i := range n {
			m.Volumes = append(m.Volumes, volumes.CSIVolume{Name: fmt.Sprint("v", i), Spec: spec("a", "v")})
		}
		return func() {
			for range 3 {
				r.actor.Tell(csi.Use{UseCSI: m})
				r.Advance(time.Minute)
			}
			r.release("a")
			r.Forget()
		}
	})
}
