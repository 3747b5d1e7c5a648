package cri

import (
	"context"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/readback"
)

// Events implements port.Runtime. A runtime sends nothing to say that the
// stream stands, not even headers, before the first event. So two calls follow
// on the same connection: when they are answered, the runtime has taken up the
// stream, or has refused it.
func (c *Client) Events(ctx context.Context, opened func(), event func(port.RuntimeEvent), done func(error)) {
	run0(c, ctx, call{"GetContainerEvents", "", none}, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := c.runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		if err != nil {
			return err
		}
		s := eventStream{opened: opened}
		confirmed := make(chan error, 1)
		go func() { confirmed <- s.confirm(ctx, cancel, c) }()

		err = s.receive(stream, event)
		s.end() // no opened from here on
		cancel()
		if refused := <-confirmed; refused != nil {
			return refused
		}
		return err
	}, done)
}

// eventStream sees to it that opened is called at most once, before the first
// event and never after the end.
type eventStream struct {
	mu     sync.Mutex
	over   bool // opened was called, or never will be
	opened func()
}

func (s *eventStream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.over = true
		s.opened()
	}
}

func (s *eventStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// confirm opens the stream when the runtime has answered calls made after it.
// If it does not answer, it ends the stream and says why.
func (s *eventStream) confirm(ctx context.Context, cancel context.CancelFunc, c *Client) error {
	for range 2 {
		err := c.answers(ctx)
		if ctx.Err() != nil {
			return nil // ended meanwhile: the stream's own error counts
		}
		if err != nil {
			cancel()
			return err
		}
	}
	s.open()
	return nil
}

func (s *eventStream) receive(
	stream runtimeapi.RuntimeService_GetContainerEventsClient, event func(port.RuntimeEvent),
) error {
	for {
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		s.open()
		if e, ok := readback.Event(got); ok {
			event(e)
		}
	}
}
