package simcri

import (
	"time"

	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Dist is a distribution of durations.
type Dist = simport.Dist

// Constant is always d.
func Constant(d time.Duration) Dist { return simport.Constant(d) }

// Uniform is anything between lo and hi alike.
func Uniform(lo, hi time.Duration) Dist { return simport.Uniform(lo, hi) }

// Lognormal has the given median and 99th percentile.
func Lognormal(median, p99 time.Duration) Dist { return simport.Lognormal(median, p99) }

// ParseDist reads 2s, 1s..3s or 1s~3s.
func ParseDist(s string) (Dist, error) { return simport.ParseDist(s) }
