package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// clock sets the machine's clock a day on, and back to an hour before, under running pods.
func (h *host) clock(ctx context.Context) (err error) {
	defer check.Return(&err)
	before := check.Must(h.steadyIDs(ctx))
	for name, jump := range []time.Duration{24 * time.Hour, -25 * time.Hour} {
		check.OK(setClock(jump))
		if err := h.comeAndGo(ctx, fmt.Sprintf("clock%d", name)); err != nil {
			return fmt.Errorf("after the clock was set by %v: %w", jump, err)
		}
	}
	check.OK(setClock(time.Hour))
	after, err := h.steadyIDs(ctx)
	if err == nil && !slices.Equal(before, after) {
		err = fmt.Errorf("running before: %v\nafter: %v", before, after)
	}
	return err
}

func setClock(by time.Duration) error {
	at := unix.NsecToTimeval(time.Now().Add(by).UnixNano())
	if err := unix.Settimeofday(&at); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}
