package status

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
	"github.com/troupe-dev/troupe/tests/check"
)

const (
	probe    = 3 * time.Second
	deadline = 15 * time.Second
)

// rig is the actor alone, on a virtual clock. The rig plays the apiserver.
type rig struct {
	*actortest.Rig
	port.API
	actor *actortest.Actor[Message]
	// has are the objects, by name, and version the last number given.
	has     map[string]*v1.Pod
	version int
	// takes is how long an answer takes; fail says what goes wrong with a call.
	takes time.Duration
	fail  func(verb, name string) error
	// patches are what was patched. The transcript has the calls.
	patches []port.APIPatch
	deletes []port.APIDelete
	// busy is the load of the node, again how often everything was asked for again.
	busy  bool
	again int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		Rig: actortest.New(t), has: map[string]*v1.Pod{},
		takes: time.Millisecond, fail: func(string, string) error { return nil },
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[Message]{Name: "status", New: New(&Deps{
		API: r, Events: r, Restarted: func() { r.again++ }, Outlived: func(m types.UID) { r.Say("mirrors: replace %s", m) },
		Load: func() (bool, bool) { return r.busy, r.busy }, Calls: 4, Deadline: deadline, Probe: probe,
		Backoff: backoff.Policy{Base: 250 * time.Millisecond, Max: 2 * time.Second}, Refused: backoff.Policy{Base: 200 * time.Millisecond, Max: time.Minute},
	})})
	r.Settle()
	return r
}

// answer makes a call: what it does happens as it is answered.
func (r *rig) answer(ctx context.Context, verb, name string, done func(error), work func() error) {
	r.Say("%s %s", verb, name)
	err := r.fail(verb, name)
	r.AfterFunc(r.takes, func() {
		if err == nil && ctx.Err() == nil {
			err = work()
		}
		done(err)
	})
}

// Get implements port.API.
func (r *rig) Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error)) {
	var got *v1.Pod
	r.answer(ctx, "get", k.Name, func(err error) { done(got, err) }, func() error {
		if got = r.has[k.Name]; got == nil {
			return &port.Error{Kind: port.NotFound}
		}
		return nil
	})
}

// Patch implements port.API.
func (r *rig) Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error)) {
	r.patches = append(r.patches, p)
	var got *v1.Pod
	r.answer(ctx, "patch", p.Key.Name, func(err error) { done(got, err) }, func() error {
		have := r.has[p.Key.Name]
		switch {
		case have == nil:
			return &port.Error{Kind: port.NotFound}
		case have.UID != p.From.GetUID(), p.Newest && have.ResourceVersion != p.From.GetResourceVersion():
			return &port.Error{Kind: port.Conflict}
		}
		got = r.put(p.Key.Name, func(o *v1.Pod) { o.Status = p.To.(*v1.Pod).Status })
		return nil
	})
}

// Delete implements port.API.
func (r *rig) Delete(ctx context.Context, d port.APIDelete, done func(error)) {
	r.deletes = append(r.deletes, d)
	r.answer(ctx, "delete", d.Key.Name, done, func() error {
		delete(r.has, d.Key.Name)
		return nil
	})
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.Say("event %s of %s: %s", e.Reason, e.Pod.UID, e.Message) }

// put makes a new version of a pod, or a pod.
func (r *rig) put(name string, change func(*v1.Pod)) *v1.Pod {
	o := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name)}}
	if have := r.has[name]; have != nil {
		o = have.DeepCopy()
	}
	change(o)
	r.version++
	o.ResourceVersion = fmt.Sprint(r.version)
	r.has[name] = o
	return o
}

// tell says to the actor what the apiserver has.
func (r *rig) tell(name string) {
	r.actor.Tell(Object{UID: types.UID("u-" + name), Pod: r.has[name]})
	r.Settle()
}

// show says how a pod is.
func (r *rig) show(name string, phase v1.PodPhase, message string, final bool) {
	r.actor.Tell(Show{UID: types.UID("u-" + name), Status: &v1.PodStatus{Phase: phase, Message: message, HostIP: "192.0.2.1"}, Final: final})
	r.Settle()
}

func nothing(*v1.Pod) {}

// TestCoalesced: the first at once, what comes soon after together, a phase at once.
func TestCoalesced(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	r.show("web", v1.PodPending, "", false)
	r.Want("calls", "patch web")
	r.Advance(10 * time.Millisecond)
	for i := range 5 {
		r.show("web", v1.PodPending, fmt.Sprint(i), false)
		r.Advance(5 * time.Millisecond)
	}
	r.Want("no calls")
	r.Advance(time.Second)
	r.Want("calls", "patch web")
	r.show("web", v1.PodRunning, "5", false)
	r.Want("calls", "patch web")
	r.Advance(time.Minute)
	r.Want("no calls")
	if s := r.has["web"].Status; s.Phase != v1.PodRunning || s.Message != "5" {
		t.Errorf("the apiserver has %+v", s)
	}
}

// TestBusy: while much is written, that a pod is on its way is said with what comes
// of it; news does not wait for that.
func TestBusy(t *testing.T) {
	r := newRig(t)
	r.busy = true
	created := func(p *v1.Pod) { p.Status = v1.PodStatus{Phase: v1.PodPending} }
	for _, name := range []string{"quick", "slow", "stuck", "late"} {
		r.put(name, created)
		r.tell(name)
		r.show(name, v1.PodPending, "", false)
	}
	r.Want("no calls")
	r.Advance(1500 * time.Millisecond)
	r.show("quick", v1.PodRunning, "", false)
	r.show("stuck", v1.PodPending, "the image is missing", false)
	r.Want("calls", "patch quick", "patch stuck")
	r.Advance(10 * time.Millisecond)
	r.show("stuck", v1.PodPending, "the image is still missing", false)
	r.Advance(apipod.Coalesce)
	r.Want("calls", "patch stuck")
	r.Advance(apipod.Hold - 1700*time.Millisecond)
	r.Want("no calls")
	r.show("late", v1.PodRunning, "", false)
	r.Advance(200 * time.Millisecond)
	r.Want("calls", "patch late", "patch slow")
	r.put("next", created)
	r.tell("next")
	r.show("next", v1.PodPending, "", false)
	r.busy = false
	r.Advance(apipod.Relook)
	r.Want("calls", "patch next")
	r.Advance(time.Minute)
	r.Want("no calls")
}

// TestBusyWithEnds: while much is written, it is not said by itself that the
// deletion of a pod was seen, but with its end; and news of it is given time anew.
func TestBusyWithEnds(t *testing.T) {
	r := newRig(t)
	show := func(name string, generation int64, phase v1.PodPhase, message string, final bool) {
		r.actor.Tell(Show{UID: types.UID("u-" + name), Status: &v1.PodStatus{
			Phase: phase, Message: message, HostIP: "192.0.2.1", ObservedGeneration: generation,
		}, Final: final})
		r.Settle()
	}
	all := []string{"done", "slow", "stuck"}
	for _, name := range all {
		r.put(name, func(p *v1.Pod) { p.Generation = 1 })
		r.tell(name)
		show(name, 1, v1.PodRunning, "", false)
	}
	r.Advance(time.Second)
	r.Want("calls", "patch done", "patch slow", "patch stuck")
	r.busy = true
	for _, name := range all {
		r.put(name, func(p *v1.Pod) { p.DeletionTimestamp, p.Generation = new(metav1.NewTime(r.Now())), 2 })
		r.tell(name)
		show(name, 2, v1.PodRunning, "", false)
	}
	r.Advance(10 * time.Second)
	r.Want("no calls")
	show("done", 2, v1.PodFailed, "", false)
	show("slow", 2, v1.PodRunning, "one of two is dead", false)
	r.Advance(500 * time.Millisecond)
	r.Want("no calls")
	show("done", 2, v1.PodFailed, "", true)
	r.Advance(500 * time.Millisecond)
	r.Want("calls", "patch done", "delete done")
	r.Advance(apipod.HoldEnd - time.Second)
	r.Want("calls", "patch slow")
	r.Advance(apipod.HoldSeen)
	r.Want("calls", "patch stuck")
}

// TestNewest: in its first minute an agent writes on the newest version only, for one that was killed
// may still write.
func TestNewest(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	// Somebody writes, and the watch is late.
	r.put("web", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
	r.show("web", v1.PodRunning, "", false)
	r.Advance(20 * time.Millisecond)
	r.Want("calls", "patch web", "get web", "patch web")
	if p := r.has["web"]; p.Status.Phase != v1.PodRunning || p.Labels["a"] != "b" {
		t.Errorf("the apiserver has %+v", p)
	}
	// The watch tells while the write is under way: no need to ask.
	r.put("web", func(p *v1.Pod) { p.Labels = map[string]string{"a": "c"} })
	r.show("web", v1.PodSucceeded, "", false)
	r.tell("web")
	r.Advance(20 * time.Millisecond)
	r.Want("calls", "patch web", "patch web")
	for _, p := range r.patches {
		if !p.Newest {
			t.Errorf("patch %+v may overwrite what it does not know", p)
		}
	}
	r.Advance(2 * time.Minute)
	r.put("other", nothing)
	r.tell("other")
	r.put("other", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
	r.show("other", v1.PodRunning, "", false)
	r.Advance(time.Second)
	r.Want("calls", "patch other")
	if p := r.patches[len(r.patches)-1]; p.Newest {
		t.Error("a conflict with everybody's labels, for nothing")
	}
}

// TestRestored: after a conflict a read shows an older version than the known one. The apiserver's store was
// restored from a backup, and what is there now counts.
func TestRestored(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	old := r.has["web"]
	r.put("web", nothing)
	r.tell("web")
	r.has["web"] = old
	r.show("web", v1.PodRunning, "", false)
	r.Advance(20 * time.Millisecond)
	r.Want("calls", "patch web", "get web", "patch web")
	if p := r.has["web"]; p.Status.Phase != v1.PodRunning {
		t.Errorf("the apiserver has %+v", p)
	}
}

// TestRestoredUnseen: a list shows an older version than the one of this actor's own last write, which no
// watch has shown. It is read, and what is there now counts.
func TestRestoredUnseen(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	old := r.has["web"]
	r.tell("web")
	r.show("web", v1.PodRunning, "", false)
	r.Advance(20 * time.Millisecond)
	r.Want("calls", "patch web")
	r.has["web"] = old
	r.actor.Tell(Object{UID: old.UID, Pod: old, Listed: true})
	r.Settle()
	r.Advance(time.Second)
	r.Want("calls", "get web", "patch web")
	if p := r.has["web"]; p.Status.Phase != v1.PodRunning {
		t.Errorf("the apiserver has %+v", p)
	}
}

// TestConflicts: if each write conflicts, whatever was read before it, it is tried ever more seldom.
func TestConflicts(t *testing.T) { refusing(t, &port.Error{Kind: port.Conflict}, 60) }

// TestRefused: one whose status is not taken is tried ever more seldom.
func TestRefused(t *testing.T) {
	refusing(t, &port.Error{Kind: port.Forbidden, Detail: "a policy"}, 30)
}

// refusing counts the calls about one pod whose writes fail.
func refusing(t *testing.T, err error, most int) {
	t.Helper()
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	r.fail = func(verb, _ string) error {
		if verb == "patch" {
			return err
		}
		return nil
	}
	r.show("web", v1.PodRunning, "", false)
	r.Advance(10 * time.Minute)
	if n := len(r.Lines()); n < 10 || n > most {
		t.Errorf("%d calls in 10 minutes", n)
	}
}

// TestAway: while nobody answers one call at a time tries, at the most two seconds apart; then all is
// said at once, a few calls at a time.
func TestAway(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
	}{
		"refused":  {time.Millisecond, &port.Error{Kind: port.Unavailable, Detail: "connection refused"}},
		"expired":  {time.Millisecond, &port.Error{Kind: port.Unauthorized}},
		"hangs":    {time.Hour, nil},
		"too much": {time.Millisecond, &port.Error{Kind: port.TooManyRequests}},
		"errors":   {time.Millisecond, &port.Error{Detail: "etcdserver: request timed out"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			const pods = 20
			for i := range pods {
				r.put(fmt.Sprint(i), nothing)
				r.tell(fmt.Sprint(i))
			}
			r.takes, r.fail = c.takes, func(string, string) error { return c.err }
			for i := range pods {
				r.show(fmt.Sprint(i), v1.PodRunning, "", false)
			}
			r.Advance(5 * time.Minute)
			if n := len(r.Lines()); n < 50 || n > 400 {
				t.Errorf("%d calls in 5 minutes", n)
			}
			r.takes, r.fail = time.Millisecond, func(string, string) error { return nil }
			r.Advance(probe + 3*time.Second)
			for i := range pods {
				check.Equal(t, r.has[fmt.Sprint(i)].Status.Phase, v1.PodRunning, "pod %d", i)
			}
		})
	}
}

// TestOneInTrouble: an apiserver that fails at one pod is told of all others at once, and asked ever
// more seldom to take that one, as long as others are heard.
func TestOneInTrouble(t *testing.T) {
	r := newRig(t)
	const pods = 10
	for i := range pods {
		r.put(fmt.Sprint(i), nothing)
		r.tell(fmt.Sprint(i))
	}
	tries := 0
	r.fail = func(verb, name string) error {
		if name == "0" && verb == "patch" {
			tries++
			return &port.Error{Detail: "failed calling webhook"}
		}
		return nil
	}
	for minute := range 20 {
		for i := range pods {
			r.show(fmt.Sprint(i), v1.PodRunning, fmt.Sprint(minute), false)
		}
		r.Advance(time.Second)
		for i := range pods {
			if p := r.has[fmt.Sprint(i)]; i > 0 && p.Status.Message != fmt.Sprint(minute) {
				t.Fatalf("after %d minutes and a second pod %d is %+v", minute, i, p.Status)
			}
		}
		r.Advance(29 * time.Second)
		r.show("1", v1.PodRunning, "half", false)
		r.Advance(30 * time.Second)
	}
	t.Logf("the one in trouble was tried %d times", tries)
	check.AtMost(t, tries, 20*30, "the one in trouble was tried %d times in 20 minutes", tries)
	r.fail = func(string, string) error { return nil }
	r.Advance(time.Minute + time.Second)
	if p := r.has["0"]; p.Status.Phase != v1.PodRunning {
		t.Errorf("it is %+v", p.Status)
	}
}

// TestDelete: only when the last status is acknowledged, with grace 0 and the UID, once.
func TestDelete(t *testing.T) {
	r := newRig(t)
	r.put("web", func(p *v1.Pod) { now := metav1.NewTime(r.Now()); p.DeletionTimestamp = &now })
	r.tell("web")
	failures := 3
	r.fail = func(verb, _ string) error {
		if verb == "patch" && failures > 0 {
			failures--
			return &port.Error{Kind: port.Unavailable}
		}
		return nil
	}
	r.show("web", v1.PodSucceeded, "", true)
	r.Advance(time.Minute)
	r.Want("calls", "patch web", "patch web", "patch web", "patch web", "delete web")
	if d := r.deletes[0]; d.UID != "u-web" || d.Grace == nil || *d.Grace != 0 {
		t.Errorf("deleted with %+v", d)
	}
	r.actor.Tell(Gone{UID: "u-web", Object: "u-web"})
	r.actor.Tell(Forget{UID: "u-web"})
	r.Advance(time.Minute)
	r.Want("no calls")
}

// TestLastRejected: of a last status that the apiserver rejects as invalid only the phase is written, and if that is
// rejected too the pod is deleted without it. What the apiserver says is told once each.
func TestLastRejected(t *testing.T) {
	invalid := &port.Error{Kind: port.Invalid, Verb: "patch", Detail: "no such field"}
	const told = "event StatusRejected of u-web: The apiserver rejected the status of the pod: patch: invalid: no such field"
	calls := []string{"patch web", told}
	for range apipod.MostRejected - 1 {
		calls = append(calls, "patch web")
	}
	calls = append(calls, "event StatusRejected of u-web: The pod is deleted without its last status, which the apiserver "+
		"rejected: patch: invalid: no such field", "delete web")
	for name, c := range map[string]struct {
		takes func(*v1.PodStatus) bool
		phase v1.PodPhase
		calls []string
	}{
		"but for its phase": {
			func(s *v1.PodStatus) bool { return s.HostIP == "" }, v1.PodSucceeded,
			[]string{"patch web", told, "patch web", "delete web"},
		},
		"whatever it is": {func(*v1.PodStatus) bool { return false }, v1.PodRunning, calls},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put("web", func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
			r.tell("web")
			r.fail = func(verb, _ string) error {
				if verb == "patch" && !c.takes(&r.patches[len(r.patches)-1].To.(*v1.Pod).Status) {
					return invalid
				}
				if verb == "delete" {
					check.Equal(t, r.has["web"].Status.Phase, c.phase, "the phase in the end")
				}
				return nil
			}
			r.show("web", v1.PodRunning, "", false)
			r.Advance(time.Hour)
			check.Equal(t, len(r.deletes), 0, "deletions of a pod that nobody deletes")
			r.Forget()
			r.put("web", func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(r.Now())) })
			r.tell("web")
			r.show("web", v1.PodSucceeded, "", true)
			r.Advance(time.Minute)
			r.Want("calls", c.calls...)
			r.Advance(time.Hour)
			r.Want("no calls")
		})
	}
}

// TestAnotherOfThatName: what is said of a pod that is gone is not said of the next.
func TestAnotherOfThatName(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	r.put("web", func(p *v1.Pod) { p.UID = "another" })
	r.show("web", v1.PodFailed, "", false)
	r.Advance(10 * time.Minute)
	check.Equal(t, r.has["web"].Status.Phase, "", "the other")
	if n := len(r.Lines()); n > 20 {
		t.Errorf("%d calls", n)
	}
}

// TestNotKept: what the apiserver does not keep is not written for ever.
func TestNotKept(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	r.show("web", v1.PodRunning, "", false)
	r.Advance(time.Second)
	r.Forget()
	for range 3 { // each time somebody takes it away
		r.put("web", func(p *v1.Pod) { p.Status.Phase = v1.PodPending })
		r.tell("web")
		r.Advance(time.Second)
	}
	r.Want("calls", "patch web", "patch web", "patch web")
	r.Advance(time.Hour)
	r.Want("no calls")
}

// TestCrash: after a crash all is told again, and read before it is written.
func TestCrash(t *testing.T) {
	r := newRig(t)
	r.put("web", nothing)
	r.tell("web")
	r.actor.Crash()
	r.show("web", v1.PodRunning, "", false)
	r.Advance(time.Second)
	check.Fatal(t, check.Is(r.again, 1, "asked %d times", r.again))
	r.tell("web")
	r.show("web", v1.PodRunning, "", false)
	r.Advance(time.Second)
	r.Want("calls", "get web", "patch web")
}

// TestOutlived: nothing is written to a mirror that has ended while its static pod runs: mirrors is asked for another
// one. A mirror that has ended with its pod stays.
func TestOutlived(t *testing.T) {
	r := newRig(t)
	ended := func(p *v1.Pod) {
		p.Annotations = map[string]string{podspec.AnnotationMirror: "hash"}
		p.Status.Phase = v1.PodFailed
	}
	r.put("etcd", ended)
	r.tell("etcd")
	r.show("etcd", v1.PodFailed, "", false)
	r.Advance(time.Minute)
	r.Forget()
	r.show("etcd", v1.PodRunning, "", false)
	r.Want("it runs again", "mirrors: replace u-etcd")
	r.Advance(time.Hour)
	r.Want("nothing is written")
	r.actor.Tell(Gone{UID: "u-etcd", Object: "u-etcd"})
	r.put("etcd", func(p *v1.Pod) { p.UID, p.Status = "new", v1.PodStatus{} })
	r.tell("etcd")
	r.Advance(time.Minute)
	check.Equal(t, r.has["etcd"].Status.Phase, v1.PodRunning, "the new mirror")
}
