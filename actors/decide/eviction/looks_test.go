package eviction

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

const gib = 1 << 30

// diskOf is a node with one file system of which so much is in use.
func diskOf(used uint64) *Reading {
	d := Disk{Device: "a", Bytes: Left{Available: 1000*gib - used, Capacity: 1000 * gib, Known: true}}
	return &Reading{NodeFS: d, ImageFS: d, ContainerFS: d, LogFS: d}
}

// bounded is a pod whose volume v may take so much.
func bounded(name string, most int64) *v1.Pod {
	p := pod(name, 0, "")
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
		EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(most, resource.BinarySI)},
	}}}
	return p
}

func takes(n uint64) Use { return Use{Volumes: []VolumeUse{{"v", DiskUse{Bytes: n}}}} }

// TestLooks: a pod is measured for half a minute, then when file systems have grown by what it may add, and else
// every minute.
func TestLooks(t *testing.T) {
	near, far := bounded("near", 100), bounded("far", 1000)
	all := []*v1.Pod{near, far}
	var l Looks
	for _, c := range []struct {
		after    int
		used     uint64
		unknown  bool
		want     string
		nearTook uint64
	}{
		{0, 5000, false, "[near far]", 40},
		{10, 5000, false, "[near far]", 40},
		{30, 5000, false, "[near far]", 40}, // what was measured before may be older than the first reading
		{40, 5059, false, "[]", 40},
		{50, 5060, false, "[near]", 60},
		{60, 5060, false, "[near]", 60}, // what was measured may be old
		{70, 5060, false, "[near]", 60},
		{80, 5060, false, "[]", 60},
		{90, 5060, false, "[far]", 60},
		{100, 3060, false, "[]", 60},
		{110, 3098, false, "[]", 60},
		{120, 3099, false, "[near]", 60},    // what was freed does not count
		{130, 3099, true, "[near far]", 60}, // not all file systems are known
		{170, 3099, false, "[]", 60},
		{180, 3099, false, "[]", 60},
		{190, 3099, false, "[near far]", 60},
		{-3600, 3099, false, "[near far]", 60}, // the clock was set back
	} {
		now := t0.Add(time.Duration(c.after) * time.Second)
		r := diskOf(c.used)
		r.NodeFS.Bytes.Known = !c.unknown
		var due []*v1.Pod
		l, due = l.Due(all, r, now)
		check.Equal(t, fmt.Sprint(names(due)), c.want, "after %d s", c.after)
		uses := make([]Use, len(due))
		for i, p := range due {
			if uses[i] = takes(0); p == near {
				uses[i] = takes(c.nearTook)
			}
		}
		l = l.Measured(due, uses, now)
	}
}

// TestLooksAtPartialAndOldCounts: a pod is measured until its files have been counted to the end. Growth and the
// minute count from when the oldest count was begun, as far as that is known.
func TestLooksAtPartialAndOldCounts(t *testing.T) {
	partial := DiskUse{Bytes: 40, Partial: true}
	for name, c := range map[string]struct {
		use Use
		// grows is when the disk grows by 50, want when the pod is due after half a minute, up to three minutes. The
		// pod may add 60.
		grows int
		want  string
	}{
		"all counted":             {takes(40), 0, "[90 150]"},
		"grown meanwhile":         {takes(40), 60, "[90 150]"},
		"a volume is partial":     {Use{Volumes: []VolumeUse{{"v", partial}}}, 0, "[40 50 60 70 80 90 100 110 120 130 140 150 160 170 180]"},
		"the rest is partial":     {Use{Other: partial}, 0, "[40 50 60 70 80 90 100 110 120 130 140 150 160 170 180]"},
		"40 s old":                {old(40, 40), 0, "[40 60 80 100 120 140 160 180]"},
		"grown after it":          {old(60, 40), 60, "[40 60 70 80 90 100 120 140 160 180]"},
		"older than is known":     {old(40, 3600), 0, "[40 50 60 70 80 90 100 110 120 130 140 150 160 170 180]"},
		"not as old as it may be": {old(40, 20), 0, "[70 110 150]"},
		"from the future":         {old(40, -50), 0, "[90 150]"},
	} {
		var l Looks
		var due []int
		p := bounded("p", 100)
		for after := 0; after <= 180; after += 10 {
			now, used := t0.Add(time.Duration(after)*time.Second), uint64(5000)
			if c.grows > 0 && after >= c.grows {
				used += 50
			}
			var list []*v1.Pod
			l, list = l.Due([]*v1.Pod{p}, diskOf(used), now)
			if len(list) > 0 && after >= 40 {
				due = append(due, after)
			}
			l = l.Measured(list, []Use{c.use}[:len(list)], now)
		}
		check.Equal(t, fmt.Sprint(due), c.want, "%s: measured after", name)
	}
}

func old(n uint64, seconds int) Use {
	u := takes(n)
	u.Age = time.Duration(seconds) * time.Second
	return u
}

// TestLowerBoundOverLimit: what was counted is enough to evict a pod.
func TestLowerBoundOverLimit(t *testing.T) {
	for bytes, want := range map[uint64]bool{100: false, 101: true} {
		u := Use{Volumes: []VolumeUse{{"v", DiskUse{Bytes: bytes, Partial: true}}}}
		if _, got := OverLimit(bounded("p", 100), &u, t0); got != want {
			t.Errorf("%d of 100 bytes: over its limit is %v", bytes, got)
		}
	}
}

// TestLooksWithoutContainerFS: a runtime that does not report the file system of layers has them beside its images.
func TestLooksWithoutContainerFS(t *testing.T) {
	for _, c := range []struct {
		images bool
		want   int
	}{{true, 0}, {false, 1}} {
		p, r := bounded("a", 100), diskOf(5000)
		r.ContainerFS, r.ImageFS.Bytes.Known = Disk{}, c.images
		var l Looks
		var due []*v1.Pod
		for after := range 5 {
			now := t0.Add(time.Duration(after) * 10 * time.Second)
			l, due = l.Due([]*v1.Pod{p}, r, now)
			l = l.Measured(due, make([]Use, len(due)), now)
		}
		check.Equal(t, len(due), c.want, "images are known: %v: %d pods are measured", c.images, len(due))
	}
}

// TestLooksSeeEveryWriter: as long as nothing is freed, a pod that is over its limit is measured at each look, even
// if what is measured is as old as it may be, or older and says so.
func TestLooksSeeEveryWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Looks
		pods := []*v1.Pod{bounded("a", 100), bounded("b", 1000), bounded("c", 10000)}
		most := []uint64{100, 1000, 10000}
		now, others := t0, uint64(0)
		type sample struct {
			at  time.Time
			use [3]uint64
		}
		history := []sample{{at: t0.Add(-time.Hour)}}
		use := [3]uint64{}
		for range rapid.IntRange(1, 40).Draw(t, "looks") {
			for i := range use {
				if rapid.IntRange(0, 3).Draw(t, "writes") == 0 {
					use[i] += rapid.Uint64Range(0, most[i]).Draw(t, "bytes")
				}
			}
			others += rapid.Uint64Range(0, 20).Draw(t, "others")
			history = append(history, sample{now, use})
			var due []*v1.Pod
			r := diskOf(use[0] + use[1] + use[2] + others)
			l, due = l.Due(pods, r, now)
			measured := map[string]bool{}
			uses := make([]Use, len(due))
			for i, p := range due {
				measured[p.Name] = true
				age := time.Duration(rapid.IntRange(0, int(stale/time.Second)-10).Draw(t, "age")) * time.Second
				said := rapid.Bool().Draw(t, "says its age")
				if said {
					age *= 15
				}
				seen := history[0]
				for _, s := range history {
					if !s.at.After(now.Add(-age)) {
						seen = s
					}
				}
				if uses[i] = takes(seen.use[p.Name[0]-'a']); said {
					uses[i].Age = age
				}
			}
			for i, p := range pods {
				if use[i] > most[i] && !measured[p.Name] {
					t.Fatalf("%s uses %d of %d and is not measured", p.Name, use[i], most[i])
				}
			}
			l = l.Measured(due, uses, now)
			now = now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "seconds")) * time.Second)
		}
	})
}
