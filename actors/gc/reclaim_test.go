package gc

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
)

// exited is podWith whose last incarnation has exited, too.
func exited(name string, incarnations uint32) observed.RuntimePod {
	p := podWith(name, incarnations)
	p.Containers[incarnations-1].State = observed.ContainerExited
	return p
}

// TestReclaim: of a living pod the policy's number stays, so that the log of the incarnation before the one that runs
// can be read; of one that has ended nothing does. Who asks meanwhile is answered by another sweep.
func TestReclaim(t *testing.T) {
	policy := podgc.Default()
	policy.MinAge = time.Hour // does not count then
	r := newRig(t, podWith("web", 3), podWith("one", 2), exited("job", 1))
	r.deps.Policy, r.ended = policy, []types.UID{"job"}
	for i := range r.pods {
		for j := range r.pods[i].Containers {
			r.pods[i].Containers[j].CreatedAt = r.Now()
		}
	}
	for range 2 {
		r.actor.Tell(Reclaim{Reply: func(err error) { r.Say("reclaimed: %v", err) }})
	}
	r.Advance(time.Second)
	for line, want := range map[string]int{
		"remove web0": 1, "remove web1": 0, "remove web2": 0, "remove one0": 0, "remove one1": 0,
		"remove job0": 1, "logs web before 2": 0, "reclaimed: <nil>": 2,
	} {
		if r.Count(line) != want {
			t.Errorf("%s: %d times, want %d: %q", line, r.Count(line), want, r.Lines())
		}
	}
	if r.Count("logs job before 1") == 0 {
		t.Errorf("the log of a pod that has ended stays: %q", r.Lines())
	}
}

// TestSpent: nothing stays of a pod that was evicted, while the disk has room. One that has ended otherwise keeps what
// people may read. Both have directories, and are no orphans.
func TestSpent(t *testing.T) {
	r := newRig(t, exited("evicted", 2), exited("job", 2))
	r.living["evicted"], r.ended, r.dirs = false, []types.UID{"job"}, []types.UID{"evicted", "job"}
	r.Advance(4 * early)
	for line, want := range map[string]int{
		"remove evicted0": 1, "remove evicted1": 1, "remove job0": 1, "remove job1": 0,
		"abandoned evicted": 0, "abandoned job": 0, "logs job before 2": 0,
	} {
		if r.Count(line) != want {
			t.Errorf("%s: %d times, want %d: %q", line, r.Count(line), want, r.Lines())
		}
	}
	if r.Count("logs evicted before 2") == 0 {
		t.Errorf("the log of an evicted pod stays: %q", r.Lines())
	}
	r.Forget()
	r.unseen, r.living["late"] = true, false
	r.pods = append(r.pods, exited("late", 2))
	r.Advance(2 * gcPeriod)
	if r.Count("remove late1") > 0 || r.Count("logs late before 2") > 0 {
		t.Errorf("a source is silent: %q", r.Lines())
	}
}

// TestRoomBeforeLogs: who needs room gets that of pods that were to be collected later, and is answered when it is there.
func TestRoomBeforeLogs(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		r := newRig(t, exited("job", 1))
		r.Advance(3 * early)
		delete(r.living, "job")
		r.unseen = unseen
		var removed func(error)
		r.removeContainer = func(_ context.Context, _ string, done func(error)) { removed = done }
		r.actor.Tell(Collect{Ref: r.pods[0].Ref, Later: true})
		r.actor.Tell(Reclaim{Reply: func(err error) { r.Say("reclaimed: %v", err) }})
		r.Advance(rest / 2)
		if removed == nil || r.Count("reclaimed: <nil>") > 0 || !unseen && r.Count("logs job before 1") == 0 {
			t.Fatalf("a source is silent: %v: %q", unseen, r.Lines())
		}
		r.removeContainer, r.pods[0].Containers = nil, nil
		removed(nil)
		r.Advance(2 * rest)
		if r.Count("reclaimed: <nil>") != 1 || r.Count("collected job") != 1 {
			t.Errorf("a source is silent: %v: %q", unseen, r.Lines())
		}
	}
}
