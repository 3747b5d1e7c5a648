package shared

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestReading: a hundred who ask cost one reading, and the next is not begun before as much time has passed as it took.
func TestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, takes := 0, 4*time.Second
		s := Reading[string]{Read: func(ctx context.Context) (string, error) {
			readings++
			select {
			case <-time.After(takes):
				return "web", errors.New("a volume is missing")
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
		ask := func(ctx context.Context) {
			got, err := s.Get(ctx)
			check.Says(t, err, "a volume is missing", "the reading")
			if ctx.Err() == nil {
				check.Equal(t, got, "web", "what was read")
			}
		}
		first, leave := context.WithCancel(t.Context())
		go ask(first)
		synctest.Wait()
		for range 100 {
			go ask(t.Context())
		}
		time.Sleep(time.Second)
		leave() // the others still get it
		time.Sleep(3 * time.Second)
		synctest.Wait()
		check.Equal(t, readings, 1, "readings for 101 who ask")
		time.Sleep(3 * time.Second)
		ask(t.Context())
		check.Equal(t, readings, 1, "readings until it is as old as it took")
		time.Sleep(time.Minute)
		takes = 0
		for range 2 {
			ask(t.Context())
		}
		check.Equal(t, readings, 3, "readings that take nothing")
	})
}

// TestPanic: one that panics takes nobody with it.
func TestPanic(t *testing.T) {
	panics := true
	s := Reading[int]{Read: func(context.Context) (int, error) {
		if panics {
			panic("on purpose")
		}
		return 0, nil
	}}
	func() {
		defer func() { check.Equal(t, recover(), any("on purpose"), "what the reader is left with") }()
		s.Get(t.Context()) //nolint:errcheck // it panics
	}()
	panics = false
	_, err := s.Get(t.Context())
	check.Fatal(t, err)
}
