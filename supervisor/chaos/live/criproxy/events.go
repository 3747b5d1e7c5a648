package criproxy

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Fate is what becomes of one event. The zero value is nothing special.
type Fate struct {
	// Drop: the agent never gets it.
	Drop bool
	// Twice: the agent gets it twice, one after the other.
	Twice bool
	// Delay is how much later it gets it. Later events may come before it.
	Delay time.Duration
}

// copyEvents passes the events of the runtime on, each as Config.Event says.
func (c out) copyEvents(ctx context.Context, in grpc.ServerStream) error {
	var mu sync.Mutex // a stream sends one message at a time
	var late sync.WaitGroup
	defer late.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	send := func(e *frame, times int) (err error) {
		mu.Lock()
		defer mu.Unlock()
		for range times {
			if err == nil {
				err = in.SendMsg(e)
			}
		}
		return err
	}
	return c.each(ctx, func(metadata.MD) {}, func(e *frame) error {
		event := &runtimeapi.ContainerEventResponse{}
		if err := proto.Unmarshal(e.bytes, event); err != nil {
			return err
		}
		fate, times := c.proxy.config.Event(event), 1
		if fate.Twice {
			times = 2
		}
		switch {
		case fate.Drop:
			return nil
		case fate.Delay <= 0:
			return send(e, times)
		}
		late.Go(func() {
			select {
			case <-time.After(fate.Delay):
				_ = send(e, times) // the agent may have gone
			case <-ctx.Done():
			}
		})
		return nil
	})
}
