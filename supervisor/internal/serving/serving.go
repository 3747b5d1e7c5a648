// Package serving runs servers until their ctx ends.
package serving

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// Until calls serve. When ctx ends it calls end, which makes serve return, waits for that, and returns nil. If serve
// returns or panics before, it returns its error.
func Until(ctx context.Context, serve func() error, end func()) error {
	ended := make(chan error, 1)
	rescue.Go(ctx, func() { ended <- serve() }, func(reason string) { ended <- errors.New(reason) })
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		end()
		<-ended //nolint:errcheck // it was told to end
		return nil
	}
}

// HTTP is Until for a server of HTTP, whose requests may go on for grace when ctx ends.
func HTTP(ctx context.Context, s *http.Server, grace time.Duration, serve func() error) error {
	return Until(ctx, serve, func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if s.Shutdown(limited) != nil {
			s.Close() //nolint:errcheck // it ends all the same
		}
	})
}
