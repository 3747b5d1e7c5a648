package observe

import (
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/tests/check"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestPods(t *testing.T) {
	clock := kernel.NewVirtual(1, t0)
	api, err := simapi.New(simapi.Config{Clock: clock, Rand: func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }})
	if err != nil {
		t.Fatal(err)
	}
	o := check.Value(New(api, clock))(t)
	defer o.Stop()
	for _, name := range []string{"a", "b"} {
		check.Value(
			api.Create(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}))(t)
	}
	status := func(name string, phase v1.PodPhase, ready bool, restarts int32, waiting string) {
		t.Helper()
		p := check.Value(simapi.Object[*v1.Pod](api, "default", name))(t)
		out := *p
		out.Status = v1.PodStatus{Phase: phase, ContainerStatuses: []v1.ContainerStatus{{Name: "c", RestartCount: restarts}}}
		if ready {
			out.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}
		if waiting != "" {
			out.Status.ContainerStatuses[0].State.Waiting = &v1.ContainerStateWaiting{Reason: waiting}
		}
		check.Value(api.UpdateStatus(&out))(t)
	}
	want := func(what string, running, restarts int, node Node, phases ...report.Phase) {
		t.Helper()
		clock.Advance(time.Millisecond)
		var counts report.PhaseCounts
		for _, p := range phases {
			counts[p]++
		}
		if o.Counts() != counts || o.Running() != running || o.Restarts() != restarts || o.Node("n1") != node || o.Len() != len(phases) {
			t.Errorf("%s: %v, %d running, %d restarts, node %+v; want %v, %d, %d, %+v",
				what, o.Counts(), o.Running(), o.Restarts(), o.Node("n1"), counts, running, restarts, node)
		}
	}
	want("created", 0, 0, Node{}, report.Pending, report.Pending)
	check.Fatal(t, api.Bind("default", "a", "n1"))
	want("bound", 0, 0, Node{Pods: 1}, report.Creating, report.Pending)
	unbound := api.Checkpoint()
	check.Fatal(t, api.Bind("default", "b", "n1"))
	want("both are bound", 0, 0, Node{Pods: 2}, report.Creating, report.Creating)
	api.Restore(unbound)
	want("the apiserver forgot that one is", 0, 0, Node{Pods: 1}, report.Creating, report.Pending)
	clock.Advance(2 * time.Second)
	status("a", v1.PodRunning, true, 0, "")
	want("ready", 1, 0, Node{Pods: 1, Ready: 1, Starts: 1}, report.Ready, report.Pending)
	status("a", v1.PodRunning, false, 3, "CrashLoopBackOff")
	tally := check.Value(o.Count("", "i"))(t)
	if other, err := o.Count("", "other"); err != nil || other.Counts().Pods != 0 {
		t.Errorf("pods of another image: %+v, %v", other, err)
	}
	want("crashed", 1, 3, Node{Pods: 1, Starts: 1, Restarts: 3}, report.BackOff, report.Pending)
	status("a", v1.PodRunning, true, 3, "")
	check.Fatal(t, api.Bind("default", "b", "n1"))
	status("b", v1.PodSucceeded, false, 0, "")
	want("one has ended", 1, 3, Node{Pods: 1, Ready: 1, Starts: 1, Restarts: 3}, report.Ready, report.Succeeded)
	key := port.APIKey{Kind: port.PodKind, Namespace: "default", Name: "a"}
	check.Fatal(t, api.Delete(port.APIDelete{Key: key}))
	want("being deleted", 1, 3, Node{Pods: 1, Ready: 1, Starts: 1, Restarts: 3}, report.Terminating, report.Succeeded)
	if c := tally.Counts(); c.Pods != 1 || c.Terminating != 1 || c.Succeeded != 1 || c.Restarts != 3 || c.Waiting["CrashLoopBackOff"] != 0 {
		t.Errorf("tally: %+v", c)
	}
	zero := int64(0)
	check.Fatal(t, api.Delete(port.APIDelete{Key: key, Grace: &zero}))
	want("gone", 0, 3, Node{Starts: 1, Restarts: 3}, report.Succeeded)
	if s := o.Starts(); len(s) != 1 || s[0].Pods != 1 || (s[0].Took-2*time.Second).Abs() > 20*time.Millisecond {
		t.Errorf("starts: %+v", s)
	}
}

func TestHistogram(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histogram{}
		check.Fatal(t, check.Is(h.percentile(0.5), 0, "a percentile of nothing"))
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(24*time.Hour)), 1, 200).Draw(t, "durations")
		for _, d := range all {
			h.add(time.Duration(d))
			got := middle(bucket(time.Duration(d)))
			if off := (got - time.Duration(d)).Abs(); off > time.Millisecond && float64(off) > 0.006*float64(d) {
				t.Fatalf("%v is taken for %v", time.Duration(d), got)
			}
		}
		n, last := 0, time.Duration(-1)
		for _, l := range h.list() {
			if l.Took <= last {
				t.Fatalf("%v after %v", l.Took, last)
			}
			n, last = n+l.Pods, l.Took
		}
		if n != len(all) || h.percentile(1) != last || h.percentile(0) > h.percentile(0.5) || h.percentile(0.5) > h.percentile(1) {
			t.Fatalf("%d of %d are left; percentiles %v %v %v", n, len(all), h.percentile(0), h.percentile(0.5), h.percentile(1))
		}
	})
}
