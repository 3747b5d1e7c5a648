package podspec

import (
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestSeconds(t *testing.T) {
	const most = 2147483647 * time.Second
	for n, want := range map[int64]time.Duration{
		math.MinInt64: 0, -1: 0, 0: 0, 1: time.Second, 30: 30 * time.Second, 86400: 24 * time.Hour,
		math.MaxInt32: most, math.MaxInt32 + 1: most, 9223372036: most, 9223372037: most, math.MaxInt64: most,
	} {
		check.Equal(t, Seconds(n), want, "%d s", n)
	}
	now := time.Now()
	if end := now.Add(Seconds(math.MaxInt64) + time.Hour); !end.After(now) || end.Sub(now) <= 0 {
		t.Errorf("its end is %v", end)
	}
}

func TestGrace(t *testing.T) {
	pod := func(n *int64) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: n}} }
	for _, c := range []struct {
		seconds *int64
		want    time.Duration
	}{{nil, 30 * time.Second}, {new(int64(0)), 0}, {new(int64(-1)), 0}, {new(int64(5)), 5 * time.Second}, {new(int64(math.MaxInt64)), Seconds(math.MaxInt32)}} {
		check.Equal(t, Grace(pod(c.seconds)), c.want, "it")
	}
}
