package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// feed is a watch that survives its connection. The apiserver closes the watch of a client that
// reads too slowly, and on two cores that run a hundred pods the bench is slow at times.
type feed struct {
	events *watchtools.RetryWatcher
	done   chan struct{}
}

// watchFrom calls hear with each event after the given version, and with when it came, until stop.
func watchFrom(ctx context.Context, version string, begin func(context.Context, metav1.ListOptions) (watch.Interface, error), hear func(time.Time, watch.Event)) (*feed, error) {
	ctx = context.WithoutCancel(ctx)
	events, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: begin})
	if err != nil {
		return nil, fmt.Errorf("watch from version %s: %w", version, err)
	}
	f := &feed{events: events, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for e := range events.ResultChan() {
			hear(time.Now(), e)
		}
	}()
	return f, nil
}

func (f *feed) stop() {
	f.events.Stop()
	<-f.done
}
