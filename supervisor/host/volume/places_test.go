package volume

import (
	"context"
	"errors"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestPlaces: a pod has its places, and no other pod waits for them.
func TestPlaces(t *testing.T) {
	a := places{each: volumesApiece}
	var mine []func()
	for range volumesApiece {
		mine = append(mine, check.Value(a.take(t.Context(), "crowd"))(t))
	}
	check.Value(a.take(t.Context(), "plain"))(t)()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.take(ended, "crowd"); !errors.Is(err, context.Canceled) {
		t.Errorf("one more: %v", err)
	}
	next := make(chan func())
	go func() { next <- check.Must(a.take(context.Background(), "crowd")) }()
	mine[0]()
	mine[0] = check.Receive(t, next)
	for _, release := range mine {
		release()
	}
	check.Equal(t, len(a.of), 0, "pods that are remembered")
}
