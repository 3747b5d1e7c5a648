package cri

import (
	"context"
	"errors"
	"io"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/cri/readback"
)

// Events implements port.Runtime. A runtime does not confirm the stream before the first event,
// not even by headers. So two more calls are made on the same connection: once they are answered,
// the runtime has opened or refused the stream.
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
		rescue.Go(ctx, func() { confirmed <- s.confirm(ctx, cancel, c) }, func(reason string) {
			cancel()
			confirmed <- errors.New(reason)
		})

		err = s.receive(stream, event)
		if !s.end() && errors.Is(err, io.EOF) { // CRI-O without enable_pod_events
			err = &port.Error{Kind: port.Unsupported, Detail: "the runtime ended the stream at once"}
		}
		cancel()
		if refused := <-confirmed; refused != nil {
			return refused
		}
		return err
	}, done)
}

// eventStream calls opened at most once, before the first event and never after the end.
type eventStream struct {
	mu     sync.Mutex
	over   bool // opened was called, or must not be called any more
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

// end prevents a later opened. It says whether there was one.
func (s *eventStream) end() (opened bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	opened, s.over = s.over, true
	return opened
}

// confirm opens the stream when the runtime has answered later calls. Without an answer it ends
// the stream with the error.
func (s *eventStream) confirm(ctx context.Context, cancel context.CancelFunc, c *Client) error {
	for range 2 {
		err := c.answers(ctx)
		if ctx.Err() != nil {
			return nil // the stream has ended: its own error counts
		}
		if err != nil {
			cancel()
			return err
		}
	}
	s.open()
	return nil
}

// answers asks whether the runtime answers.
func (c *Client) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.deadlines.ask())
	defer cancel()
	_, err := c.version(ctx)
	return err
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
