package lab

import (
	"context"
	"fmt"
	"time"
)

// poll asks condition again and again until it holds, fails, or ctx ends.
func poll(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := condition(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Eventually polls condition for at most d. Its error says what was waited for and, if the
// condition gave one, why it did not hold the last time.
func Eventually(ctx context.Context, d time.Duration, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		last = condition()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s: not within %s: %w", what, d, last)
	}
	return nil
}
