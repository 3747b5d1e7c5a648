package suite

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestFuzzShare: go test takes each share: it refuses one of 0 s.
func TestFuzzShare(t *testing.T) {
	for _, tt := range []struct {
		minutes string
		targets int
		want    time.Duration // 0: refused
	}{
		{"60", 24, 150 * time.Second},
		{"1", 24, 3 * time.Second},
		{"0.5", 24, time.Second},
		{"0.1", 24, time.Second},
		{"0.0001", 1, time.Second},
		{"0", 24, 0},
		{"-1", 24, 0},
		{"NaN", 24, 0},
		{"Inf", 24, 0},
		{"1e9", 24, 0},
		{"ten", 24, 0},
	} {
		got, err := fuzzShare(tt.minutes, tt.targets)
		check.Equal(t, got, tt.want, "the share of %d targets of %s minutes", tt.targets, tt.minutes)
		check.Equal(t, err == nil, tt.want > 0, "%s minutes: %v: it is taken", tt.minutes, err)
	}
}
