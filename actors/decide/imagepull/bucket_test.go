package imagepull

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestBucket(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBucket(2, 3)
	for i, want := range []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond} {
		check.Equal(t, b.Turn(now).Sub(now), want, "turn %d is after", i)
	}
	now = now.Add(2 * time.Second) // three turns are taken, and one is free again
	for i, want := range []time.Duration{0, 500 * time.Millisecond} {
		check.Equal(t, b.Turn(now).Sub(now), want, "later, turn %d is after", i)
	}
	for _, b := range []Bucket{{}, NewBucket(0, 0), NewBucket(-1, 5)} {
		for range 100 {
			if got := b.Turn(now); !got.Equal(now) {
				t.Errorf("no limit: %v", got.Sub(now))
			}
		}
	}
	one := NewBucket(1, 0)
	if first, second := one.Turn(now), one.Turn(now); !first.Equal(now) || second.Sub(now) != time.Second {
		t.Errorf("a burst of 0: %v, %v", first.Sub(now), second.Sub(now))
	}
}

func TestBucketFull(t *testing.T) {
	now := time.Unix(1e9, 0)
	b := NewBucket(2, 3)
	if !b.Full(now) {
		t.Error("a new one is not full")
	}
	b.Turn(now)
	if b.Full(now.Add(499 * time.Millisecond)) {
		t.Error("it is full too early")
	}
	if !b.Full(now.Add(500*time.Millisecond)) || !(&Bucket{}).Full(now) {
		t.Error("it does not become full")
	}
}

// TestBucketHolds: within any time, no more turns come than burst + qps × time.
func TestBucketHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		qps, burst := rapid.Int32Range(1, 20).Draw(t, "qps"), rapid.Int32Range(1, 20).Draw(t, "burst")
		b, now := NewBucket(qps, burst), time.Unix(1e9, 0)
		var turns []time.Time
		for _, pause := range rapid.SliceOfN(rapid.IntRange(0, 2000), 1, 60).Draw(t, "pauses") {
			now = now.Add(time.Duration(pause) * time.Millisecond)
			turn := b.Turn(now)
			if turn.Before(now) || len(turns) > 0 && turn.Before(turns[len(turns)-1]) {
				t.Fatal("a turn is before the last, or in the past")
			}
			turns = append(turns, turn)
		}
		for i := range turns {
			for j := i; j < len(turns); j++ {
				most := float64(burst) + turns[j].Sub(turns[i]).Seconds()*float64(qps) + 1e-3
				if float64(j-i+1) > most+1 {
					t.Fatalf("%d pulls within %v", j-i+1, turns[j].Sub(turns[i]))
				}
			}
		}
	})
}
