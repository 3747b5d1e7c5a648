package actortree

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/tests/check"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *time.Time {
	at := now.Add(-d)
	return &at
}

func sample() admin.Tree {
	crash := &kernel.CrashReport{
		Path: "/n/pods/u2", At: *before(3 * time.Second), Message: "Observed", Reason: "runtime error:\nindex out of range",
		Crashes: 5, Decision: kernel.Quarantine, RetryAfter: time.Minute,
	}
	return admin.Tree{
		Node: "n", At: now, DeadLetters: 1,
		Pools:   []kernel.PoolState{{Name: "pull", Size: 5}, {Name: "start", Size: 2, Held: 2, Waiting: 1}},
		Crashes: []*kernel.CrashReport{crash},
		Actors: []kernel.ActorInfo{
			{Path: "/n", Status: "Running"},
			{Path: "/n/gc", Status: "Running", Restarts: 1, LastCrash: &kernel.CrashReport{
				At: *before(time.Hour), Reason: "no", Message: "Tick", Crashes: 1, Decision: kernel.Restart, RetryAfter: time.Second}},
			{Path: "/n/pods", Status: "Running", Depth: 3, Oldest: before(7 * time.Second), Handling: "Wanted", Since: before(6500 * time.Millisecond)},
			{Path: "/n/pods/4a5fb1a2-77c1-4f0e-9d0f-2f3b8f1f0a11", Label: "default/web", Status: "Running", Effects: []kernel.EffectInfo{
				{ID: 1, Kind: "StartContainer", Object: "app", Phase: kernel.EffectStarted, Since: *before(12 * time.Second)},
				{ID: 2, Kind: "CreateContainer", Object: "side", Phase: kernel.EffectStarted, Since: *before(40 * time.Millisecond), HoldsSlot: "start"},
				{ID: 3, Kind: "RunPodSandbox", Phase: kernel.EffectQueued, Since: *before(90 * time.Second)},
				{ID: 5, Kind: "StopContainer", Object: "slow", Phase: kernel.EffectStarted, Since: *before(30 * time.Second), Patience: time.Minute},
				{ID: 6, Kind: "Watch", Phase: kernel.EffectStarted, Since: *before(time.Hour), Standing: true},
				{ID: 4, Kind: "StopContainer", Object: "old", Phase: kernel.EffectExpired, Since: *before(10 * time.Minute)},
			}},
			{Path: "/n/pods/u2", Label: "default/loops", Status: "Quarantined", Restarts: 5, Crashes: 5, LastCrash: crash},
			{Path: "/n/volumes/deep/one", Status: "Restarting"},
		},
	}
}

func TestTree(t *testing.T) {
	var b strings.Builder
	check.Fatal(t, Write(&b, sample(), false))
	golden.Assert(t, b.String(), "tree.txt")
	if strings.Contains(b.String(), "\x1b") {
		t.Error("there are escapes in it")
	}
	b.Reset()
	check.Fatal(t, Write(&b, admin.Tree{Node: "n", At: now}, false))
	golden.Assert(t, b.String(), "empty.txt")
}

func TestChanges(t *testing.T) {
	var c Changes
	var out []string
	tree := sample()
	step := func(name string) {
		out = append(out, "# "+name)
		out = append(out, c.Lines(tree)...)
	}
	step("at first")
	tree.At = now.Add(time.Millisecond)
	step("nothing but time")
	tree = sample()
	tree.Actors[3].Effects = tree.Actors[3].Effects[1:]
	tree.Actors[4].Status = "Running"
	tree.Actors = append(tree.Actors[:5:5], kernel.ActorInfo{Path: "/n/pods/u3", Status: "Running"})
	step("one call is back, one actor is well, one gone, one new")
	golden.Assert(t, strings.Join(out, "\n")+"\n", "changes.txt")
}
