package images_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// node is the node below a collection: images of one size on a disk that holds 100 of them.
type node struct {
	*rig
	list []observed.Image
	pods observed.Runtime
	// ahead, if set, is what metrics are told of images that are pulled ahead.
	ahead *imagecache.Counts
	// other is what else is on the disk.
	other uint64
	// lists counts the lists of images.
	lists int
	// broken is the error of each removal, blind that of each measurement.
	broken, blind error
	// volumes are images that pods have as volumes, unknown says that some pods are not known yet, and silent that
	// nobody answers. asked counts the questions.
	volumes         []string
	unknown, silent bool
	asked           int
	// device is the file system of images, sizeless one without a size.
	device   string
	sizeless bool
	disk     map[string][]byte
}

func (n *node) Left(_ context.Context, done func(eviction.Reading, error)) {
	used := n.other + uint64(len(n.list))
	left := eviction.Left{Capacity: 100, Available: 100 - min(used, 100), Known: n.blind == nil}
	if n.sizeless {
		left = eviction.Left{}
	}
	n.Soon(func() { done(eviction.Reading{ImageFS: eviction.Disk{Device: n.device, Bytes: left}}, n.blind) })
}

func (n *node) ListImages(_ context.Context, done func([]observed.Image, error)) {
	n.lists++
	list := append([]observed.Image(nil), n.list...)
	n.Soon(func() { done(list, n.blind) })
}

func (n *node) List(_ context.Context, _ string, done func(observed.Runtime, error)) {
	n.Soon(func() { done(n.pods, nil) })
}

func (n *node) RemoveImage(ctx context.Context, id string, done func(error)) {
	n.runtime.Called(ctx, "remove "+id, func(err error) {
		if err == nil {
			for i := range n.list {
				if n.list[i].ID == id {
					n.list = append(n.list[:i], n.list[i+1:]...)
					n.has[strings.TrimPrefix(id, "sha256:")] = false
					break
				}
			}
		}
		done(err)
	})
	if n.broken != nil {
		n.Soon(func() { n.runtime.Answer(n.broken, "remove "+id) })
	}
}

func (n *node) Load(_ context.Context, name string, done func([]byte, error)) {
	n.Soon(func() { done(n.disk[name], nil) })
}

func (n *node) Save(_ context.Context, name string, data []byte, done func(error)) {
	n.disk[name] = data
	n.Soon(func() { done(nil) })
}

func (n *node) SetAside(_ context.Context, name string, done func(string, error)) {
	delete(n.disk, name)
	n.Soon(func() { done(name+".damaged", nil) })
}

func named(name string) observed.Image {
	return observed.Image{ID: "sha256:" + name, RepoTags: []string{name}, SizeBytes: 1}
}

func (n *node) mounted(reply func([]string, bool)) {
	n.asked++
	if !n.silent {
		names, all := n.volumes, !n.unknown
		n.Soon(func() { reply(names, all) })
	}
}

const period = time.Minute

func newNode(t *testing.T, policy imagecache.GCPolicy, list ...observed.Image) *node {
	t.Helper()
	return newNodeWith(t, policy, func(*images.Deps) {}, list...)
}

func newNodeWith(t *testing.T, policy imagecache.GCPolicy, change func(*images.Deps), list ...observed.Image) *node {
	t.Helper()
	n := &node{list: list, disk: map[string][]byte{}}
	n.rig = makeRig(t, func(r *rig, d *images.Deps) {
		n.rig = r
		d.Collect = &images.Collect{
			Policy: policy, Runtime: n, Left: n.Left, Mounted: n.mounted, Node: "n1", Checkpoints: n, Period: period, ListPeriod: 5 * period,
			Deadline: checkDeadline,
		}
		d.Counts = n
		change(d)
	})
	return n
}

// ImageRemoved implements images.Counts.
func (n *node) ImageRemoved(why imagecache.Reason) { n.Say("removed by %s", why) }

// PulledAhead implements prepull.Counts.
func (n *node) PulledAhead(c imagecache.Counts) {
	if n.ahead != nil {
		*n.ahead = c
	}
}

// Verified implements images.Counts.
func (n *node) Verified(string) {}

// Recorded implements images.Counts.
func (n *node) Recorded(int, int) {}

func (n *node) reclaims() {
	n.actor.Tell(images.Reclaim{Reply: func(err error) { n.Say("reclaimed: %v", err) }})
}

var usual = imagecache.GCPolicy{High: 85, Low: 80}

// TestImagesGoBySpace: down to the low threshold, and by a new measurement: half of them free nothing.
func TestImagesGoBySpace(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"), named("reg.io/b:1"), named("reg.io/c:1"))
	n.other = 81
	n.Advance(2*period + time.Second)
	n.WantByListener("below the threshold")
	n.other = 82
	n.Advance(period)
	const a, b, c = "remove sha256:reg.io/a:1", "remove sha256:reg.io/b:1", "remove sha256:reg.io/c:1"
	n.WantByListener("over it", "runtime: "+a, "runtime: "+b, "runtime: "+c)
	n.runtime.Answer(nil, a, b, c)
	n.Advance(time.Second)
	n.WantByListener("removed", "removed by space", "removed by space", "removed by space")
	n.WantByListener("and told, because the disk is not below the low one")
}

// TestDiskStaysFull: people are told, not with every look.
func TestDiskStaysFull(t *testing.T) {
	n := newNode(t, usual)
	n.other = 95
	n.Advance(5 * period)
	const told = "FreeDiskSpaceFailed"
	if got := n.troubles(told); got != 1 {
		t.Errorf("told %d times: %q", got, n.events.Lines())
	}
	n.Advance(5 * period)
	if got := n.troubles(told); got != 2 {
		t.Errorf("told %d times after five more minutes: %q", got, n.events.Lines())
	}
}

// TestFullForLong: a disk that stays full is also told under the reason that alerts watch for, but not the first time.
func TestFullForLong(t *testing.T) {
	n := newNode(t, usual)
	n.other = 95
	for _, want := range []int{0, 1, 2} {
		n.Advance(5 * period)
		if got := n.troubles("ImageGCFailed"); got != want {
			t.Errorf("told %d times, want %d: %q", got, want, n.events.Lines())
		}
	}
}

// troubles counts the events of the node with a reason.
func (n *node) troubles(reason string) (times int) {
	for _, line := range n.events.Lines() {
		if strings.HasPrefix(line, "n1: "+reason+": ") {
			times++
		}
	}
	return times
}

// TestTroubleIsTold: a runtime that can't list or remove, and a disk that can't be measured.
func TestTroubleIsTold(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"))
	n.other, n.broken = 95, &port.Error{Kind: port.Other, Verb: "RemoveImage", Detail: "device is busy"}
	n.Advance(2 * period)
	const busy = "n1: ImageGCFailed: wanted to free 16 bytes, but freed 0 bytes space with errors in image deletion: device is busy"
	if lines := n.events.Lines(); len(lines) != 1 || lines[0] != busy || len(n.list) != 1 {
		t.Errorf("removal: %q, want %q", lines, busy)
	}
	blind := newNode(t, usual, named("reg.io/a:1"))
	blind.blind = errors.New("statfs: no such file or directory")
	blind.Advance(2 * period)
	if blind.troubles("ImageGCFailed") != 1 {
		t.Errorf("measuring: %q", blind.events.Lines())
	}
}

// TestOneTroubleHidesNoOther: an event about a removal that failed does not delay the one about a disk that stays full.
func TestOneTroubleHidesNoOther(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"))
	n.other, n.broken = 95, &port.Error{Kind: port.Other, Verb: "RemoveImage", Detail: "device is busy"}
	n.Advance(period + time.Second)
	n.list = nil // somebody else removed it
	n.Advance(period)
	for _, reason := range []string{"ImageGCFailed", "FreeDiskSpaceFailed"} {
		if got := n.troubles(reason); got != 1 {
			t.Errorf("%s: told %d times: %q", reason, got, n.events.Lines())
		}
	}
}

// TestFreedIsTold: the event about a disk that stays full says how much was freed.
func TestFreedIsTold(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"), named("reg.io/b:1"))
	n.other = 95
	n.Advance(period + time.Second)
	n.runtime.Answer(nil, "remove sha256:reg.io/a:1", "remove sha256:reg.io/b:1")
	n.Advance(time.Second)
	want := "n1: FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (95% of 100 B used). " +
		"Failed to free sufficient space by deleting unused images (freed 2 bytes). 15 bytes more must become free: "
	if lines := n.events.Lines(); len(lines) != 1 || !strings.HasPrefix(lines[0], want) {
		t.Errorf("told %q, want %q", lines, want)
	}
}

// TestStaysFullAfterARemoval: if images were removed, the disk is looked at once more, and not on and on.
func TestStaysFullAfterARemoval(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"))
	n.other = 95
	n.Advance(period + time.Second)
	n.runtime.Answer(nil, "remove sha256:reg.io/a:1")
	n.Advance(period / 2)
	check.Equal(t, n.lists, 2, "lists of images")
}

// TestDiskWithoutSize: people are told that images can't be removed by space, also if something else can't be
// measured.
func TestDiskWithoutSize(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"))
	n.device, n.sizeless = "0:5", true
	n.Advance(2 * period)
	other := newNode(t, usual, named("reg.io/a:1"))
	other.device, other.sizeless, other.blind = "0:5", true, errors.New("/proc says nothing about processes")
	other.Advance(2*period + time.Second)
	for _, n := range []*node{n, other} {
		if n.troubles("InvalidDiskCapacity") != 1 || len(n.list) != 1 {
			t.Errorf("told %q", n.events.Lines())
		}
	}
}

// TestReclaim: all that nobody uses go, young ones too, and what containers or pods need stays.
func TestReclaim(t *testing.T) {
	n := newNode(t, imagecache.GCPolicy{MinAge: time.Hour}, named("reg.io/a:1"), named("reg.io/used:1"), named(img))
	var pod observed.RuntimePod
	pod.Containers = []observed.Container{{Image: "reg.io/used:1", State: observed.ContainerExited}}
	n.pods.Pods = append(n.pods.Pods, pod)
	n.has[img] = true
	n.actor.Tell(n.asks("p", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	n.Forget()
	n.reclaims()
	n.reclaims()
	const a = "remove sha256:reg.io/a:1"
	n.Advance(time.Second)
	n.WantByListener("one is removed", "runtime: "+a)
	n.runtime.Answer(nil, a)
	n.Advance(time.Second)
	n.WantByListener("both are answered", "removed by space", "reclaimed: <nil>", "reclaimed: <nil>")
	n.actor.Tell(images.Forget{UID: "p"})
	n.reclaims()
	n.Advance(time.Second)
	n.WantByListener("the pod is gone", "runtime: remove sha256:"+img)
}

// TestImagesOfVolumesStay: those of pods that did not ask this actor for them, by name or digest. They count as used,
// so they do not go by age as soon as their pods have ended.
func TestImagesOfVolumesStay(t *testing.T) {
	const digest = "reg.io/by@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	n := newNode(t, imagecache.GCPolicy{MaxAge: time.Hour}, named("reg.io/data:1"), named("reg.io/a:1"),
		observed.Image{ID: "sha256:by", RepoDigests: []string{digest}, SizeBytes: 1})
	n.volumes = []string{"reg.io/data:1", digest}
	n.Advance(66*time.Minute + 10*time.Second)
	n.WantByListener("only the unused one", "runtime: remove sha256:reg.io/a:1")
	n.runtime.Answer(nil, "remove sha256:reg.io/a:1")
	n.Advance(100 * time.Minute)
	n.volumes = nil
	n.Advance(50 * time.Minute)
	n.WantByListener("just used", "removed by age")
	n.Advance(15 * time.Minute)
	n.WantByListener("not used for long", "runtime: remove sha256:by", "runtime: remove sha256:reg.io/data:1")
}

// TestNobodyIsAskedWithoutNeed: if containers use all images, no pod is asked for its volumes.
func TestNobodyIsAskedWithoutNeed(t *testing.T) {
	n := newNode(t, usual, named("reg.io/used:1"))
	var pod observed.RuntimePod
	pod.Containers = []observed.Container{{Image: "reg.io/used:1", State: observed.ContainerRunning}}
	n.pods.Pods = append(n.pods.Pods, pod)
	n.other = 95
	n.Advance(5 * period)
	if n.asked != 0 || n.troubles("FreeDiskSpaceFailed") == 0 {
		t.Errorf("asked %d times; %q", n.asked, n.events.Lines())
	}
}

// TestImagesWaitForUnknownPods: no image goes while a pod may run that is not known. Before pods are evicted, they
// are waited for, but not for ever.
func TestImagesWaitForUnknownPods(t *testing.T) {
	n := newNode(t, usual, named("reg.io/data:1"), named("reg.io/a:1"))
	n.other, n.unknown = 95, true
	n.Advance(5*period + time.Second)
	n.WantByListener("not known")
	n.reclaims()
	n.Advance(10 * time.Second)
	n.WantByListener("waits")
	n.volumes, n.unknown = []string{"reg.io/data:1"}, false
	n.Advance(3 * time.Second)
	n.WantByListener("known", "runtime: remove sha256:reg.io/a:1")
	n.runtime.Answer(nil, "remove sha256:reg.io/a:1")
	n.Advance(time.Second)
	n.WantByListener("removed", "removed by space", "reclaimed: <nil>")

	n = newNode(t, usual, named("reg.io/data:1"), named("reg.io/a:1"))
	n.unknown, n.volumes = true, []string{"reg.io/data:1"} // of a pod that is known
	n.reclaims()
	n.Advance(25 * time.Second)
	n.WantByListener("waits")
	n.Advance(10 * time.Second)
	n.WantByListener("no longer", "runtime: remove sha256:reg.io/a:1")
}

// TestNobodySaysWhatIsMounted: nothing is removed then, and people are told.
func TestNobodySaysWhatIsMounted(t *testing.T) {
	n := newNode(t, usual, named("reg.io/a:1"))
	n.silent = true
	n.reclaims()
	n.Advance(checkDeadline + time.Second)
	n.WantByListener("failed", "reclaimed: AskPods: deadline exceeded: no answer within 1m0s")
	if n.troubles("ImageGCFailed") != 1 || len(n.list) != 1 {
		t.Errorf("told %q", n.events.Lines())
	}
	n.silent = false
	n.reclaims()
	n.Advance(time.Second)
	n.WantByListener("answered", "runtime: remove sha256:reg.io/a:1")
}

// TestPodAsksForImageThatGoes: it waits for the end of the removal, and pulls the image again.
func TestPodAsksForImageThatGoes(t *testing.T) {
	n := newNode(t, imagecache.GCPolicy{}, named(img))
	n.has[img] = true
	n.reclaims()
	n.Advance(time.Second)
	n.WantByListener("it goes", "runtime: remove sha256:"+img)
	n.actor.Tell(n.asks("p", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	n.WantByListener("the pod waits", "runtime: "+look)
	n.runtime.Answer(nil, "remove sha256:"+img)
	n.WantByListener("it is gone", "runtime: "+look, "removed by space", "reclaimed: <nil>")
	n.runtime.Answer(nil, look, pull, look)
	n.WantByListener("pulled", "runtime: "+pull, "runtime: "+look, "p: "+ready)
}

// TestAsksWhileImagesWait: an image whose turn has not come is kept for the pod that asks for it.
func TestAsksWhileImagesWait(t *testing.T) {
	var list []observed.Image
	for i := range 4 {
		list = append(list, named(fmt.Sprintf("reg.io/%d:1", i)))
	}
	n := newNode(t, imagecache.GCPolicy{}, append(list, named(img))...)
	n.has[img] = true
	n.reclaims()
	n.Advance(time.Second)
	n.Forget()
	n.actor.Tell(n.asks("p", v1.PullIfNotPresent))
	n.runtime.Answer(nil, look)
	for i := range 4 {
		n.runtime.Answer(nil, fmt.Sprintf("remove sha256:reg.io/%d:1", i))
	}
	n.Advance(time.Second)
	if len(n.list) != 1 || n.list[0].ID != "sha256:"+img || n.Count("p: "+ready) != 1 {
		t.Errorf("left: %v; %q", n.list, n.Lines())
	}
}

// TestRemovalOutlivesTheActor: the end of a predecessor's removal does not end a round that has only begun.
func TestRemovalOutlivesTheActor(t *testing.T) {
	const a = "remove sha256:reg.io/a:1"
	n := newNode(t, imagecache.GCPolicy{}, named("reg.io/a:1"))
	n.reclaims()
	n.Advance(time.Second)
	n.actor.Crash()
	n.actor.Tell(images.Forget{UID: "nobody"})
	n.Advance(10 * time.Second)
	n.Forget()
	n.reclaims()
	n.runtime.Answer(nil, a)
	if n.Count("reclaimed: <nil>") != 0 {
		t.Fatalf("answered before anything was listed: %q", n.Lines())
	}
	n.Advance(time.Second)
	n.runtime.Answer(nil, a) // it was listed before it was gone
	if n.Count("reclaimed: <nil>") != 1 || len(n.list) != 0 {
		t.Errorf("left are %v: %q", n.list, n.Lines())
	}
}

// TestAgesOutliveTheAgent: an image that was unused for long under an earlier agent goes by age.
func TestAgesOutliveTheAgent(t *testing.T) {
	policy := imagecache.GCPolicy{MaxAge: time.Hour}
	n := newNode(t, policy, named("reg.io/a:1"))
	n.Advance(period + time.Second)
	if n.disk["images"] == nil {
		t.Fatal("nothing was saved")
	}
	next := newNode(t, policy, named("reg.io/a:1"))
	next.disk = n.disk
	next.Advance(50 * time.Minute)
	next.WantByListener("not yet")
	next.Advance(16*time.Minute + 30*time.Second)
	next.WantByListener("old", "runtime: remove sha256:reg.io/a:1")
	damaged := newNode(t, policy, named("reg.io/a:1"))
	damaged.disk["images"] = []byte("[1]")
	damaged.Advance(2 * period)
	if damaged.Logged("checkpoint is damaged", "ages of unused images") != 1 {
		t.Error("a damaged checkpoint is not logged")
	}
}
