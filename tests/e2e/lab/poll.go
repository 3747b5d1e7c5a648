package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	// pollSoon is the time between two looks at first, pollLate the longest later.
	pollSoon, pollLate = 20 * time.Millisecond, 500 * time.Millisecond
	// pollRest is how many times as long as a look the pause after it is, while that is less than pollLate: looks shall
	// not be what keeps the machine busy.
	pollRest = 10
)

// pollPause is the time until the next look: the last one took so long, and the first one was so long ago.
func pollPause(took, since time.Duration) time.Duration {
	return min(max(pollSoon, pollRest*took, since/50), max(pollLate, took))
}

// poll asks condition again and again until it holds, fails, or ctx ends.
func poll(ctx context.Context, condition func() (bool, error)) error {
	begin := time.Now()
	for {
		look := time.Now()
		if done, err := condition(); done || err != nil {
			return err
		}
		pause := time.NewTimer(pollPause(time.Since(look), time.Since(begin)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
	}
}

// Eventually polls condition for at most d. Its error says what was waited for and, if the
// condition gave one, why it did not hold the last time. check.OK may end the condition.
func Eventually(ctx context.Context, d time.Duration, what string, condition func() error) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		last = check.Try(condition)
		return last == nil, nil
	})
	if err != nil {
		return notWithin(what, begun, last)
	}
	return nil
}

// notWithin is the error of a wait that ended at its own limit, or before that with the test.
func notWithin(what string, begun time.Time, last error) error {
	return fmt.Errorf("%s: not within %s: %w", what, time.Since(begun).Round(time.Second), last)
}
