package eviction

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the actor alone. The rig plays the machine, podview, pods and nodestatus.
type rig struct {
	*actortest.Rig
	actor  *actortest.Actor[Message]
	left   eviction.Reading
	pods   []*v1.Pod
	use    uint64
	notice func(error)
	// asked is how often the kernel was asked for a notice.
	asked int
}

func (r *rig) Left(_ context.Context, done func(eviction.Reading, error)) {
	r.Soon(func() {
		l := r.left
		l.At = r.Now()
		done(l, nil)
	})
}

func (r *rig) Use(_ context.Context, list []*v1.Pod, _ port.PodUse, done func([]eviction.Use, error)) {
	r.Soon(func() {
		uses := make([]eviction.Use, len(list))
		for i := range uses {
			uses[i].Memory = r.use
		}
		done(uses, nil)
	})
}

func (r *rig) WatchMemory(_ context.Context, _ uint64, done func(error)) {
	r.notice, r.asked = done, r.asked+1
}

func (r *rig) Record(e port.Event) { r.Say("event: %s", e.Reason) }

func newRig(t *testing.T) *rig {
	r := &rig{Rig: actortest.New(t)}
	value := resource.MustParse("100")
	d := &Deps{
		NodeName: "n1", Pressure: r, Events: r, Deadline: time.Minute,
		Policy: eviction.Policy{Transition: time.Minute, Thresholds: []eviction.Threshold{
			{Signal: eviction.MemoryAvailable, Value: eviction.Amount{Quantity: &value}, Hard: true},
			{Signal: eviction.NodeFSAvailable, Value: eviction.Amount{Quantity: &value}, Hard: true},
		}},
		Pods:          func(reply func([]*v1.Pod)) { list := r.pods; r.Soon(func() { reply(list) }) },
		Evict:         func(m pods.Evict) { r.Say("pods: evict %s in %v", m.UID, m.Stop.Grace) },
		Show:          func(c eviction.Conditions) { r.Say("show: memory %v, disk %v", c.Memory, c.Disk) },
		ReclaimImages: func(reply func(error)) { r.Say("images: reclaim"); r.Soon(func() { reply(nil) }) },
	}
	r.memory(500)
	r.left.NodeFS.Bytes = eviction.Left{Available: 1000, Capacity: 1000, Known: true}
	for _, name := range []string{"a", "b"} {
		r.pods = append(r.pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}})
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[Message]{Name: "eviction", New: New(d)})
	r.WantAfter("begun", 10*time.Millisecond, "show: memory false, disk false")
	return r
}

func (r *rig) memory(n uint64) {
	r.left.Memory = eviction.Left{Available: n, Capacity: 1000, Known: true}
}

// TestOneVictim: one pod is evicted, and the next one not before that has ended or took too long.
func TestOneVictim(t *testing.T) {
	r := newRig(t)
	r.memory(50)
	r.notice(nil)
	r.WantAfter("the kernel gives notice", 10*time.Millisecond,
		"show: memory true, disk false", "event: EvictionThresholdMet", "event: Evicted", "pods: evict a in 1s")
	r.WantAfter("it is ending", 20*time.Second)
	r.pods = r.pods[1:]
	r.WantAfter("it has ended", 1100*time.Millisecond,
		"show: memory true, disk false", "event: EvictionThresholdMet", "event: Evicted", "pods: evict b in 1s")
	r.memory(900)
	r.pods = nil
	r.WantAfter("enough is left", 1100*time.Millisecond, "show: memory true, disk false")
	r.Advance(2 * time.Minute)
	r.Keep("show: memory false", "event", "pods")
	r.Want("the pressure is over", "show: memory false, disk false")
}

// TestDiskReclaim: images go before pods.
func TestDiskReclaim(t *testing.T) {
	r := newRig(t)
	r.left.NodeFS.Bytes.Available = 50
	r.WantAfter("disk is short", 4*time.Second, "show: memory false, disk true", "event: EvictionThresholdMet",
		"images: reclaim", "show: memory false, disk true", "event: Evicted", "pods: evict a in 1s")
}

// TestNotices: an early notice is soon asked for again, and none while memory is short, as it would come at once.
func TestNotices(t *testing.T) {
	r := newRig(t)
	r.notice(nil)
	r.WantAfter("it is early", 150*time.Millisecond)
	if r.asked != 2 {
		t.Fatalf("asked for %d notices, want 2", r.asked)
	}
	r.pods = nil
	r.memory(50)
	r.notice(nil)
	r.Advance(20 * time.Second)
	if r.asked != 2 {
		t.Fatalf("asked for %d notices while memory is short, want 2", r.asked)
	}
	r.memory(900)
	r.Advance(3 * time.Second)
	if r.asked != 3 {
		t.Fatalf("asked for %d notices when memory was enough again, want 3", r.asked)
	}
	r.Keep("nothing")
}

// TestNoticesOfNewLimits: the kernel is asked again when pods get a limit.
func TestNoticesOfNewLimits(t *testing.T) {
	r := newRig(t)
	r.left.Allocatable = eviction.Left{Available: 700, Capacity: 700, Known: true}
	old := r.notice
	r.Advance(eviction.Longest)
	if r.asked != 1 {
		t.Fatalf("asked for %d notices before the first ended, want 1", r.asked)
	}
	old(context.Canceled)
	r.Advance(eviction.Longest)
	if r.asked != 2 {
		t.Fatalf("asked for %d notices, want 2", r.asked)
	}
}

// TestImagesElsewhere: images stay if their removal would free nothing where room is short.
func TestImagesElsewhere(t *testing.T) {
	r := newRig(t)
	r.left.NodeFS.Device, r.left.ImageFS.Device = "a", "b"
	r.left.NodeFS.Bytes.Available = 50
	r.WantAfter("disk is short", 4*time.Second, "show: memory false, disk true", "event: EvictionThresholdMet",
		"event: Evicted", "pods: evict a in 1s")
}

// TestCrash: the next incarnation measures again.
func TestCrash(t *testing.T) {
	r := newRig(t)
	r.memory(50)
	r.pods = nil
	r.actor.Crash()
	r.notice(nil)
	r.Advance(time.Second)
	if r.Count("show: memory true, disk false") == 0 {
		t.Error("the pressure is not shown")
	}
}
