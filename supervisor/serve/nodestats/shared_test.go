package nodestats

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestShared: a hundred who ask cost one reading, and the next is not begun before as much time has passed as it took.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings, takes := 0, 4*time.Second
		s := shared{source: func(ctx context.Context, _ Depth) (usage.Node, []usage.Pod, error) {
			readings++
			select {
			case <-time.After(takes):
				return usage.Node{Name: "n"}, []usage.Pod{{Name: "web"}}, errors.New("a volume is missing")
			case <-ctx.Done():
				return usage.Node{}, nil, ctx.Err()
			}
		}}
		ask := func(ctx context.Context, depth Depth, want string) {
			n, pods, err := s.read(ctx, depth)
			check.Says(t, err, want, "the reading")
			if ctx.Err() == nil {
				check.Equal(t, n.Name+pods[0].Name, "nweb", "what was read")
			}
		}
		const partly = "a volume is missing"
		first, leave := context.WithCancel(t.Context())
		go ask(first, Disks, partly)
		synctest.Wait()
		for range 100 {
			go ask(t.Context(), Disks, partly)
		}
		time.Sleep(time.Second)
		leave() // the others still get it
		time.Sleep(3 * time.Second)
		synctest.Wait()
		check.Equal(t, readings, 1, "readings for 101 who ask")
		time.Sleep(3 * time.Second)
		ask(t.Context(), Disks, partly)
		check.Equal(t, readings, 1, "readings until it is as old as it took")
		ask(t.Context(), Basic, partly)
		check.Equal(t, readings, 2, "readings, of another depth")
		ask(t.Context(), Disks, partly)
		check.Equal(t, readings, 3, "readings after that")
		takes = 0
		time.Sleep(time.Minute)
		for range 2 {
			ask(t.Context(), Basic, partly)
		}
		check.Equal(t, readings, 5, "readings that take nothing")
	})
}

// TestSharedPanic: one that panics takes nobody with it.
func TestSharedPanic(t *testing.T) {
	panics := true
	s := shared{source: func(context.Context, Depth) (usage.Node, []usage.Pod, error) {
		if panics {
			panic("on purpose")
		}
		return usage.Node{}, nil, nil
	}}
	func() {
		defer func() { check.Equal(t, recover(), any("on purpose"), "what the reader is left with") }()
		s.read(t.Context(), Basic) //nolint:errcheck // it panics
	}()
	panics = false
	_, _, err := s.read(t.Context(), Basic)
	check.Fatal(t, err)
}
