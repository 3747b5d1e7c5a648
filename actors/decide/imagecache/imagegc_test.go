package imagecache_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func disk(used, capacity uint64) eviction.Left {
	return eviction.Left{Available: capacity - used, Capacity: capacity, Known: true}
}

func TestExcess(t *testing.T) {
	usual := imagecache.GCPolicy{High: 85, Low: 80}
	for _, c := range []struct {
		policy imagecache.GCPolicy
		disk   eviction.Left
		want   uint64
	}{
		{usual, disk(84, 100), 0},
		{usual, disk(85, 100), 5},
		{usual, disk(100, 100), 20},
		{usual, eviction.Left{}, 0},
		{usual, eviction.Left{Known: true}, 0},
		{usual, eviction.Left{Available: 200, Capacity: 100, Known: true}, 0},
		{imagecache.GCPolicy{High: 100, Low: 80}, disk(100, 100), 0},
		{imagecache.GCPolicy{}, disk(100, 100), 0},
		{imagecache.GCPolicy{High: 1, Low: 0}, disk(100, 100), 100},
	} {
		check.Equal(t, c.policy.Excess(c.disk), c.want, "%+v of %+v", c.policy, c.disk)
	}
	for used, want := range map[uint64]int{0: 0, 850: 85, 851: 86, 1000: 100} {
		if got := imagecache.Percent(disk(used, 1000)); got != want {
			t.Errorf("%d%%, want %d%%", got, want)
		}
	}
}

func TestNoSize(t *testing.T) {
	usual, seen := imagecache.GCPolicy{High: 85, Low: 80}, eviction.Disk{Device: "0:5"}
	for _, c := range []struct {
		what   string
		policy imagecache.GCPolicy
		disk   eviction.Disk
		want   bool
	}{
		{"no blocks", usual, seen, true},
		{"not looked at", usual, eviction.Disk{}, false},
		{"a usual one", usual, eviction.Disk{Device: "8:1", Bytes: disk(1, 100)}, false},
		{"a full one", usual, eviction.Disk{Device: "8:1", Bytes: disk(100, 100)}, false},
		{"images never go because of the disk", imagecache.GCPolicy{High: 100, Low: 80}, seen, false},
	} {
		check.Equal(t, c.policy.NoSize(c.disk), c.want, "%s", c.what)
	}
}

// TestStaysFull: it begins as the kubelet's message does.
func TestStaysFull(t *testing.T) {
	for capacity, want := range map[uint64]string{
		1000: "1000 B", 1 << 10: "1.0 KiB", 1536 << 10: "1.5 MiB", 100_000_000_000: "93.1 GiB", 5 << 40: "5.0 TiB", 5 << 50: "5120.0 TiB",
	} {
		got := imagecache.StaysFull(disk(capacity/10*9, capacity), 123, 45)
		want = "Insufficient free disk space on the node's image filesystem (90% of " + want + " used). " +
			"Failed to free sufficient space by deleting unused images (freed 123 bytes). 45 bytes more must become free: "
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func image(name string, size uint64) observed.Image {
	return observed.Image{ID: "sha256:" + name, RepoTags: []string{"reg.io/" + name + ":1"}, SizeBytes: size}
}

func names(removals []imagecache.Removal) string {
	var out []string
	for _, r := range removals {
		out = append(out, fmt.Sprintf("%s by %s", strings.TrimPrefix(r.Image.ID, "sha256:"), r.Reason))
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	list := []observed.Image{image("a", 10), image("b", 20), image("c", 30), image("d", 40), image("young", 50)}
	ages := imagecache.Ages{
		"sha256:a": {Seen: at(-90), Used: at(-1)}, "sha256:b": {Seen: at(-50)}, "sha256:c": {Seen: at(-80), Used: at(-70)},
		"sha256:d": {Seen: at(-60)}, "sha256:young": {Seen: noon.Add(-time.Minute)},
	}
	for _, c := range []struct {
		what   string
		policy imagecache.GCPolicy
		excess uint64
		want   string
	}{
		{"nothing to do", imagecache.GCPolicy{}, 0, ""},
		{"never used first, then the longest unused", imagecache.GCPolicy{MinAge: 2 * time.Minute}, 75,
			"d by space, b by space, c by space"},
		{"no more than needed", imagecache.GCPolicy{MinAge: 2 * time.Minute}, 40, "d by space"},
		{"no young one", imagecache.GCPolicy{MinAge: 2 * time.Minute}, 1000, "d by space, b by space, c by space, a by space"},
		{"old ones", imagecache.GCPolicy{MaxAge: 55 * time.Hour}, 0, "d by age, c by age"},
		{"old ones make room too", imagecache.GCPolicy{MinAge: time.Minute, MaxAge: 55 * time.Hour}, 75,
			"d by age, c by age, b by space"},
	} {
		candidates := imagecache.Candidates(list, nil, ages)
		if got, _ := c.policy.Plan(candidates, ages, nil, c.excess, noon); names(got) != c.want {
			t.Errorf("%s: %s, want %s", c.what, names(got), c.want)
		}
	}
	if got := names(imagecache.RemoveAll(imagecache.Candidates(list, map[string]bool{"sha256:d": true}, ages))); got !=
		"b by space, young by space, c by space, a by space" {
		t.Errorf("all: %s", got)
	}
}

// TestAhead: for space, what was pulled ahead and never used goes first; it is never too old.
func TestAhead(t *testing.T) {
	at := func(hours int) time.Time { return noon.Add(time.Duration(hours) * time.Hour) }
	list := []observed.Image{image("ahead", 10), image("used", 10), image("never", 10), image("other", 10)}
	ages := imagecache.Ages{
		"sha256:ahead": {Seen: at(-10)}, "sha256:used": {Seen: at(-90), Used: at(-80)}, "sha256:never": {Seen: at(-90)},
		"sha256:other": {Seen: at(-70), Used: at(-70)},
	}
	ahead := map[string]bool{"sha256:ahead": true, "sha256:used": true}
	candidates := imagecache.AheadFirst(imagecache.Candidates(list, nil, ages), ages, ahead)
	for excess, want := range map[uint64]string{
		0:  "never by age, other by age",
		30: "never by age, other by age, ahead by space",
		40: "never by age, other by age, ahead by space, used by space",
	} {
		if got, _ := (imagecache.GCPolicy{MaxAge: 5 * time.Hour}).Plan(candidates, ages, ahead, excess, noon); names(got) != want {
			t.Errorf("%d too many: %s, want %s", excess, names(got), want)
		}
	}
	if got, _ := (imagecache.GCPolicy{}).Plan(candidates, ages, ahead, 20, noon); names(got) != "ahead by space, never by space" {
		t.Errorf("by space alone: %s", names(got))
	}
}

func TestBelow(t *testing.T) {
	for used, want := range map[uint64]uint64{0: 80, 79: 1, 80: 0, 100: 0} {
		check.Equal(t, imagecache.Below(disk(used, 100), 80), want, "%d in use", used)
	}
	check.Equal(t, imagecache.Below(eviction.Left{Capacity: 100, Available: 100}, 80), 0, "not known")
}

// TestInUse: containers and pods name images in many ways.
func TestInUse(t *testing.T) {
	const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	list := []observed.Image{
		image("by-id", 1), image("by-tag", 1), image("dead", 1), image("wanted", 1), image("free", 1),
		{ID: "sha256:short", RepoTags: []string{"docker.io/library/busybox:latest"}},
		{ID: "sha256:digest", RepoDigests: []string{"reg.io/digest@" + digest}},
	}
	container := func(state observed.ContainerState, image, ref string) observed.Container {
		return observed.Container{State: state, Image: image, ImageRef: ref}
	}
	var pod observed.RuntimePod
	pod.Containers = []observed.Container{
		container(observed.ContainerRunning, "", "sha256:by-id"), container(observed.ContainerRunning, "reg.io/by-tag:1", ""),
		container(observed.ContainerExited, "", "sha256:dead"), container(observed.ContainerRunning, "gone", "sha256:gone"),
		container(observed.ContainerRunning, "reg.io/digest:2@"+digest, ""),
	}
	used := imagecache.InUse(list, &observed.Runtime{Pods: []observed.RuntimePod{pod}}, []string{"reg.io/wanted:1", "busybox", "no name!"})
	var free []string
	for i := range list {
		if !used[list[i].ID] {
			free = append(free, list[i].ID)
		}
	}
	if len(free) != 1 || free[0] != "sha256:free" {
		t.Errorf("free are %v", free)
	}
}

func TestNeverCandidates(t *testing.T) {
	pinned := image("pinned", 1)
	pinned.Pinned = true
	pause := observed.Image{ID: "sha256:p", RepoTags: []string{"registry.k8s.io/pause:3.10"}}
	mirror := observed.Image{ID: "sha256:m", RepoDigests: []string{
		"reg.io/k8s/pause@sha256:0123456789012345678901234567890123456789012345678901234567890123"}}
	other := image("pause-menu", 1)
	got := imagecache.Candidates([]observed.Image{pinned, pause, mirror, other}, nil, nil)
	if len(got) != 1 || got[0].ID != other.ID {
		t.Errorf("%v", got)
	}
}

// TestAges: what is gone is forgotten, and a clock that is set back makes nothing old.
func TestAges(t *testing.T) {
	a, b := image("a", 1), image("b", 1)
	ages := imagecache.Ages(nil).See([]observed.Image{a, b}, map[string]bool{a.ID: true}, noon)
	ages = ages.See([]observed.Image{a, b}, nil, noon.Add(time.Hour))
	check.Equal(t, ages[a.ID], (imagecache.Age{Seen: noon, Used: noon}), "a")
	check.Equal(t, ages[b.ID], (imagecache.Age{Seen: noon}), "b")
	back := noon.Add(-time.Hour)
	ages = ages.See([]observed.Image{a}, nil, back)
	if got := ages[a.ID]; len(ages) != 1 || got != (imagecache.Age{Seen: back, Used: back}) {
		t.Errorf("after the clock was set back: %v", ages)
	}
}

// TestPlanFreesEnough: by space, no image goes that was used later than one that stays, none that is young, and
// without the last of the removals it would not have been enough.
func TestPlanFreesEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []observed.Image
		ages := imagecache.Ages{}
		for i := range rapid.IntRange(0, 12).Draw(t, "images") {
			img := image(fmt.Sprint(i), rapid.Uint64Range(1, 50).Draw(t, "size"))
			list = append(list, img)
			ages[img.ID] = imagecache.Age{Seen: noon.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "age")) * time.Second)}
		}
		policy := imagecache.GCPolicy{MinAge: 2 * time.Minute}
		excess := rapid.Uint64Range(0, 300).Draw(t, "excess")
		candidates := imagecache.Candidates(list, nil, ages)
		removals, found := policy.Plan(candidates, ages, nil, excess, noon)
		going := map[string]bool{}
		for _, r := range removals {
			going[r.Image.ID] = true
			if noon.Sub(ages[r.Image.ID].Seen) < policy.MinAge {
				t.Fatalf("%s is young", r.Image.ID)
			}
		}
		for i := range candidates {
			old := noon.Sub(ages[candidates[i].ID].Seen) >= policy.MinAge
			if old && !going[candidates[i].ID] && found < excess {
				t.Fatalf("%s stays, and %d of %d are free", candidates[i].ID, found, excess)
			}
		}
		if n := len(removals); n > 0 && found-removals[n-1].Image.SizeBytes >= excess {
			t.Fatalf("%d are more than needed for %d", n, excess)
		}
	})
}
