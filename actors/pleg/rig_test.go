package pleg_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/port"
)

// rig is the pleg actor on a virtual clock. The rig plays the runtime, which answers when a test says so,
// and pods. It writes down the calls and what is told.
type rig struct {
	*kernel.Virtual
	t    *testing.T
	ref  kernel.Ref[pleg.Message]
	said []string
	// pods are what the runtime has; listErr is what it answers instead. It keeps its answers, the oldest
	// first, while it is silent.
	pods    []observed.RuntimePod
	listErr error
	silent  bool
	late    []func()
	// stream is the newest stream, and tries are the times of all. One is refused at once with streamErr.
	stream    *stream
	tries     []time.Time
	streamErr error
	log       bytes.Buffer
	// crash makes the actor panic at its next message.
	crash bool
}

type stream struct {
	ctx    context.Context
	opened func()
	event  func(port.RuntimeEvent)
	done   func(error)
}

const (
	slow       = 5 * time.Minute
	fast       = time.Second
	deadline   = 10 * time.Second
	impatience = 2 * time.Second
	soon       = 10 * time.Millisecond // is enough for a call
)

var (
	begin       = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	unsupported = &port.Error{Kind: port.Unsupported, Verb: "GetContainerEvents"}
	unavailable = &port.Error{Kind: port.Unavailable, Verb: "List", Detail: "connection refused"}
)

func newRig(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{t: t, Virtual: kernel.NewVirtual(1, begin)}
	for _, f := range change {
		f(r)
	}
	sys, err := kernel.NewSystem(kernel.Config{Clock: r.Virtual, Seed: 1, Log: zerolog.New(&r.log)})
	if err != nil {
		t.Fatal(err)
	}
	runner, err := kernel.NewRunner(sys)
	if err != nil {
		t.Fatal(err)
	}
	construct := pleg.New(&pleg.Deps{
		Runtime:  r,
		Snapshot: func(s pleg.Snapshot) { r.say("snapshot%s, listed at %v", names(s.Runtime.Pods), s.Listed.Sub(begin)) },
		Hint:     func(h pleg.Hint) { r.say("hint: %s %s of %s", h.Event.ContainerID, h.Event.Kind, h.Event.Pod) },
		Seen: func(s pleg.Seen) {
			r.say("seen: %s with %d sandboxes and %d containers", s.Ref, len(s.View.Sandboxes), len(s.View.Containers))
		},
		Health: r.health,
		Back:   func() { r.say("the runtime is back") },
		Slow:   slow, Fast: fast, Deadline: deadline, Impatience: impatience,
	})
	r.ref, err = kernel.SpawnRoot(sys, kernel.Spec[pleg.Message]{
		Name: "pleg", Runner: runner, MailboxLimit: 2,
		New: func() kernel.Behavior[pleg.Message] { return &crasher{construct(), r} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// streaming is a rig after its first list, with a stream that stands.
func streaming(t *testing.T, pods ...observed.RuntimePod) *rig {
	t.Helper()
	r := newRig(t, has(pods...))
	r.Advance(soon)
	r.stream.opened()
	r.Advance(soon)
	return r
}

// polling is a runtime without events.
func polling(r *rig) { r.streamErr = unsupported }

func has(pods ...observed.RuntimePod) func(r *rig) { return func(r *rig) { r.pods = pods } }

func (r *rig) say(format string, args ...any) { r.said = append(r.said, fmt.Sprintf(format, args...)) }

func (r *rig) health(h pleg.Health) {
	line := "healthy"
	if h.Err != nil {
		line = fmt.Sprintf("unhealthy since %v: %s", h.Since.Sub(begin), port.KindOf(h.Err))
	}
	if h.Streaming {
		line += ", streaming"
	}
	r.say("%s", line)
}

// List implements pleg.Runtime.
func (r *rig) List(_ context.Context, uid string, done func(observed.Runtime, error)) {
	r.say("list%s", uid)
	list, err := observed.Runtime{Pods: slices.Clone(r.pods)}, r.listErr
	answer := func() {
		if err != nil {
			done(observed.Runtime{}, err)
			return
		}
		done(list, nil)
	}
	if r.silent {
		r.late = append(r.late, answer)
		return
	}
	r.AfterFunc(time.Millisecond, answer)
}

// Events implements pleg.Runtime.
func (r *rig) Events(ctx context.Context, opened func(), event func(port.RuntimeEvent), done func(error)) {
	r.say("events")
	r.tries = append(r.tries, r.Now())
	r.stream = &stream{ctx, opened, event, done}
	if r.streamErr != nil {
		done(r.streamErr)
	}
}

// crasher is the actor, with a crash on order.
type crasher struct {
	kernel.Behavior[pleg.Message]
	r *rig
}

func (c *crasher) Receive(ctx *kernel.Context[pleg.Message], m pleg.Message) {
	if c.r.crash {
		c.r.crash = false
		panic("on order")
	}
	c.Behavior.Receive(ctx, m)
}

// Overflowed implements kernel.OverflowHandler.
func (c *crasher) Overflowed(ctx *kernel.Context[pleg.Message]) {
	c.Behavior.(kernel.OverflowHandler[pleg.Message]).Overflowed(ctx)
}

// want lets time pass, and compares what was said since the last time.
func (r *rig) want(what string, d time.Duration, want ...string) {
	r.t.Helper()
	r.Advance(d)
	got := r.said
	r.said = nil
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: until %v was said\n  %s\nwant\n  %s",
			what, r.Now().Sub(begin), strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// only is what was said of one kind.
func (r *rig) only(line string) []string {
	return slices.DeleteFunc(slices.Clone(r.said), func(s string) bool { return s != line })
}

// made is a pod with a ready sandbox and these containers, which run.
func made(name string, containers ...string) observed.RuntimePod {
	p := observed.RuntimePod{Ref: observed.PodRef{UID: types.UID(name), Namespace: "default", Name: name}}
	p.Sandboxes = []observed.Sandbox{{ID: name + "-sandbox", State: observed.SandboxReady}}
	for _, id := range containers {
		p.Containers = append(p.Containers, observed.Container{ID: id, State: observed.ContainerRunning})
	}
	return p
}

func names(pods []observed.RuntimePod) (out string) {
	for i := range pods {
		out += " " + pods[i].Ref.Name
	}
	return out
}
