package podtable

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/manifest"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/tests/check"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *time.Time {
	at := now.Add(-d)
	return &at
}

func sample() podview.View {
	one := int32(1)
	return podview.View{
		Node: "n", Ready: true,
		Problems: []manifest.Problem{
			{Source: "/m/bad.yaml", Field: "spec.containers[0].image", Message: "must be given"},
			{Source: "/m/half.yaml", Message: "line 3: did not find expected key\nand more"},
		},
		Pods: []podview.Pod{
			{Namespace: "kube-system", Name: "dns", UID: "d", Source: "http", Life: "Syncing", Phase: "Pending", StartTime: before(90 * time.Second),
				Doing:      []string{"StartContainer dns"},
				Containers: []container{{Name: "dns", Kind: kindMain, State: waiting, Reason: "ContainerCreating", Image: "dns:1"}}},
			{Namespace: "default", Name: "web", UID: "w", Source: "file", Life: "Syncing", Phase: "Running", Ready: true, IP: "10.0.0.7", StartTime: before(3 * time.Hour),
				Containers: []container{{Name: "web", Kind: kindMain, State: running, Ready: true, StartedAt: before(3 * time.Hour), Image: "web:2"}}},
			{Namespace: "default", Name: "crash", UID: "c", Source: "file", Life: "Syncing", Phase: "Running", IP: "10.0.0.8", StartTime: before(10 * time.Minute),
				Containers: []container{{Name: "app", Kind: kindMain, State: waiting, Reason: "CrashLoopBackOff", Restarts: 4,
					Last:    &podview.End{Reason: "OOMKilled", ExitCode: 137, FinishedAt: before(20 * time.Second)},
					Message: "back-off 40s restarting failed container=app \x1b[31mpod=crash", Image: "crash:1"}}},
			{Namespace: "default", Name: "gone", UID: "g", Source: "orphan", Life: "Terminating", Phase: "Running", StartTime: before(time.Minute),
				Containers: []container{{Name: "app", Kind: kindMain, State: terminated, Reason: "Error", ExitCode: &one, FinishedAt: before(2 * time.Second)}}},
			{Namespace: "default", Name: "big", UID: "b", Source: "file", Life: "Rejected", Phase: "Failed", Reason: "OutOfcpu",
				Message: "Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 2000", Containers: []container{}},
			{Namespace: "default", Name: "loops", UID: "l", Source: "file", Life: "Syncing", Phase: "Running", Problem: "its actor is quarantined: index out of range",
				Ready: true, StartTime: before(time.Minute), Containers: []container{{Name: "app", Kind: kindMain, State: running, Ready: true}}},
		},
	}
}

func draw(t *testing.T, v podview.View, o Options) string {
	t.Helper()
	o.Now = now
	var b strings.Builder
	check.Fatal(t, Write(&b, v, o))
	return b.String()
}

func TestTable(t *testing.T) {
	golden.Assert(t, draw(t, sample(), Options{}), "table.txt")
	golden.Assert(t, draw(t, sample(), Options{Wide: true, Doing: map[types.UID][]Call{
		"d": {{What: "StartContainer dns", Phase: running, Since: *before(75 * time.Second)}, {What: "PullImage x", Phase: "queued", Since: *before(time.Second)}},
		"g": {{What: "a", Since: now}, {What: "b", Since: now}, {What: "c", Since: now}, {What: "d", Since: now}},
	}}), "wide.txt")
	golden.Assert(t, draw(t, sample(), Options{Namespace: "kube-system"}), "namespace.txt")
	if text := draw(t, sample(), Options{}); strings.Contains(text, "\x1b") {
		t.Error("there are escapes in it")
	}
	check.Has(t, draw(t, sample(), Options{Color: true}), "\x1b[31mdefault       crash", "what is not well is not marked")
}

func TestRuntimeTrouble(t *testing.T) {
	v := sample()
	v.Pods, v.Problems = nil, nil
	v.Runtime = &podview.Runtime{Since: *before(90 * time.Second), Message: "dial unix /run/x.sock: connect: connection refused"}
	want := "the container runtime has not answered for 90s, this output may be stale: dial unix /run/x.sock: connect: connection refused\n\nno pods on node n\n"
	check.Equal(t, draw(t, v, Options{}), want, "got")
}

func TestNothingToShow(t *testing.T) {
	for _, c := range []struct {
		view podview.View
		o    Options
		want string
	}{
		{podview.View{Node: "n", Ready: true}, Options{}, "no pods on node n\n"},
		{podview.View{Node: "n", Ready: true}, Options{Namespace: "x"}, "no pods in namespace x on node n\n"},
		{podview.View{Node: "n", WaitingFor: []string{"the source file", "the first list of containers from the runtime"}}, Options{},
			"not ready yet: waiting for the source file, the first list of containers from the runtime\n\nno pods on node n\n"},
	} {
		check.Equal(t, draw(t, c.view, c.o), c.want, "got")
	}
}

func TestChanges(t *testing.T) {
	var c Changes
	v := sample()
	v.Pods, v.Problems = v.Pods[1:3], v.Problems[:1]
	var out []string
	at := now
	step := func(name string) {
		out = append(out, "# "+name)
		out = append(out, c.Lines(v, Options{Now: at})...)
	}
	step("all is new")
	at = at.Add(time.Hour)
	step("nothing but time")
	v.Pods = append([]podview.Pod(nil), v.Pods...)
	v.Pods[1].Containers = []container{{Name: "app", Kind: kindMain, State: running, Ready: true, Restarts: 5}}
	v.Pods[1].Ready = true
	step("one runs again")
	v.Problems = nil
	v.Pods = v.Pods[1:]
	step("one removed, a problem solved")
	golden.Assert(t, strings.Join(out, "\n")+"\n", "changes.txt")
}
