package report

import (
	"math"
	"time"
)

// niceSteps are the distances that marks on an axis of time may have, below a day.
var niceSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// niceStep is the least readable distance that is not less than d.
func niceStep(d time.Duration) time.Duration {
	if d <= time.Second {
		return time.Duration(nice(float64(d)))
	}
	for _, s := range niceSteps {
		if s >= d {
			return s
		}
	}
	const day = 24 * time.Hour
	return time.Duration(nice(float64(d)/float64(day)) * float64(day))
}

// nice is the least of 1, 2, 5, 10, 20, 50, … that is not less than x.
func nice(x float64) float64 {
	if x <= 1 {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*ten >= x {
			return m * ten
		}
	}
	return 10 * ten
}

// tick is a mark on an axis.
type tick struct {
	// At is its place, in per cent from the left or from the top.
	At   float64
	Text string
	// Title is the whole text, where Text is cut short.
	Title string
	// Minor ones are left out where there is little room.
	Minor bool
}

// timeTicks are at most nine marks on an axis from 0 to end, which is positive.
func timeTicks(end time.Duration, text func(time.Duration) string) []tick {
	if end <= 0 {
		return nil
	}
	step := niceStep((end + 7) / 8)
	var ticks []tick
	for i := 0; time.Duration(i)*step <= end; i++ {
		at := time.Duration(i) * step
		ticks = append(ticks, tick{At: percent(at, end), Text: text(at), Minor: i%2 == 1})
	}
	return ticks
}

// countTicks are marks from 0 to top, which is not less than most.
func countTicks(most float64) (top float64, ticks []tick) {
	most = round(most) // a sum of shares may be more than the whole by a trifle
	step := nice(most / 5)
	top = step * math.Max(1, math.Ceil(most/step))
	for n := 0.0; n <= top; n += step {
		ticks = append(ticks, tick{At: round(100 - 100*n/top), Text: axisCount(n)})
	}
	return top, ticks
}

// axis says where on it a latency is.
type axis struct {
	log      bool
	from, to time.Duration
}

// at is the place of d in per cent, within the axis.
func (a axis) at(d time.Duration) float64 {
	d = min(max(d, a.from), a.to)
	if a.log {
		return round(100 * math.Log(float64(d)/float64(a.from)) / math.Log(float64(a.to)/float64(a.from)))
	}
	return percent(d-a.from, a.to-a.from)
}

// ticks of an axis of latencies.
func (a axis) ticks() []tick {
	if !a.log {
		return timeTicks(a.to, span)
	}
	var ticks []tick
	steps := []time.Duration{1, 2, 5}
	if a.to/a.from > 2000 {
		steps = steps[:1]
	}
	for ten := time.Millisecond; ten <= a.to && ten > 0; ten *= 10 {
		for _, m := range steps {
			if d := m * ten; d >= a.from && d <= a.to {
				ticks = append(ticks, tick{At: a.at(d), Text: span(d)})
			}
		}
	}
	for i := range ticks {
		ticks[i].Minor = len(ticks) > 5 && i%2 == 1
	}
	return ticks
}

func percent(d, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return round(100 * float64(d) / float64(of))
}

// round to a precision that is finer than any screen.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
