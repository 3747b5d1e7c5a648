package node

import (
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/events"
	"github.com/troupe-dev/troupe/apiclient/kube"
	"github.com/troupe-dev/troupe/supervisor/metrics"
)

const (
	// component is the source of events: tools filter by this name.
	component     = "kubelet"
	eventDeadline = 10 * time.Second
	eventRetry    = 2 * time.Second
	// eventFlush is how long the agent writes events that still wait when it ends.
	eventFlush = 2 * time.Second
)

// recorder writes events to the apiserver, and to also. What is returned with it ends it.
func recorder(api *kube.Client, name string, also port.Recorder, lost *lostEvents) (*events.Recorder, func(), error) {
	r, err := events.New(events.Config{
		API: api, Clock: kernel.WallClock{}, Component: component, Host: name, Deadline: eventDeadline,
		Retry: eventRetry, Also: also,
		Wait: events.Wait, Dropped: lost.dropped,
	})
	if err != nil {
		return nil, nil, err
	}
	return r, func() {
		done := make(chan struct{})
		r.Flush(func() { close(done) })
		select {
		case <-done:
		case <-time.After(eventFlush):
		}
		r.Close()
		lost.sayRest()
	}, nil
}

// lostPause is the time between log lines about lost events.
const lostPause = time.Minute

// lostEvents counts events that could not be written, and logs them: the first at once, later
// ones once a minute.
type lostEvents struct {
	log   zerolog.Logger
	clock kernel.Clock
	// count is called with the reason of each loss.
	count func(why string)

	mu      sync.Mutex
	pausing bool
	more    int
	last    error
}

func (l *lostEvents) dropped(e port.Event, err error) {
	why := metrics.EventRefused
	switch {
	case errors.Is(err, events.ErrQueueFull):
		why = metrics.EventQueueFull
	case errors.Is(err, events.ErrClosed):
		why = metrics.EventAgentEnded
	}
	l.count(why)
	about := e.Node
	switch {
	case e.Pod != nil:
		about = e.Pod.Namespace + "/" + e.Pod.Name
	case e.Of != nil:
		about = e.Of.Namespace + "/" + e.Of.Name
	}
	l.log.Debug().Str("about", about).Str("reason", e.Reason).Str("error",
		err.Error()).Msg("event dropped: it was not written to the apiserver")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more, l.last = l.more+1, err
	if !l.pausing {
		l.sayLocked()
	}
}

func (l *lostEvents) sayLocked() {
	l.pausing = l.more > 0
	if !l.pausing {
		return
	}
	l.log.Warn().Int("events", l.more).Str("error",
		l.last.Error()).Msg("events were dropped: kubectl describe does not show them")
	l.more = 0
	l.clock.AfterFunc(lostPause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sayLocked()
	})
}

// sayRest is for the end of the agent.
func (l *lostEvents) sayRest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sayLocked()
}
