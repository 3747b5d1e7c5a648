package dradrivers

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/supervisor/internal/again"
)

const (
	// firstWait and lastWait are how long a connection is waited for that ended at once.
	firstWait, lastWait = 100 * time.Millisecond, 5 * time.Second
	// lasting is how long a connection lasts that did not end at once.
	lasting = 10 * time.Second
)

// ended is for connections that were made, and ended at once: gRPC itself would not wait.
var ended = backoff.Policy{Base: firstWait, Max: lastWait}

// connect begins to watch the connection to a driver. With mu.
func (d *Drivers) connect(found port.DRADriver) {
	conn, err := registry.Dial(found.Endpoint, grpc.WithConnectParams(registry.Reconnect))
	if err != nil {
		d.log.Warn().Str("driver", found.Name).Str("socket", registry.Bounded(found.Endpoint)).
			Str("error", registry.Bounded(err.Error())).Msg("cannot connect to the DRA driver")
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	i := &instance{DRADriver: found, conn: conn, cancel: cancel}
	d.instances = append(d.instances, i)
	d.all.Go(func() {
		defer conn.Close() //nolint:errcheck // nothing is left to lose
		again.Run(ctx, func() { d.keep(ctx, i) }, func(reason string) {
			d.log.Error().Str("driver", found.Name).Str("error", reason).
				Msg("panic while the connection to a DRA driver was watched; watching it again")
		})
	})
}

// keep keeps an instance connected, and says whether it is.
func (d *Drivers) keep(ctx context.Context, i *instance) {
	var tried time.Time
	short, failed := 0, false // connections in a row that ended at once; the last could not be made
	for ctx.Err() == nil {
		state := i.conn.GetState() // it may have been ready in between
		d.connected(i, state)
		if state == connectivity.TransientFailure {
			failed = true
		}
		if state == connectivity.Idle {
			wait := time.Duration(0)
			switch {
			case failed: // gRPC has waited itself
			case time.Since(tried) >= lasting:
				short = 0
			default:
				short++
				wait = backoff.Retry(ended, short)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			tried, failed = time.Now(), false
			i.conn.Connect()
		}
		changed(ctx, i.conn, state)
	}
}

// connected notes whether an instance is connected, or can't be.
func (d *Drivers) connected(i *instance, state connectivity.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i.connected, i.failed = state == connectivity.Ready, i.failed || state == connectivity.TransientFailure
	d.show(i.Name)
}

// changed waits until a connection is in another state. One that is idle may have been made and have ended meanwhile:
// it is looked at again.
func changed(ctx context.Context, conn *grpc.ClientConn, from connectivity.State) {
	if from == connectivity.Idle {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstWait)
		defer cancel()
	}
	conn.WaitForStateChange(ctx, from)
}
