package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// clock sets the machine's clock a day on, and back to an hour before, under running pods.
func (h *host) clock(ctx context.Context) error {
	before, err := h.steadyIDs(ctx)
	if err != nil {
		return err
	}
	for name, jump := range []time.Duration{24 * time.Hour, -25 * time.Hour} {
		if err := setClock(jump); err != nil {
			return err
		}
		if err := h.comeAndGo(ctx, fmt.Sprintf("clock%d", name)); err != nil {
			return fmt.Errorf("after the clock was set by %v: %w", jump, err)
		}
	}
	if err := setClock(time.Hour); err != nil {
		return err
	}
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
