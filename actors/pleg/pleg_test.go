package pleg_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/port"
)

// TestStream: the list and the stream begin together. Once the stream stands, one more list finds what
// happened while nobody listened, and then lists are rare.
func TestStream(t *testing.T) {
	r := newRig(t, has(made("web", "c1")))
	r.want("the start", soon, "list", "events", "healthy", "snapshot web, listed at 0s")
	r.stream.opened()
	r.want("the stream stands", soon, "list", "healthy, streaming")
	r.want("quiet", slow-2*soon)
	r.want("the relist", 2*soon, "list", "healthy, streaming")
}

// TestPolling: a runtime without events is listed often.
func TestPolling(t *testing.T) {
	r := newRig(t, polling)
	r.want("the start", soon, "list", "events", "healthy", "snapshot, listed at 0s")
	r.want("two periods", 2*fast, "list", "healthy", "list", "healthy")
	if n := strings.Count(r.log.String(), "does not support container events"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, &r.log)
	}
}

// TestEvents: each is a hint, one that comes twice or is about a pod that no list has shown too. That
// something was created is none.
func TestEvents(t *testing.T) {
	r := streaming(t)
	r.said = nil
	for _, kind := range []observed.EventKind{
		observed.ContainerCreatedEvent, observed.ContainerStartedEvent, observed.ContainerStoppedEvent,
		observed.ContainerStoppedEvent, observed.ContainerDeletedEvent,
	} {
		r.stream.event(port.RuntimeEvent{Kind: kind, ContainerID: "c1", Pod: made("stranger").Ref})
	}
	r.want("five events", soon, "hint: c1 started of default/stranger", "hint: c1 stopped of default/stranger",
		"hint: c1 stopped of default/stranger", "hint: c1 deleted of default/stranger")
}

// TestLists: each pod that a list shows otherwise than the one before is told, and no other.
func TestLists(t *testing.T) {
	web, db := made("web", "c1"), made("db", "c2")
	exited, replaced, unready := made("web", "c1"), made("web", "c3"), made("web", "c3")
	exited.Containers[0].State = observed.ContainerExited
	unready.Sandboxes[0].State = observed.SandboxNotReady
	r := newRig(t, polling, has(web))
	r.want("the start", soon, "list", "events", "healthy", "snapshot web, listed at 0s")
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
		r.want(step.what, fast, append([]string{"list", "healthy"}, step.seen...)...)
	}
}

// TestStreamEnds: it is opened again after a moment, which doubles up to 2 s while it does not stand.
// Lists are frequent meanwhile.
func TestStreamEnds(t *testing.T) {
	r := streaming(t)
	r.said, r.tries = nil, nil
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
	if !slices.Equal(pauses, want) {
		t.Errorf("it is opened after %v, want %v", pauses, want)
	}
	if n := len(r.only("list")); n != 3 {
		t.Errorf("%d lists, want one in each of the three long pauses: %q", n, r.said)
	}
	r.streamErr = nil
	r.Advance(2 * time.Second)
	r.said = nil
	r.stream.opened()
	r.want("it stands again", soon, "list", "healthy, streaming")
	r.stream.done(nil)
	r.want("it ended again", fast/8, "events")
	if n := strings.Count(r.log.String(), "event stream of the runtime ended"); n != 2 {
		t.Errorf("logged %d times, want once for each stream that stood: %s", n, &r.log)
	}
}

// TestOldStream: what one says of itself counts for nothing once there is another.
func TestOldStream(t *testing.T) {
	r := streaming(t)
	old := r.stream
	old.done(nil)
	r.Advance(fast / 8)
	r.said = nil
	old.opened()
	r.want("the old one is late", soon)
	r.stream.opened()
	r.want("the new one stands", soon, "list", "healthy, streaming")
}

// TestSilentRuntime: a list that hangs does not keep the next from being tried, three at most. The first
// answer says that the runtime is back, once. What a list answers that a later one has overtaken is old.
func TestSilentRuntime(t *testing.T) {
	r := newRig(t, polling, has(made("web", "c1")))
	r.Advance(soon)
	r.said, r.silent = nil, true
	r.want("the first", fast, "list")
	r.want("patience", impatience-fast)
	r.want("the second and the third", 2*impatience, "list", "list")
	r.want("no fourth", deadline+fast-3*impatience-2*soon)
	r.want("the deadline of the first makes room", fast+2*soon, "unhealthy since 1.001s: deadline exceeded", "list")
	r.pods = nil
	fourth := r.late[3]
	fourth()
	r.want("the fourth is answered", soon, "the runtime is back", "events", "healthy")
	r.late[1]()
	r.want("the second is answered late", soon)
	r.silent = false
	r.want("all is as before", fast, "list", "healthy", "seen: default/web with 0 sandboxes and 0 containers")
	if n := strings.Count(r.log.String(), "cannot list the containers of the runtime"); n != 1 {
		t.Errorf("logged %d times, want once: %s", n, &r.log)
	}
}

// TestRuntimeAway: while lists fail they are frequent, though a stream may stand.
func TestRuntimeAway(t *testing.T) {
	r := streaming(t)
	r.said, r.listErr = nil, unavailable
	r.ref.Tell(pleg.Tick{})
	const away = "unhealthy since 20ms: unavailable, streaming"
	r.want("it fails", 2*fast+soon, "list", away, "list", away, "list", away)
	r.listErr = nil
	r.want("it works", fast, "list", "the runtime is back", "healthy, streaming")
	r.want("lists are rare again", slow-fast)
}

// TestRuntimeAwayAtTheStart: the snapshot comes with the first list that works. One that was away may have
// come back with events.
func TestRuntimeAwayAtTheStart(t *testing.T) {
	r := newRig(t, polling, func(r *rig) { r.listErr = unavailable })
	const away = "unhealthy since 0s: unavailable"
	r.want("the start", soon, "list", "events", away)
	r.want("again", fast, "list", away)
	r.listErr, r.streamErr = nil, nil
	r.want("it is there", fast, "list", "the runtime is back", "events", "healthy", "snapshot, listed at 2.002s")
	r.stream.opened()
	r.want("it has events now", soon, "list", "healthy, streaming")
}

// TestResend: pods restarted, and gets a snapshot that is newer than its question.
func TestResend(t *testing.T) {
	r := streaming(t, made("web", "c1"))
	r.said = nil
	r.pods = append(r.pods, made("db", "c2"))
	r.ref.Tell(pleg.Resend{})
	r.want("once", soon, "list", "healthy, streaming", "snapshot web db, listed at 20ms")
	r.ref.Tell(pleg.Resend{})
	r.ref.Tell(pleg.Resend{})
	r.want("twice before the answer", soon,
		"list", "list", "healthy, streaming", "snapshot web db, listed at 30ms", "healthy, streaming")
	r.silent = true
	r.ref.Tell(pleg.Resend{})
	r.want("it is lost", fast, "list")
	r.silent = false
	r.want("the next list has it", impatience, "list", "healthy, streaming", "snapshot web db, listed at 2.04s")
}

// TestOverflow: something was missed, so that all is listed.
func TestOverflow(t *testing.T) {
	r := streaming(t)
	r.said = nil
	for range 3 {
		r.ref.Tell(pleg.Resend{}) // the mailbox has room for two
	}
	r.want("three lists for two messages", soon, "list", "list", "list",
		"healthy, streaming", "snapshot, listed at 20ms", "healthy, streaming", "healthy, streaming")
}

// TestActorRestart: the second incarnation opens a stream of its own and ends the first one's. Its first
// list is a snapshot again.
func TestActorRestart(t *testing.T) {
	r := streaming(t, made("web", "c1"))
	old := r.stream
	r.said, r.crash = nil, true
	r.ref.Tell(pleg.Tick{})
	r.want("the crash", 2*soon, "list", "events", "healthy", "snapshot web, listed at 30ms")
	if old.ctx.Err() == nil || r.stream.ctx.Err() != nil {
		t.Errorf("the streams ended with %v and %v, want only the first to end", old.ctx.Err(), r.stream.ctx.Err())
	}
	old.done(old.ctx.Err())
	r.want("the first stream ends", fast/2)
	r.stream.opened()
	r.want("the second stands", soon, "list", "healthy, streaming")
}
