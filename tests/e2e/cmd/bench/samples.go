package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// samples are durations of one thing.
type samples []time.Duration

// quantile is the value below which a share q of the samples lies, by linear interpolation.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	part := at - float64(low)
	return sorted[low] + time.Duration(part*float64(sorted[high]-sorted[low]))
}

func (s samples) median() time.Duration { return s.quantile(0.5) }

func (s samples) max() time.Duration { return s.quantile(1) }

// middle is the median of ratios.
func middle(ratios []float64) float64 {
	sorted := slices.Sorted(slices.Values(ratios))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// since makes samples of points in time.
func since(begin time.Time, points []time.Time) samples {
	out := make(samples, len(points))
	for i, p := range points {
		out[i] = p.Sub(begin)
	}
	return out
}

// quantiles prints the samples for people who want to judge for themselves.
func (s samples) quantiles() string {
	var parts []string
	for _, q := range []struct {
		name string
		q    float64
	}{{"min", 0}, {"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"max", 1}} {
		parts = append(parts, q.name+" "+ms(s.quantile(q.q)))
	}
	return fmt.Sprintf("%s (n=%d)", strings.Join(parts, ", "), len(s))
}

// ms prints a duration in milliseconds, from a second up in seconds.
func ms(d time.Duration) string {
	if d >= time.Second || d <= -time.Second {
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}

// plus is a difference, with its sign.
func plus(d time.Duration) string {
	if d < 0 {
		return "−" + ms(-d)
	}
	return "+" + ms(d)
}
