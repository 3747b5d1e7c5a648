package simport

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

type distKind uint8

const (
	distNone distKind = iota // not set
	distConstant
	distUniform
	distLognormal
)

// Dist is a distribution of durations. Its zero value means not set, whatever the field's docstring
// says: no extra latency, no end.
type Dist struct {
	kind distKind
	// constant: a. uniform: from a to b. lognormal: median a, 99th percentile b.
	a, b time.Duration
}

// Constant is always d.
func Constant(d time.Duration) Dist { return Dist{kind: distConstant, a: d} }

// Uniform is uniformly distributed between lo and hi.
func Uniform(lo, hi time.Duration) Dist { return Dist{kind: distUniform, a: lo, b: hi} }

// Lognormal has the given median and 99th percentile; its tail is cut at four
// times the latter.
func Lognormal(median, p99 time.Duration) Dist { return Dist{kind: distLognormal, a: median, b: p99} }

// IsZero says whether the distribution is not set.
func (d Dist) IsZero() bool { return d.kind == distNone }

// Z99 is the 99th percentile of the standard normal distribution.
const Z99 = 2.3263478740408408

// Sample draws. A zero or constant distribution draws nothing from rng.
func (d Dist) Sample(rng *rand.Rand) time.Duration {
	switch d.kind {
	case distNone:
		return 0
	case distConstant:
		return d.a
	case distUniform:
		return d.a + time.Duration(rng.Int64N(int64(d.b-d.a)+1))
	case distLognormal:
		sigma := math.Log(float64(d.b)/float64(d.a)) / Z99
		v := float64(d.a) * math.Exp(sigma*rng.NormFloat64())
		return time.Duration(min(v, 4*float64(d.b)))
	default:
		panic(fmt.Sprintf("simport: distribution of kind %d", d.kind))
	}
}

// Validate rejects what Sample could not draw from.
func (d Dist) Validate() error {
	switch d.kind {
	case distNone:
		return nil
	case distConstant:
		if d.a < 0 {
			return fmt.Errorf("%v is negative", d.a)
		}
	case distUniform:
		if d.a < 0 || d.b < d.a {
			return fmt.Errorf("%v: want 0 <= from <= to", d)
		}
	case distLognormal:
		if d.a <= 0 || d.b < d.a {
			return fmt.Errorf("%v: want 0 < median <= p99", d)
		}
	default:
		return fmt.Errorf("distribution of kind %d", d.kind)
	}
	return nil
}

// String has the format of ParseDist.
func (d Dist) String() string {
	switch d.kind {
	case distConstant:
		return d.a.String()
	case distUniform:
		return d.a.String() + ".." + d.b.String()
	case distLognormal:
		return d.a.String() + "~" + d.b.String()
	default:
		return ""
	}
}

// ParseDist reads 2s (constant), 1s..3s (uniform) or 1s~3s (lognormal: median and 99th percentile),
// with the units of time.ParseDuration.
func ParseDist(s string) (Dist, error) {
	d := Dist{kind: distConstant}
	first, second, two := strings.Cut(s, "..")
	if two {
		d.kind = distUniform
	} else if first, second, two = strings.Cut(s, "~"); two {
		d.kind = distLognormal
	}
	var err error
	if d.a, err = time.ParseDuration(strings.TrimSpace(first)); err == nil && two {
		d.b, err = time.ParseDuration(strings.TrimSpace(second))
	}
	if err != nil {
		return Dist{}, fmt.Errorf("%q: want a duration such as 2s, 1s..3s or 1s~3s", s)
	}
	if err := d.Validate(); err != nil {
		return Dist{}, err
	}
	return d, nil
}
