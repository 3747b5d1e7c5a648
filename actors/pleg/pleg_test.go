package pleg_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStream: the list and the stream begin together. Once the stream stands, one more list finds what
// happened while nobody listened, and then lists are rare.
func TestStream(t *testing.T) {
	r := newRig(t, has(made("web", "c1")))
	r.WantAfter("the start", soon, "list", "events", "healthy", "snapshot web, listed at 0s")
	r.stream.opened()
	r.WantAfter("the stream stands", soon, "list", "healthy, streaming")
	r.WantAfter("quiet", slow-2*soon)
	r.WantAfter("the relist", 2*soon, "list", "healthy, streaming")
}

// TestPolling: a runtime without events is listed often.
func TestPolling(t *testing.T) {
	r := newRig(t, polling)
	r.WantAfter("the start", soon, "list", "events", "healthy", "snapshot, listed at 0s")
	r.WantAfter("two periods", 2*fast, "list", "healthy", "list", "healthy")
	if n := r.Logged("does not support container events"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, &r.Log)
	}
}

// TestEvents: each is a hint, one that comes twice or is about a pod that no list has shown too. That
// something was created is none.
func TestEvents(t *testing.T) {
	r := streaming(t)
	r.Forget()
	for _, kind := range []observed.EventKind{
		observed.ContainerCreatedEvent, observed.ContainerStartedEvent, observed.ContainerStoppedEvent,
		observed.ContainerStoppedEvent, observed.ContainerDeletedEvent,
	} {
		r.stream.event(port.RuntimeEvent{Kind: kind, ContainerID: "c1", Pod: made("stranger").Ref})
	}
	r.WantAfter("five events", soon, "hint: c1 started of default/stranger", "hint: c1 stopped of default/stranger",
		"hint: c1 stopped of default/stranger", "hint: c1 deleted of default/stranger")
}

// TestLists: each pod that a list shows otherwise than the one before is told, and no other.
func TestLists(t *testing.T) {
	web, db := made("web", "c1"), made("db", "c2")
	exited, replaced, unready := made("web", "c1"), made("web", "c3"), made("web", "c3")
	exited.Containers[0].State = observed.ContainerExited
	unready.Sandboxes[0].State = observed.SandboxNotReady
	r := newRig(t, polling, has(web))
	r.WantAfter("the start", soon, "list", "events", "healthy", "snapshot web, listed at 0s")
	for _, step := range []struct {
		what string
		pods []observed.RuntimePod
		seen []string
	}{
		{"nothing", []observed.RuntimePod{web}, nil},
		{"a new pod", []observed.RuntimePod{web, db}, []string{"seen: default/db with 1 sandboxes and 1 containers"}},
		{"another order", []observed.RuntimePod{db, web}, nil},
		{"a container exited", []observed.RuntimePod{db, exited}, []string{"seen: default/web with 1 sandboxes and 1 containers"}},
		{"another container", []observed.RuntimePod{db, replaced}, []string{"seen: default/web with 1 sandboxes and 1 containers"}},
		{"a sandbox is not ready", []observed.RuntimePod{db, unready}, []string{"seen: default/web with 1 sandboxes and 1 containers"}},
		{"a pod is gone", []observed.RuntimePod{unready}, []string{"seen: default/db with 0 sandboxes and 0 containers"}},
		{"nothing again", []observed.RuntimePod{unready}, nil},
	} {
		r.pods = step.pods
		r.WantAfter(step.what, fast, append([]string{"list", "healthy"}, step.seen...)...)
	}
}

// TestStreamEnds: it is opened again after a moment, which doubles up to 2 s while it does not stand.
// Lists are frequent meanwhile.
func TestStreamEnds(t *testing.T) {
	r := streaming(t)
	r.Forget()
	r.tries = nil
	r.streamErr = errors.New("connection refused")
	r.stream.done(errors.New("EOF"))
	ended := r.Now()
	r.Advance(8 * time.Second)
	var pauses []time.Duration
	for _, at := range r.tries {
		pauses = append(pauses, at.Sub(ended))
		ended = at
	}
	want := []time.Duration{fast / 8, fast / 4, fast / 2, fast, 2 * time.Second, 2 * time.Second, 2 * time.Second}
	check.Same(t, pauses, want, "it is opened after")
	if n := r.Count("list"); n != 8 {
		t.Errorf("%d lists, want one a second, however often the stream is opened: %q", n, r.Lines())
	}
	r.streamErr = nil
	r.Advance(2*time.Second + fast/2)
	r.Forget()
	r.stream.opened()
	r.WantAfter("it stands again", soon, "list", "healthy, streaming")
	r.stream.done(nil)
	r.WantAfter("it ended again", fast/8, "events")
	if n := r.Logged("event stream of the runtime ended"); n != 2 {
		t.Errorf("logged %d times, want once for each stream that stood: %s", n, &r.Log)
	}
}

// TestOldStream: what one says of itself counts for nothing once there is another.
func TestOldStream(t *testing.T) {
	r := streaming(t)
	old := r.stream
	old.done(nil)
	r.Advance(fast / 8)
	r.Forget()
	old.opened()
	r.WantAfter("the old one is late", soon)
	r.stream.opened()
	r.WantAfter("the new one stands", soon, "list", "healthy, streaming")
}

// TestSilentRuntime: a list that hangs does not keep the next from being tried, three at most. The first
// answer says that the runtime is back, once. What a list answers that a later one has overtaken is old.
func TestSilentRuntime(t *testing.T) {
	r := newRig(t, polling, has(made("web", "c1")))
	r.Advance(soon)
	r.Forget()
	r.answers.Silent = true
	r.WantAfter("the first", fast, "list")
	r.WantAfter("patience", impatience-fast)
	r.WantAfter("the second and the third", 2*impatience, "list", "list")
	r.WantAfter("no fourth", deadline+fast-3*impatience-2*soon)
	r.WantAfter("the deadline of the first makes room", fast+2*soon, "unhealthy since 1.001s: deadline exceeded", "list")
	r.pods = nil
	r.answers.Release(3)
	r.WantAfter("the fourth is answered", soon, "the runtime is back", "events", "healthy")
	r.answers.Release(1)
	r.WantAfter("the second is answered late", soon)
	r.answers.Silent = false
	r.WantAfter("all is as before", fast, "list", "healthy", "seen: default/web with 0 sandboxes and 0 containers")
	if n := r.Logged("cannot list the containers of the runtime"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, &r.Log)
	}
}

// TestRuntimeAway: while lists fail they are frequent, though a stream may stand.
func TestRuntimeAway(t *testing.T) {
	r := streaming(t)
	r.Forget()
	r.listErr = unavailable
	r.actor.Tell(pleg.Tick{})
	const away = "unhealthy since 20ms: unavailable, streaming"
	r.WantAfter("it fails", 2*fast+soon, "list", away, "list", away, "list", away)
	r.listErr = nil
	r.WantAfter("it works", fast, "list", "the runtime is back", "healthy, streaming")
	r.WantAfter("lists are rare again", slow-fast)
}

// TestRuntimeAwayAtTheStart: the snapshot comes with the first list that works. One that was away may have
// come back with events.
func TestRuntimeAwayAtTheStart(t *testing.T) {
	r := newRig(t, polling, func(r *rig) { r.listErr = unavailable })
	const away = "unhealthy since 0s: unavailable"
	r.WantAfter("the start", soon, "list", "events", away)
	r.WantAfter("again", fast, "list", away)
	r.listErr, r.streamErr = nil, nil
	r.WantAfter("it is there", fast, "list", "the runtime is back", "events", "healthy", "snapshot, listed at 2.002s")
	r.stream.opened()
	r.WantAfter("it has events now", soon, "list", "healthy, streaming")
}

// TestResend: pods restarted, and gets a snapshot that is newer than its question.
func TestResend(t *testing.T) {
	r := streaming(t, made("web", "c1"))
	r.Forget()
	r.pods = append(r.pods, made("db", "c2"))
	r.actor.Tell(pleg.Resend{})
	r.WantAfter("once", soon, "list", "healthy, streaming", "snapshot web db, listed at 20ms")
	r.actor.Tell(pleg.Resend{})
	r.actor.Tell(pleg.Resend{})
	r.WantAfter("twice before the answer", soon,
		"list", "list", "healthy, streaming", "snapshot web db, listed at 30ms", "healthy, streaming")
	r.answers.Silent = true
	r.actor.Tell(pleg.Resend{})
	r.WantAfter("it is lost", fast, "list")
	r.answers.Silent = false
	r.WantAfter("the next list has it", impatience, "list", "healthy, streaming", "snapshot web db, listed at 2.04s")
}

// TestOverflow: something was missed, so that all is listed.
func TestOverflow(t *testing.T) {
	r := streaming(t)
	r.Forget()
	for range 3 {
		r.actor.Tell(pleg.Resend{}) // the mailbox has room for two
	}
	r.WantAfter("three lists for two messages", soon, "list", "list", "list",
		"healthy, streaming", "snapshot, listed at 20ms", "healthy, streaming", "healthy, streaming")
}

// TestActorRestart: the second incarnation opens a stream of its own and ends the first one's. Its first
// list is a snapshot again.
func TestActorRestart(t *testing.T) {
	r := streaming(t, made("web", "c1"))
	old := r.stream
	r.Forget()
	r.actor.Crash()
	r.actor.Tell(pleg.Tick{})
	r.WantAfter("the crash", 2*soon, "list", "events", "healthy", "snapshot web, listed at 30ms")
	if old.ctx.Err() == nil || r.stream.ctx.Err() != nil {
		t.Errorf("the streams ended with %v and %v, want only the first to end", old.ctx.Err(), r.stream.ctx.Err())
	}
	old.done(old.ctx.Err())
	r.WantAfter("the first stream ends", fast/2)
	r.stream.opened()
	r.WantAfter("the second stands", soon, "list", "healthy, streaming")
}

// TestListsAreToldAfterEvents: what came and went between two lists is in neither. So after an event
// each pod is told of the next list that comes when all may be told, once, and idle pods of none.
func TestListsAreToldAfterEvents(t *testing.T) {
	r := streaming(t, made("web", "c1"))
	r.Forget()
	r.stream.event(port.RuntimeEvent{Kind: observed.ContainerCreatedEvent, ContainerID: "c2", Pod: made("web").Ref})
	r.WantAfter("quiet", slow-2*soon)
	r.WantAfter("the relist", 2*soon, "list", "healthy, streaming", "seen: default/web with 1 sandboxes and 1 containers")
	r.WantAfter("quiet again", slow-2*soon)
	r.WantAfter("nothing was heard", 2*soon, "list", "healthy, streaming")
}

// TestListsAreToldWithoutStream: without events nobody knows what came and went between two lists, so each
// pod is told of a list now and then.
func TestListsAreToldWithoutStream(t *testing.T) {
	r := newRig(t, polling, has(made("web", "c1")))
	r.Advance(slow - soon)
	r.Forget()
	r.WantAfter("a list that all are told", fast, "list", "healthy", "seen: default/web with 1 sandboxes and 1 containers")
	r.WantAfter("the next", fast, "list", "healthy")
}

// TestUnread: a pod of which a part can't be read is as it was, one that was never read is gone when it is not there
// any more, and the log names each once.
func TestUnread(t *testing.T) {
	bad := func(names ...string) (out []observed.Unread) {
		for _, name := range names {
			out = append(out, observed.Unread{UID: types.UID(name), Why: "container x: panic"})
		}
		return out
	}
	web, db, old := made("web", "c1"), made("db", "c2"), made("old", "c3")
	r := newRig(t, polling, has(web, db), func(r *rig) { r.unread = bad("lost", "old") })
	r.WantAfter("the start", soon, "list", "events", "healthy", "snapshot web db, listed at 0s")
	for _, step := range []struct {
		what   string
		pods   []observed.RuntimePod
		unread []observed.Unread
		want   []string
	}{
		{"one more can't be read", []observed.RuntimePod{db}, bad("lost", "old", "web"), nil},
		{"and is as it was", []observed.RuntimePod{db, web}, bad("lost", "old"),
			[]string{"seen: default/web with 1 sandboxes and 1 containers"}},
		{"one can be read", []observed.RuntimePod{db, web, old}, bad("lost"),
			[]string{"seen: default/old with 1 sandboxes and 1 containers"}},
		{"one is gone", []observed.RuntimePod{db, web, old}, nil, []string{"seen: / with 0 sandboxes and 0 containers"}},
	} {
		r.pods, r.unread = step.pods, step.unread
		r.WantAfter(step.what, fast, append([]string{"list", "healthy"}, step.want...)...)
	}
	if n := r.Logged("cannot read a sandbox or container"); n != 3 {
		t.Errorf("logged %d times, want three times: %s", n, &r.Log)
	}
}
