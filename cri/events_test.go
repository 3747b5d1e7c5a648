package cri

import (
	"context"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// heard is what a listener to a stream is told, in order.
type heard struct {
	opened bool
	event  port.RuntimeEvent
	over   bool
	err    error
}

func listen(c *Client, ctx context.Context) <-chan heard {
	all := make(chan heard, 64)
	c.Events(ctx,
		func() { all <- heard{opened: true} },
		func(e port.RuntimeEvent) { all <- heard{event: e} },
		func(err error) { all <- heard{over: true, err: err}; close(all) })
	return all
}

func TestEventsOpenOnASilentStream(t *testing.T) {
	f := &fakeRuntime{events: func(s runtimeapi.RuntimeService_GetContainerEventsServer) error { return hang(s.Context()) }}
	ctx, cancel := context.WithCancel(t.Context())
	all := listen(dial(t, f, nil), ctx)
	if h := check.Receive(t, all); !h.opened {
		t.Fatalf("%+v came before the stream stood", h)
	}
	cancel()
	h := check.Receive(t, all)
	if !h.over {
		t.Fatalf("%+v", h)
	}
	wantKind(t, h.err, port.Canceled)
	if h, more := <-all; more {
		t.Errorf("%+v after the end", h)
	}
}

func TestEventsComeInOrderAndEndWithTheRuntime(t *testing.T) {
	ours := &runtimeapi.PodSandboxStatus{Id: "s1", Labels: labelled("u1", "")}
	f := &fakeRuntime{events: func(s runtimeapi.RuntimeService_GetContainerEventsServer) error {
		for _, e := range []*runtimeapi.ContainerEventResponse{
			{ContainerId: "s1", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, PodSandboxStatus: ours, CreatedAt: 5},
			{ContainerId: "foreign", PodSandboxStatus: &runtimeapi.PodSandboxStatus{Id: "x"}},
			{ContainerId: "c1", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, PodSandboxStatus: ours},
			{ContainerId: "s1", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT},
		} {
			if err := s.Send(e); err != nil {
				return err
			}
		}
		return hang(s.Context())
	}}
	socket := filepath.Join(t.TempDir(), "cri.sock")
	stop := serve(t, f, socket)
	all := listen(connect(t, socket, nil), t.Context())

	if h := check.Receive(t, all); !h.opened {
		t.Fatalf("%+v came before the stream stood", h)
	}
	pod := observed.PodRef{UID: "u1", Namespace: "default", Name: "pod-u1"}
	for _, want := range []port.RuntimeEvent{
		{Kind: observed.ContainerStartedEvent, ContainerID: "s1", Pod: pod},
		{Kind: observed.ContainerStoppedEvent, ContainerID: "c1", Pod: pod},
		{Kind: observed.ContainerDeletedEvent, ContainerID: "s1"},
	} {
		got := check.Receive(t, all).event
		if want.Kind == observed.ContainerStartedEvent {
			check.Equal(t, got.At.UnixNano(), 5, "at %s", got.At)
			want.At = got.At
		}
		check.Equal(t, got, want, "it")
	}
	stop()
	h := check.Receive(t, all)
	if !h.over {
		t.Fatalf("%+v", h)
	}
	wantKind(t, h.err, port.Unavailable)
}

func TestEventsOfARuntimeThatHasNone(t *testing.T) {
	all := listen(dial(t, &fakeRuntime{}, nil), t.Context())
	h := check.Receive(t, all)
	if h.opened { // the refusal may come after the confirmation
		h = check.Receive(t, all)
	}
	if !h.over {
		t.Fatalf("%+v", h)
	}
	wantKind(t, h.err, port.Unsupported)
}

// TestEventsSwitchedOff: CRI-O without enable_pod_events ends the stream at once, without an error.
func TestEventsSwitchedOff(t *testing.T) {
	asked := make(chan struct{})
	f := &fakeRuntime{
		events: func(runtimeapi.RuntimeService_GetContainerEventsServer) error { return nil },
		version: func(ctx context.Context) error {
			select {
			case <-asked:
				return hang(ctx) // the end comes first
			default:
				return nil
			}
		},
	}
	c := dial(t, f, nil)
	close(asked)
	h := check.Receive(t, listen(c, t.Context()))
	if !h.over {
		t.Fatalf("%+v", h)
	}
	wantKind(t, h.err, port.Unsupported)
}

func TestEventsOfARuntimeThatDoesNotAnswer(t *testing.T) {
	silent := make(chan struct{})
	f := &fakeRuntime{
		events: func(s runtimeapi.RuntimeService_GetContainerEventsServer) error { return hang(s.Context()) },
		version: func(ctx context.Context) error {
			select {
			case <-silent:
				return hang(ctx)
			default:
				return nil
			}
		},
	}
	c := dial(t, f, func(c *Config) { c.RequestTimeout = 100_000_000 })
	close(silent)
	h := check.Receive(t, listen(c, t.Context()))
	if !h.over {
		t.Fatalf("%+v", h)
	}
	wantKind(t, h.err, port.Deadline)
}
