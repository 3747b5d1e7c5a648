package eviction

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig is the actor alone. The rig plays the machine, podview, pods and nodestatus.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[Message]
	left  eviction.Reading
	pods  []*v1.Pod
	use   uint64
	// disk is what the volume v of each pod takes. partial: not all of it can be counted.
	disk    map[types.UID]uint64
	partial map[types.UID]bool
	// waits: a measurement of disk waited for large directories.
	waits  bool
	notice func(error)
	// counted is how many pods' disk use was measured.
	counted int
	// asked is how often the kernel was asked for a notice.
	asked int
	// holding are the pods of which something is mounted.
	holding map[types.UID]bool
	// hangs: measurements of pods' disks have no answer. blind: no measurement of pods has a result.
	hangs, blind bool
}

func (r *rig) Left(_ context.Context, done func(eviction.Reading, error)) {
	r.Soon(func() {
		l := r.left
		l.At = r.Now()
		done(l, nil)
	})
}

func (r *rig) Use(_ context.Context, list []*v1.Pod, want port.PodUse, done func([]eviction.Use, error)) {
	if want.Disk && r.hangs {
		return
	}
	r.Soon(func() {
		uses := make([]eviction.Use, len(list))
		if r.blind {
			done(uses, errors.New("nothing is measured"))
			return
		}
		for i := range uses {
			uses[i].Memory = r.use
			if want.Disk {
				r.counted++
				r.waits = !want.Soon
				uses[i].Volumes = []eviction.VolumeUse{{Name: "v", DiskUse: eviction.DiskUse{
					Bytes: r.disk[list[i].UID], Partial: r.partial[list[i].UID],
				}}}
			}
		}
		done(uses, nil)
	})
}

func (r *rig) WatchMemory(_ context.Context, _ uint64, done func(error)) {
	r.notice, r.asked = done, r.asked+1
}

func (r *rig) Record(e port.Event) { r.Say("event: %s", e.Reason) }

func newRig(t *testing.T, change ...func(*Deps)) *rig {
	r := &rig{Rig: actortest.New(t), disk: map[types.UID]uint64{}, partial: map[types.UID]bool{}}
	value := resource.MustParse("100")
	d := &Deps{
		NodeName: "n1", Pressure: r, Events: r, Deadline: time.Minute,
		Policy: eviction.Policy{Transition: time.Minute, Thresholds: []eviction.Threshold{
			{Signal: eviction.MemoryAvailable, Value: eviction.Amount{Quantity: &value}, Hard: true},
			{Signal: eviction.NodeFSAvailable, Value: eviction.Amount{Quantity: &value}, Hard: true},
		}},
		Pods: func(reply func([]*v1.Pod, map[types.UID]bool)) {
			list, holding := r.pods, r.holding
			r.Soon(func() { reply(list, holding) })
		},
		Evict:         func(m podset.Evict) { r.Say("pods: evict %s in %v", m.UID, m.Stop.Grace) },
		Show:          func(c eviction.Conditions) { r.Say("show: memory %v, disk %v", c.Memory, c.Disk) },
		ReclaimImages: func(reply func(error)) { r.Say("images: reclaim"); r.Soon(func() { reply(nil) }) },
	}
	for _, f := range change {
		f(d)
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
	r.Advance(20 * time.Second)
	r.Keep("event", "pods")
	r.Want("it is ending")
	r.pods = r.pods[1:]
	r.Advance(1100 * time.Millisecond)
	r.Keep("event", "pods")
	r.Want("it has ended", "event: EvictionThresholdMet", "event: Evicted", "pods: evict b in 1s")
	r.memory(900)
	r.pods = nil
	r.Advance(time.Second)
	r.Keep("show: memory false", "event", "pods")
	r.Want("enough is left")
	r.Advance(2 * time.Minute)
	r.Keep("show: memory false", "event", "pods")
	r.Want("the pressure is over", "show: memory false, disk false")
}

func limitsOn(d *Deps) { d.Policy.LocalStorage = true }

// limit makes pods that may take 100 bytes each.
func (r *rig) limit(names ...string) {
	size := resource.MustParse("100")
	for _, name := range names {
		r.pods = append(r.pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
			Spec: v1.PodSpec{Volumes: []v1.Volume{{
				Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}},
			}}},
		})
	}
}

// ends takes a pod away.
func (r *rig) ends(name string) {
	r.pods = slices.DeleteFunc(slices.Clone(r.pods), func(p *v1.Pod) bool { return p.Name == name })
}

// TestSeveralOverLimits: all pods over their limits are evicted at once, and while one of them has not ended nobody is
// evicted for disk, but one is for memory.
func TestSeveralOverLimits(t *testing.T) {
	r := newRig(t, limitsOn)
	r.limit("x", "y", "z")
	r.disk["x"], r.disk["y"], r.disk["z"] = 101, 101, 100
	r.WantAfter("limits are checked", 10200*time.Millisecond,
		"event: Evicted", "pods: evict x in 1s", "event: Evicted", "pods: evict y in 1s")
	r.ends("x")
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(12 * time.Second)
	r.Keep("pods")
	r.Want("y has not ended")
	r.left.NodeFS.Bytes.Available = 1000
	r.memory(50)
	r.Advance(10 * time.Second)
	r.Keep("pods: evict a")
	r.Want("memory is short now", "pods: evict a in 1s")
}

// TestSeveralOverLimitsEnd: when the last of several has ended, and disk is still short, one more is evicted.
func TestSeveralOverLimitsEnd(t *testing.T) {
	r := newRig(t, limitsOn)
	r.limit("x", "y")
	r.disk["x"], r.disk["y"] = 101, 101
	r.WantAfter("limits are checked", 10200*time.Millisecond,
		"event: Evicted", "pods: evict x in 1s", "event: Evicted", "pods: evict y in 1s")
	r.left.NodeFS.Bytes.Available = 50
	r.ends("y")
	r.Advance(12 * time.Second)
	r.ends("x")
	r.Advance(1500 * time.Millisecond)
	r.Keep("pods")
	r.Want("the last has ended", "pods: evict a in 1s")
}

// TestLimitsWhileMemoryIsShort: a pod over its limit is evicted within one look although memory is short and the end
// of another is awaited.
func TestLimitsWhileMemoryIsShort(t *testing.T) {
	r := newRig(t, limitsOn)
	r.limit("x")
	r.memory(50)
	r.notice(nil)
	r.Advance(100 * time.Millisecond)
	r.Keep("pods")
	r.Want("memory is short", "pods: evict a in 1s")
	r.disk["x"] = 101
	r.Advance(10200 * time.Millisecond)
	r.Keep("pods")
	r.Want("x is over its limit", "pods: evict x in 1s")
}

// TestIdlePodsAreSeldomMeasured: as long as file systems do not grow, files of pods are counted every minute; a
// pod that fills its volume is evicted at the next look.
func TestIdlePodsAreSeldomMeasured(t *testing.T) {
	r := newRig(t, limitsOn)
	r.left.NodeFS.Device = "a"
	r.left.NodeFS.Bytes = eviction.Left{Available: 10000, Capacity: 20000, Known: true}
	r.left.ContainerFS, r.left.LogFS = r.left.NodeFS, r.left.NodeFS
	r.limit("x", "y")
	r.Advance(time.Minute)
	r.counted = 0
	r.Advance(10 * time.Minute)
	check.Equal(t, r.counted, 2*10, "the use of pods was measured %d times in 10 minutes, want 20", r.counted)
	r.disk["x"] = 101
	r.left.NodeFS.Bytes.Available -= 101
	r.Advance(10200 * time.Millisecond)
	r.Keep("pods")
	r.Want("x is over its limit", "pods: evict x in 1s")
}

// TestFilesThatCannotAllBeCounted: such a pod is measured at each look and named once in the log. It is evicted if what
// was counted exceeds its limit. The check of limits never waits for large directories.
func TestFilesThatCannotAllBeCounted(t *testing.T) {
	r := newRig(t, limitsOn)
	r.left.NodeFS.Device = "a"
	r.left.NodeFS.Bytes = eviction.Left{Available: 10000, Capacity: 20000, Known: true}
	r.left.ContainerFS, r.left.LogFS = r.left.NodeFS, r.left.NodeFS
	r.limit("x", "y")
	r.partial["x"], r.disk["x"] = true, 7
	r.Advance(time.Minute)
	if r.Logged("cannot count all files") != 0 {
		t.Errorf("it logs at the first look:\n%s", &r.Log)
	}
	r.counted = 0
	r.Advance(10 * time.Minute)
	check.Equal(t, r.counted, 60+10, "the use of pods was measured %d times in 10 minutes, want 70", r.counted)
	if r.waits {
		t.Error("it waited for large directories")
	}
	if r.Logged(`"level":"warn"`, `"pod":"default/x"`, "volume v", `"bytes":7`, "ephemeral-storage", "remove some") != 1 ||
		r.Logged("cannot count all files") != 1 {
		t.Errorf("it logs:\n%s", &r.Log)
	}
	r.Keep("pods")
	r.Want("what was counted is below the limit")
	r.disk["x"] = 101
	r.Advance(10200 * time.Millisecond)
	r.Keep("pods")
	r.Want("x is over its limit", "pods: evict x in 1s")
}

// TestVictimThatDoesNotEnd: it is named and stopped by force, never chosen again, and another is evicted.
func TestVictimThatDoesNotEnd(t *testing.T) {
	r := newRig(t)
	r.memory(50)
	r.notice(nil)
	r.WantAfter("memory is short", 100*time.Millisecond,
		"show: memory true, disk false", "event: EvictionThresholdMet", "event: Evicted", "pods: evict a in 1s")
	r.Advance(32 * time.Second)
	r.Keep("pods", "event: Exceeded")
	r.Want("it takes too long", "pods: evict a in 0s", "pods: evict b in 1s")
	r.Advance(5 * time.Minute)
	r.Keep("pods", "event: Exceeded")
	r.Want("nobody is left", "pods: evict b in 0s")
	r.pods = nil
	r.memory(900)
	r.Advance(10 * time.Minute)
	r.Keep("show: memory false")
	r.Want("the pressure is over", "show: memory false, disk false")
}

// TestReclaimForEach: what can be given up is given up for each file system before a pod is evicted for it.
func TestReclaimForEach(t *testing.T) {
	value := resource.MustParse("100")
	r := newRig(t, func(d *Deps) {
		d.Policy.Thresholds = append(d.Policy.Thresholds,
			eviction.Threshold{Signal: eviction.ImageFSAvailable, Value: eviction.Amount{Quantity: &value}, Hard: true})
		d.ReclaimContainers = func(reply func(error)) { d.Events.(*rig).left.NodeFS.Bytes.Available = 500; reply(nil) }
	})
	r.left.NodeFS.Device, r.left.ImageFS.Device = "a", "b"
	r.left.NodeFS.Bytes.Available = 50
	r.left.ImageFS.Bytes = eviction.Left{Available: 50, Capacity: 1000, Known: true}
	r.Advance(4 * time.Second)
	r.Keep("images", "pods")
	r.Want("both are short", "images: reclaim", "pods: evict a in 1s")
}

// TestDiskReclaim: images go before pods.
func TestDiskReclaim(t *testing.T) {
	r := newRig(t)
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(4 * time.Second)
	r.Keep("event", "images", "pods")
	r.Want("disk is short", "event: EvictionThresholdMet", "images: reclaim", "event: Evicted", "pods: evict a in 1s")
}

// TestNotices: an early notice is soon asked for again, and none while memory is short, as it would come at once.
func TestNotices(t *testing.T) {
	r := newRig(t)
	r.notice(nil)
	r.WantAfter("it is early", 150*time.Millisecond)
	check.Fatal(t, check.Is(r.asked, 2, "asked for %d notices, want 2", r.asked))
	r.pods = nil
	r.memory(50)
	r.notice(nil)
	r.Advance(20 * time.Second)
	check.Fatal(t, check.Is(r.asked, 2, "asked for %d notices while memory is short, want 2", r.asked))
	r.memory(900)
	r.Advance(3 * time.Second)
	check.Fatal(t, check.Is(r.asked, 3, "asked for %d notices when memory was enough again, want 3", r.asked))
	r.Keep("nothing")
}

// TestNoticesOfNewLimits: the kernel is asked again when pods get a limit.
func TestNoticesOfNewLimits(t *testing.T) {
	r := newRig(t)
	r.left.Allocatable = eviction.Left{Available: 700, Capacity: 700, Known: true}
	old := r.notice
	r.Advance(eviction.Longest)
	check.Fatal(t, check.Is(r.asked, 1, "asked for %d notices before the first ended, want 1", r.asked))
	old(context.Canceled)
	r.Advance(eviction.Longest)
	check.Fatal(t, check.Is(r.asked, 2, "asked for %d notices, want 2", r.asked))
}

// TestImagesElsewhere: images stay if their removal would free nothing where room is short.
func TestImagesElsewhere(t *testing.T) {
	r := newRig(t)
	r.left.NodeFS.Device, r.left.ImageFS.Device = "a", "b"
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(4 * time.Second)
	r.Keep("event", "images", "pods")
	r.Want("disk is short", "event: EvictionThresholdMet", "event: Evicted", "pods: evict a in 1s")
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

// statsAges are what metrics are told of the ages of measurements.
type statsAges map[string][]time.Duration

func (s statsAges) Evicted(string) {}

func (s statsAges) StatsAge(signal string, age time.Duration) { s[signal] = append(s[signal], age) }

// TestStatsAge: the age of the measurement is told for each threshold that is met, when a pod is evicted.
func TestStatsAge(t *testing.T) {
	ages := map[string][]time.Duration{}
	r := newRig(t, func(d *Deps) { d.Counts = statsAges(ages) })
	r.Advance(time.Second)
	if len(ages) > 0 {
		t.Fatalf("told without need: %v", ages)
	}
	r.memory(50)
	r.left.NodeFS.Bytes.Available = 50
	r.notice(nil)
	r.Advance(time.Second)
	for _, signal := range []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFSAvailable} {
		got := ages[string(signal)]
		if len(got) != 1 || got[0] <= 0 || got[0] > time.Second {
			t.Errorf("%s: %v, want one, of the time that it took to decide", signal, got)
		}
	}
}

// TestMemoryWhileImagesAreRemoved: what is done against a full disk may take minutes, and memory can't wait for it.
func TestMemoryWhileImagesAreRemoved(t *testing.T) {
	for name, notice := range map[string]bool{"with a notice": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(d *Deps) { d.ReclaimImages = func(func(error)) {} })
			r.left.NodeFS.Bytes.Available = 50
			r.Advance(11 * time.Second)
			r.Keep("event", "pods")
			r.Want("disk is short", "event: EvictionThresholdMet")
			r.memory(50)
			within := 1100 * time.Millisecond
			if notice {
				r.notice(nil)
				within = 10 * time.Millisecond
			}
			r.Advance(within)
			r.Keep("event", "pods")
			r.Want("and memory", "event: EvictionThresholdMet", "event: Evicted", "pods: evict a in 1s")
		})
	}
}

// TestMemoryWhilePodsAreMeasured: a measurement of disks that hangs holds up no eviction for memory.
func TestMemoryWhilePodsAreMeasured(t *testing.T) {
	r := newRig(t)
	r.hangs = true
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(11 * time.Second)
	r.Keep("event: Evicted", "pods")
	r.Want("nobody knows who fills the disk")
	r.memory(50)
	r.Advance(1100 * time.Millisecond)
	r.Keep("event: Evicted", "pods")
	r.Want("memory is short", "event: Evicted", "pods: evict a in 1s")
}

// TestEnoughAgainWhileImagesAreRemoved: nobody is evicted, and the next shortage begins anew.
func TestEnoughAgainWhileImagesAreRemoved(t *testing.T) {
	r := newRig(t, func(d *Deps) { d.ReclaimImages = func(func(error)) { d.Events.(*rig).Say("images: reclaim") } })
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(11 * time.Second)
	r.left.NodeFS.Bytes.Available = 900
	r.Advance(5 * time.Minute)
	r.Keep("images", "pods")
	r.Want("one of two removals is enough", "images: reclaim")
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(11 * time.Second)
	r.Keep("images", "pods")
	r.Want("short again", "images: reclaim")
}

// TestVolumesOfTheVictim: the next pod is not evicted while the volumes of the first are being removed.
func TestVolumesOfTheVictim(t *testing.T) {
	r := newRig(t)
	r.left.NodeFS.Bytes.Available = 50
	r.Advance(4 * time.Second)
	r.Keep("pods")
	r.Want("disk is short", "pods: evict a in 1s")
	failed := r.pods[0].DeepCopy()
	failed.Status.Phase = v1.PodFailed
	r.pods, r.holding = []*v1.Pod{failed, r.pods[1]}, map[types.UID]bool{"a": true, "b": true}
	r.Advance(10 * time.Second)
	r.Keep("pods")
	r.Want("its volumes are there")
	delete(r.holding, "a")
	r.Advance(2 * time.Second)
	r.Keep("pods")
	r.Want("they are gone, and it was not enough", "pods: evict b in 1s")
}

// TestNobodyIsEvictedBlindly: nothing is known of what pods use.
func TestNobodyIsEvictedBlindly(t *testing.T) {
	r := newRig(t)
	r.blind = true
	r.memory(50)
	r.notice(nil)
	r.Advance(time.Minute)
	r.Keep("pods")
	r.Want("any pod would do")
	r.blind, r.use = false, 10
	r.Advance(2 * time.Second)
	r.Keep("pods")
	r.Want("it is known again", "pods: evict a in 1s")
}
