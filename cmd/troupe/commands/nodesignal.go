//go:build linux && !nonode

package commands

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// untilSignal is a context that ends with the first SIGTERM or SIGINT. With the second it calls now: an agent that
// takes its time must be as easy to end as a kubelet (SetupSignalContext of k8s.io/apiserver, pkg/server/signal.go).
func untilSignal(parent context.Context, now func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals, stopped := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	rescue.Go(ctx, func() {
		for _, told := range []func(){cancel, now} {
			select {
			case <-signals:
				told()
			case <-stopped:
				return
			}
		}
	}, rescue.Answered)
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		cancel()
	}
}
