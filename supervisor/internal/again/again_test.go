package again_test

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/internal/again"
)

func TestRun(t *testing.T) {
	runs, told := 0, 0
	again.Run(t.Context(), func() {
		if runs++; runs < 3 {
			panic("no such thing")
		}
	}, func(string) { told++ })
	if runs != 3 || told != 2 {
		t.Errorf("ran %d times, told of %d panics; want 3 and 2", runs, told)
	}
}

// TestRunEnds: it does not wait for the next run when nobody wants one.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runs := 0
	again.Run(ctx, func() { runs++; panic("no such thing") }, func(string) { cancel() })
	if runs != 1 {
		t.Errorf("ran %d times, want once", runs)
	}
}
