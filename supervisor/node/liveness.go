package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
)

const (
	// answerPatience is how long one look waits for the actors. It is less than the health endpoint's.
	answerPatience = time.Second
	// stuckAfter is how long they may be silent: a machine that thrashes recovers, and the pods do not gain by a restart
	// of the agent meanwhile.
	stuckAfter = 5 * time.Minute
)

// liveness says whether the actors answer.
type liveness struct {
	// ask asks them. answered is called when all have answered, which may be never: the question may be lost with an actor
	// that crashes, so each look asks again.
	ask func(answered func())

	mu sync.Mutex
	// since is when the first question was asked that nobody has answered, nor a later one; zero if there is none.
	since time.Time
}

// check fails when the actors have been silent for stuckAfter.
func (l *liveness) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	l.mu.Lock()
	if l.since.IsZero() {
		l.since = time.Now()
	}
	l.mu.Unlock()
	got := make(chan struct{}, 1)
	l.ask(func() {
		l.mu.Lock()
		l.since = time.Time{}
		l.mu.Unlock()
		got <- struct{}{}
	})
	select {
	case <-got:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent := time.Since(l.since); !l.since.IsZero() && silent >= stuckAfter {
		return fmt.Errorf("the node, pods and podset actors have not answered for %s: see `troupe tree`",
			silent.Round(time.Second))
	}
	return nil
}

// askActors asks neither the runtime nor podview: a restart of the agent does not help a node whose runtime is down.
func (d *nodeDaemon) askActors(answered func()) {
	d.agent.Query(func(node.Health) {
		if parent, ok := kernel.Lookup[pods.Message](d.system, d.name+"/pods"); ok {
			parent.Tell(pods.List{Reply: func([]pods.Child) { d.askPodset(answered) }})
		}
	})
}

func (d *nodeDaemon) askPodset(answered func()) {
	if ref, ok := kernel.Lookup[podset.Message](d.system, d.name+"/podset"); ok {
		ref.Tell(podset.Query{Reply: func(podset.Inventory) { answered() }})
	}
}

// watchdog tells systemd that the agent lives, if it wants to know (WatchdogSec): also while it starts.
type watchdog struct {
	every time.Duration
	log   zerolog.Logger
	// check says what is wrong; nil until there is something that can be.
	check atomic.Pointer[func(context.Context) error]
}

func newWatchdog(log zerolog.Logger) *watchdog {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn().Str("error", err.Error()).Msg("the systemd watchdog is not notified")
	}
	return &watchdog{every: every / 2, log: log}
}

// watch has the notices depend on a check from now on.
func (w *watchdog) watch(check func(context.Context) error) { w.check.Store(&check) }

// run notifies at once, and then at half of the time that systemd waits, until ctx ends.
func (w *watchdog) run(ctx context.Context) {
	if w.every > 0 {
		wait.NonSlidingUntilWithContext(ctx, w.notify, w.every)
	}
}

func (w *watchdog) notify(ctx context.Context) {
	if check := w.check.Load(); check != nil {
		if err := (*check)(ctx); err != nil {
			w.log.Error().Str("error", err.Error()).Msg("health check failed: not notifying the systemd watchdog")
			return
		}
	}
	_, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog)
	if err == nil {
		return
	}
	select { // a second try
	case <-ctx.Done():
		return
	case <-time.After(time.Second):
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
		w.log.Warn().Str("error", err.Error()).Msg("cannot notify the systemd watchdog")
	}
}
