package simcri

import (
	"reflect"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// Another runtime takes over what one had: nothing of it can be told from before.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	p := aPod("p", "run-for", "10s", "exit-code", "3")
	sandbox, id := w.running(p)
	w.clock.Advance(11 * time.Second)
	again := check.Value(w.create(p, sandbox, 1))(t)
	check.Fatal(t, w.startSync(again))
	w.clock.Advance(4 * time.Second)
	before := w.Truth()

	next := newWorld(t, func(c *Config) { c.Clock, c.Rand = w.clock, streams(2) })
	next.clock = w.clock
	w.Kill()
	check.Fatal(t, next.Adopt(p, before.Runtime.Pods[0]))
	after := next.Truth()
	for i := range before.Runtime.Pods[0].Containers {
		// The directory of logs is the caller's, who says it with each container.
		before.Runtime.Pods[0].Containers[i].LogPath = after.Runtime.Pods[0].Containers[i].LogPath
	}
	if !reflect.DeepEqual(before.Runtime, after.Runtime) {
		t.Errorf("it has\n%+v, want\n%+v", after.Runtime, before.Runtime)
	}
	if got, ran := next.ended(again); ran != 10*time.Second || got.ExitCode != 3 || got.Attempt != 1 {
		t.Errorf("the container ended with %d after %v, want 3 after 10s", got.ExitCode, ran)
	}
	if first := check.Value(next.status(id))(t); first.State != observed.ContainerExited || first.ExitCode != 3 {
		t.Errorf("the first incarnation is %v with %d, want Exited with 3", first.State, first.ExitCode)
	}
	check.Fatal(t, next.removeSandboxSync(sandbox))
	if left := next.Truth(); len(left.Runtime.Pods) > 0 || left.Addresses != 0 {
		t.Errorf("left over: %+v", left)
	}
}

// What nobody knows is made up, and an address that is another's is not given twice.
func TestAdoptMakesUp(t *testing.T) {
	w := newWorld(t)
	p, q := aPod("p"), aPod("q")
	running := func(ip string) observed.RuntimePod {
		return observed.RuntimePod{Pod: observed.Pod{
			Sandboxes:  []observed.Sandbox{{State: observed.SandboxReady, IPs: []string{ip}}},
			Containers: []observed.Container{{Name: "app", Attempt: 4, State: observed.ContainerRunning, StartedAt: epoch}},
		}}
	}
	for _, err := range []error{w.Adopt(p, running("10.88.0.7")), w.Adopt(q, running("10.88.0.7"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	seen := w.Truth()
	if len(seen.Runtime.Pods) != 2 || seen.Addresses != 2 || len(seen.Images) != 1 {
		t.Fatalf("it has %+v, want two pods, two addresses and one image", seen)
	}
	a, b := seen.Runtime.Pods[0], seen.Runtime.Pods[1]
	if ip := a.Sandboxes[0].IPs[0]; ip != "10.88.0.7" || b.Sandboxes[0].IPs[0] == ip {
		t.Errorf("addresses %v and %v, want the first as it was and another", a.Sandboxes[0].IPs, b.Sandboxes[0].IPs)
	}
	if c := a.Containers[0]; c.ID == "" || c.SandboxID != a.Sandboxes[0].ID || c.Attempt != 4 || !c.StartedAt.Equal(epoch) {
		t.Errorf("the container is %+v", c)
	}
}

func TestAdoptRefuses(t *testing.T) {
	w := newWorld(t)
	p := aPod("p")
	w.running(p)
	ready := []observed.Sandbox{{State: observed.SandboxReady}}
	for what, seen := range map[string]observed.RuntimePod{
		"there is something of it already": {Pod: observed.Pod{Sandboxes: ready}},
	} {
		check.Says(t, w.Adopt(p, seen), what, "error")
	}
	before := w.Truth()
	for what, seen := range map[string]observed.Pod{
		`container "other" is not in its spec`: {Sandboxes: ready, Containers: []observed.Container{{Name: "other"}}},
		"no sandbox":                           {Containers: []observed.Container{{Name: "app", State: observed.ContainerExited}}},
		"is taken":                             {Sandboxes: ready, Containers: []observed.Container{{Name: "app", ID: before.Runtime.Pods[0].Containers[0].ID}}},
	} {
		check.Says(t, w.Adopt(aPod("q"), observed.RuntimePod{Pod: seen}), what, "error")
	}
	check.Deep(t, before.Runtime, w.Truth().Runtime, "a refused one left something")
}
