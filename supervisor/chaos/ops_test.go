package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestWhatIsNew: each of these lines changes what happens, and every rule holds all the same.
func TestWhatIsNew(t *testing.T) {
	const base = "create a main=app ready=app; at 2s: write s main=app; at 5s: kill-agent; at 10s: create b main=app; " +
		"at 1m: delete a"
	plain := Run(parse(t, base))
	if plain.Verdict() != Held {
		t.Fatal(plain.Violations, plain.Unreached)
	}
	for name, text := range map[string]string{
		"no answers":   strings.Replace(base, "at 10s:", "at 9s: no-answers for=20s; at 10s:", 1),
		"no watches":   strings.Replace(base, "at 10s:", "at 9s: no-watches for=20s; at 10s:", 1),
		"restore":      strings.Replace(base, "at 1m:", "at 20s: backup; at 1m: restore; at 1m:", 1),
		"starve":       "schedule starve=podset; " + base,
		"priorities":   "schedule priorities depth=2; " + base,
		"cost":         "cost *=2ms; " + base,
		"cost of one":  "cost podset=20ms; " + base,
		"cost of none": "cost nobody=20ms; " + base,
	} {
		r := Run(parse(t, text))
		check.Equal(t, r.Verdict(), Held, "%s: %v %v", name, r.Violations, r.Unreached)
		// A schedule draws anew whom it picks.
		if r.Hash == plain.Hash {
			t.Errorf("%s changes nothing", name)
		}
	}
}

// TestCheckpointsAreLost: from the disk, before they are read.
func TestCheckpointsAreLost(t *testing.T) {
	for effect, want := range map[string]string{"lost": "", "older": "old", "slow 1s": "new"} {
		clock := kernel.NewVirtual(1, time.Unix(0, 0))
		disk := machine.New(clock, &port.Machine{}).Checkpoints
		disk.Put("pods", []byte("old"))
		disk.Save(t.Context(), "pods", []byte("new"), func(error) {})
		clock.Advance(time.Second)
		j := newInjector(parse(t, "kill-agent; fault host LoadCheckpoint - #1 = "+effect), false)
		j.strikes = func(string, *plan.Fault) {}
		j.host("n1", sim.HostCall{Verb: plan.LoadCheckpoint, Name: "pods"}, plan.Role{}, disk)
		if got := string(disk.Get("pods")); got != want || len(j.unreached()) > 0 {
			t.Errorf("%s: the checkpoint is %q, want %q; unreached %v", effect, got, want, j.unreached())
		}
	}
}

// TestRestore: pods are again what they were when the backup was made.
func TestRestore(t *testing.T) {
	for _, text := range []string{
		"create a main=app; on a Ready: backup; create b main=app; on b Ready: restore; on b Gone: create b main=app",
		"create a main=app; on a Ready: backup; delete a; on a Gone: restore; on a Ready: delete a",
	} {
		if r := Run(parse(t, text)); r.Verdict() != Held {
			t.Errorf("%s: %v %v", text, r.Violations, r.Unreached)
		}
	}
}

// TestShrinkTheWorld: the schedule and the nodes that a violation does not need go.
func TestShrinkTheWorld(t *testing.T) {
	// What loses its task can't be removed until its runtime is restarted.
	r := Run(parse(t, "no-events; nodes 3; schedule starve=podset; schedule priorities depth=2; cost podset=1ms; "+
		"create a main=app volume=data; at 20s: lose-task a/app; at 30s: delete a; at 31s: drain n1; uncordon n1"))
	check.Fatal(t, check.Is(r.Verdict(), Violated, "it"))
	got := Shrink(t.Context(), r, time.Minute).Case
	const want = "nodes 1\ncreate a main=app\n"
	if text := got.String(); !strings.Contains(text, want) || len(got.Ops) > 3 {
		t.Errorf("it is shrunk to\n%s", text)
	}
}
