package pleg_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is the pleg actor on a virtual clock. The rig plays the runtime, which answers when a test says so,
// and pods. It writes down the calls and what is told.
type rig struct {
	*actortest.Rig
	actor *actortest.Actor[pleg.Message]
	// pods are what the runtime has; listErr is what it answers instead.
	pods    []observed.RuntimePod
	unread  []observed.Unread
	listErr error
	answers *actortest.Answers
	// stream is the newest stream, and tries are the times of all. One is refused at once with streamErr.
	stream    *stream
	tries     []time.Time
	streamErr error
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
	unsupported = &port.Error{Kind: port.Unsupported, Verb: "GetContainerEvents"}
	unavailable = &port.Error{Kind: port.Unavailable, Verb: "List", Detail: "connection refused"}
)

func newRig(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t)}
	r.answers = r.NewAnswers()
	for _, f := range change {
		f(r)
	}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[pleg.Message]{Name: "pleg", MailboxLimit: 2, New: pleg.New(&pleg.Deps{
		Runtime: r,
		Snapshot: func(s pleg.Snapshot) {
			r.Say("snapshot%s, listed at %v", names(s.Runtime.Pods), s.Listed.Sub(actortest.Begin))
		},
		Hint: func(h pleg.Hint) { r.Say("hint: %s %s of %s", h.Event.ContainerID, h.Event.Kind, h.Event.Pod) },
		Seen: func(s pleg.Seen) {
			r.Say("seen: %s with %d sandboxes and %d containers", s.Ref, len(s.View.Sandboxes), len(s.View.Containers))
		},
		Health: r.health,
		Back:   func() { r.Say("the runtime is back") },
		Slow:   slow, Fast: fast, Deadline: deadline, Impatience: impatience,
	})})
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

func (r *rig) health(h pleg.Health) {
	line := "healthy"
	if h.Err != nil {
		line = fmt.Sprintf("unhealthy since %v: %s", h.Since.Sub(actortest.Begin), port.KindOf(h.Err))
	}
	if h.Streaming {
		line += ", streaming"
	}
	r.Say("%s", line)
}

// List implements pleg.Runtime.
func (r *rig) List(_ context.Context, uid string, done func(observed.Runtime, error)) {
	r.Say("list%s", uid)
	list, err := observed.Runtime{Pods: slices.Clone(r.pods), Unread: slices.Clone(r.unread)}, r.listErr
	r.answers.Give(func() {
		if err != nil {
			done(observed.Runtime{}, err)
			return
		}
		done(list, nil)
	})
}

// Events implements pleg.Runtime.
func (r *rig) Events(ctx context.Context, opened func(), event func(port.RuntimeEvent), done func(error)) {
	r.Say("events")
	r.tries = append(r.tries, r.Now())
	r.stream = &stream{ctx, opened, event, done}
	if r.streamErr != nil {
		done(r.streamErr)
	}
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
