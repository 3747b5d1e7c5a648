package simcri

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// outcome is what a call on an object in a state gives: an error of a kind, or
// none and the state after it.
type outcome struct {
	fails bool
	kind  port.ErrorKind
	after string
}

func works(after string) outcome                      { return outcome{after: after} }
func fails(kind port.ErrorKind, after string) outcome { return outcome{true, kind, after} }

func wantOutcome(t *testing.T, err error, want outcome, after string) {
	t.Helper()
	switch {
	case want.fails:
		wantKind(t, "call", err, want.kind)
	case err != nil:
		t.Errorf("call failed: %v", err)
	}
	check.Equal(t, after, want.after, "then it")
}

const gone = "gone"

// TestContainerStatesAndCalls tries every call on a container in every state.
func TestContainerStatesAndCalls(t *testing.T) {
	calls := map[string]func(w *world, sandbox, id string) error{
		"start":         func(w *world, _, id string) error { return w.startSync(id) },
		"stop":          func(w *world, _, id string) error { return w.stop(id, time.Second) },
		"kill":          func(w *world, _, id string) error { return w.stop(id, 0) },
		"remove":        func(w *world, _, id string) error { return w.removeSync(id) },
		"status":        func(w *world, _, id string) error { _, err := w.status(id); return err },
		"exec":          func(w *world, _, id string) error { _, err := w.execSync(id, 0, "x"); return err },
		"stopSandbox":   func(w *world, sandbox, _ string) error { return w.stopSandboxSync(sandbox) },
		"removeSandbox": func(w *world, sandbox, _ string) error { return w.removeSandboxSync(sandbox) },
		"end":           func(w *world, _, id string) error { return w.EndContainer(id, Exit{Code: 3}) },
	}
	states := map[string]func(w *world, sandbox, id string){
		"Created":  func(*world, string, string) {},
		"Running":  func(w *world, _, id string) { _ = w.startSync(id) },
		"Exited":   func(w *world, _, id string) { _ = w.startSync(id); _ = w.stop(id, 0) },
		"Orphaned": func(w *world, sandbox, _ string) { _ = w.stopSandboxSync(sandbox) }, // created, its sandbox stopped
		gone:       func(w *world, _, id string) { _ = w.removeSync(id) },
	}
	want := map[string]map[string]outcome{
		"Created": {
			"start": works("Running"), "stop": works("Created"), "kill": works("Created"), "remove": works(gone),
			"status": works("Created"), "exec": fails(port.StateConflict, "Created"),
			"stopSandbox": works("Created"), "removeSandbox": works(gone), "end": fails(port.Other, "Created"),
		},
		"Running": {
			"start": fails(port.StateConflict, "Running"), "stop": works("Exited"), "kill": works("Exited"), "remove": works(gone),
			"status": works("Running"), "exec": works("Running"),
			"stopSandbox": works("Exited"), "removeSandbox": works(gone), "end": works("Exited"),
		},
		"Exited": {
			"start": fails(port.StateConflict, "Exited"), "stop": works("Exited"), "kill": works("Exited"), "remove": works(gone),
			"status": works("Exited"), "exec": fails(port.StateConflict, "Exited"),
			"stopSandbox": works("Exited"), "removeSandbox": works(gone), "end": fails(port.Other, "Exited"),
		},
		"Orphaned": {
			"start": fails(port.StateConflict, "Created"), "stop": works("Created"), "kill": works("Created"), "remove": works(gone),
			"status": works("Created"), "exec": fails(port.StateConflict, "Created"),
			"stopSandbox": works("Created"), "removeSandbox": works(gone), "end": fails(port.Other, "Created"),
		},
		gone: {
			"start": fails(port.NotFound, gone), "stop": works(gone), "kill": works(gone), "remove": works(gone),
			"status": fails(port.NotFound, gone), "exec": fails(port.NotFound, gone),
			"stopSandbox": works(gone), "removeSandbox": works(gone), "end": fails(port.Other, gone),
		},
	}
	for state, into := range states {
		for name, call := range calls {
			t.Run(state+"/"+name, func(t *testing.T) {
				expected, ok := want[state][name]
				if !ok {
					t.Fatal("no outcome is written down")
				}
				w := newWorld(t)
				w.MakeImagePresent(testImage, RegistryImage{})
				p := aPod("p")
				sandbox := check.Value(w.run(p, 0))(t)
				id := check.Value(w.create(p, sandbox, 0))(t)
				into(w, sandbox, id)
				err := call(w, sandbox, id)
				after := gone
				if c, ok := w.Find(p.UID, "app"); ok {
					after = c.State.String()
				}
				wantOutcome(t, err, expected, after)
				check.Equal(t, w.Truth().InFlight, 0, "calls are left")
			})
		}
	}
}

// TestSandboxStatesAndCalls tries every call on a sandbox in every state.
func TestSandboxStatesAndCalls(t *testing.T) {
	calls := map[string]func(w *world, id string) error{
		"runAgain": func(w *world, _ string) error { _, err := w.run(aPod("p"), 0); return err },
		"stop":     func(w *world, id string) error { return w.stopSandboxSync(id) },
		"remove":   func(w *world, id string) error { return w.removeSandboxSync(id) },
		"status":   func(w *world, id string) error { _, err := w.sandboxStatus(id); return err },
		"create":   func(w *world, id string) error { _, err := w.create(aPod("p"), id, 0); return err },
		"end":      func(w *world, id string) error { return w.EndSandbox(id) },
	}
	states := map[string]func(w *world, id string){
		"Ready":    func(*world, string) {},
		"NotReady": func(w *world, id string) { _ = w.stopSandboxSync(id) },
		gone:       func(w *world, id string) { _ = w.removeSandboxSync(id) },
	}
	want := map[string]map[string]outcome{
		"Ready": {
			"runAgain": fails(port.NameReserved, "Ready"), "stop": works("NotReady"), "remove": works(gone),
			"status": works("Ready"), "create": works("Ready"), "end": works("NotReady"),
		},
		"NotReady": {
			"runAgain": fails(port.NameReserved, "NotReady"), "stop": works("NotReady"), "remove": works(gone),
			"status": works("NotReady"), "create": fails(port.StateConflict, "NotReady"), "end": fails(port.Other, "NotReady"),
		},
		gone: {
			"runAgain": works("Ready"), "stop": works(gone), "remove": works(gone),
			"status": fails(port.NotFound, gone), "create": fails(port.NotFound, gone), "end": fails(port.Other, gone),
		},
	}
	for state, into := range states {
		for name, call := range calls {
			t.Run(state+"/"+name, func(t *testing.T) {
				expected, ok := want[state][name]
				if !ok {
					t.Fatal("no outcome is written down")
				}
				w := newWorld(t)
				w.MakeImagePresent(testImage, RegistryImage{})
				id := check.Value(w.run(aPod("p"), 0))(t)
				into(w, id)
				err := call(w, id)
				after := gone
				truth := w.Truth()
				if len(truth.Runtime.Pods) > 0 {
					after = truth.Runtime.Pods[0].Sandboxes[0].State.String()
				}
				wantOutcome(t, err, expected, after)
				if ready := after == observed.SandboxReady.String(); ready != (truth.Addresses == 1) {
					t.Errorf("%d addresses are taken", truth.Addresses)
				}
			})
		}
	}
}

// TestNamesWhileMaking: a name is taken while the call is under way, and given
// back if it fails.
func TestNamesWhileMaking(t *testing.T) {
	w := newWorld(t)
	w.MakeImagePresent(testImage, RegistryImage{})
	p := aPod("p")
	a, doneA := give[string](w)
	b, doneB := give[string](w)
	w.RunPodSandbox(context.Background(), port.RunPodSandbox{Pod: p}, doneA)
	w.RunPodSandbox(context.Background(), port.RunPodSandbox{Pod: p}, doneB)
	check.Fatal(t, check.Is(a.n, 0, "done was called inside the call"))
	check.Equal(t, len(w.Truth().Runtime.Pods), 0, "a sandbox that is being made is to be seen")
	sandbox := check.Value(await(w, a))(t)
	_, err := await(w, b)
	wantKind(t, "second", err, port.NameReserved)

	q := aPod("p")
	q.Spec.Containers[0].Image = "registry.test/absent:1"
	_, err = w.create(q, sandbox, 0)
	wantKind(t, "absent image", err, port.ImageNotFound)
	check.Value(w.create(p, sandbox, 0))(t)
}

func TestAddressesRunOut(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.PodCIDR = mustPrefix("10.1.2.0/29") }) // 5 for pods: .2 to .6
	var boxes []string
	seen := map[string]bool{}
	for i := range 5 {
		id := check.Value(w.run(aPod(fmt.Sprint("p", i)), 0))(t)
		boxes = append(boxes, id)
		seen[check.Value(w.sandboxStatus(id))(t).IPs[0]] = true
	}
	if len(seen) != 5 || !seen["10.1.2.2"] || !seen["10.1.2.6"] {
		t.Errorf("addresses are %v", seen)
	}
	_, err := w.run(aPod("late"), 0)
	wantKind(t, "no address left", err, port.Other)
	check.Fatal(t, w.stopSandboxSync(boxes[1]))
	id := check.Value(w.run(aPod("late"), 0))(t)
	check.Count(t, check.Value(w.sandboxStatus(id))(t).IPs[0], "10.1.2.3", "address is %s, want the one given back")
}
