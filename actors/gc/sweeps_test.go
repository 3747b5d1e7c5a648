package gc

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestSweepsDoNotPileUp: while the host does not answer, no other sweep begins. Else each would remove again what
// the first has removed.
func TestSweepsDoNotPileUp(t *testing.T) {
	r := newRig(t, podWith("web", 4))
	var answer func()
	r.podDirs = func(done func([]types.UID, error)) { answer = func() { done(nil, nil) } }
	r.Advance(6 * early)
	if answer == nil || r.Count("remove web0") > 0 {
		t.Fatalf("a sweep did not wait for the host: %q", r.Lines())
	}
	r.podDirs = nil
	answer()
	r.Advance(time.Second)
	if r.Count("remove web0") != 1 || r.Count("remove web1") != 1 {
		t.Errorf("%q", r.Lines())
	}
}

// TestSweepLeavesWhatIsBeingRemoved: a removal that does not answer is not asked for again by the next sweep.
func TestSweepLeavesWhatIsBeingRemoved(t *testing.T) {
	r := newRig(t, podWith("web", 3))
	r.removeContainer = func(context.Context, string, func(error)) {}
	r.Advance(4 * early)
	if r.Count("remove web0") != 1 {
		t.Errorf("%q", r.Lines())
	}
	r.removeContainer = nil
	r.Advance(2 * gcPeriod) // the first was given up
	if r.Count("remove web0") != 2 {
		t.Errorf("%q", r.Lines())
	}
}

// TestSweepAfterALostAnswer: a container whose removal had no answer is gone, and the link to its log stays. It goes
// with a sweep that does not wait for its time.
func TestSweepAfterALostAnswer(t *testing.T) {
	r := newRig(t, podWith("web", 1))
	r.Advance(3 * early) // the next sweep is a minute away
	r.removeContainer = func(_ context.Context, _ string, done func(error)) {
		r.removeContainer, r.pods[0].Containers = nil, nil
		r.Soon(func() { done(&port.Error{Kind: port.Unavailable}) })
	}
	delete(r.living, "web")
	r.actor.Tell(Collect{Ref: r.pods[0].Ref})
	r.Forget()
	r.Advance(5 * time.Second)
	if r.Count("collected web") != 1 || r.Count("tidy") != 1 {
		t.Errorf("%q", r.Lines())
	}
}

// TestLater: a pod that is to be collected later keeps all in a sweep that is under way. It goes with the next, whether
// that can look at what there is or not.
func TestLater(t *testing.T) {
	r := newRig(t, exited("job", 1))
	r.Advance(3 * early) // the next sweep is a minute away
	delete(r.living, "job")
	r.podDirs = func(done func([]types.UID, error)) {
		r.podDirs = nil
		r.actor.Tell(Collect{Ref: r.pods[0].Ref, Later: true})
		r.Soon(func() { done(nil, nil) })
	}
	r.Advance(gcPeriod)
	if r.podDirs != nil || r.Count("remove job0")+r.Count("logs job before 1") > 0 {
		t.Fatalf("in the first sweep: %q", r.Lines())
	}
	r.actor.Tell(ListCollecting{Reply: func(refs []observed.PodRef) { r.Say("removing %d", len(refs)) }})
	r.listErr = errors.New("cannot list containers")
	r.Advance(gcPeriod)
	if r.Count("removing 1") != 1 || r.Count("collected job") != 1 {
		t.Errorf("%q", r.Lines())
	}
}

// TestSweepWithoutRuntime: people are told of each sweep that can't look, under the name of a kubelet.
func TestSweepWithoutRuntime(t *testing.T) {
	r := newRig(t, podWith("web", 2))
	r.Advance(3 * early)
	const event = "event of n1: ContainerGCFailed cannot list containers"
	r.listErr = errors.New("cannot list containers")
	r.Advance(2 * gcPeriod)
	check.Equal(t, r.Count(event), 2, "events")
	r.listErr = nil
	r.Advance(2 * gcPeriod)
	check.Equal(t, r.Count(event), 2, "events, once the runtime answers again")
}
