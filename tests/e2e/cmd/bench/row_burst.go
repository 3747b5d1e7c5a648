package main

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// manyAtOnce measures many pods at once against the same calls made directly, as many at a time as is
// best on this machine.
func (b *bench) manyAtOnce(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	l := check.Must(b.lab(ctx, b.release))
	details, best := check.Must2(b.bestFloor(ctx, l))
	// The best of six is so partly by luck: it is measured again, in turns with ours.
	var floor, floorMid, total, mid, every samples
	var totalRatios, midRatios []float64
	for range b.rounds {
		s := check.Must(b.floorBurst(ctx, l, b.atOnce, best))
		floor, floorMid = append(floor, s.max()), append(floorMid, s.median())
		if b.floor {
			continue
		}
		ours := check.Must(b.oneBurst(ctx))
		total, mid, every = append(total, ours.max()), append(mid, ours.median()), append(every, ours...)
		totalRatios = append(totalRatios, ours.max().Seconds()/s.max().Seconds())
		midRatios = append(midRatios, ours.median().Seconds()/s.max().Seconds())
		b.say("  floor %s (median pod %s), troupe %s (median pod %s)", ms(s.max()), ms(s.median()), ms(ours.max()), ms(ours.median()))
	}
	details = append(details, fmt.Sprintf("floor with %d at a time, all running: %s", best, floor.quantiles()),
		"floor, the median pod of a round: "+floorMid.quantiles())
	all := result{
		what: fmt.Sprintf("%d pods at once, all running", b.atOnce), bar: "≤ 1.15 × floor",
		floor: ms(floor.median()),
	}
	median := result{
		what: fmt.Sprintf("%d pods at once, the median pod", b.atOnce), bar: "≤ 0.6 × the floor's total",
		floor: ms(floor.median()), details: details,
	}
	if !b.floor {
		// Round by round: the machine may be faster in one than in the next.
		ratio := middle(totalRatios)
		all.measured, all.ratio, all.verdict = ms(total.median()), fmt.Sprintf("%.2f ×", ratio), verdict(ratio <= 1.15)
		ratio = middle(midRatios)
		median.measured, median.ratio, median.verdict = ms(mid.median()), fmt.Sprintf("%.2f ×", ratio), verdict(ratio <= 0.6)
		median.details = append(median.details, "troupe, all running: "+total.quantiles(),
			"troupe, the median pod of a round: "+mid.quantiles(), "troupe, every pod: "+every.quantiles(),
			fmt.Sprintf("ratios, round by round: all running %.2f, the median pod %.2f", totalRatios, midRatios))
	}
	return []result{all, median}, nil
}

// bestFloor finds how many bare pods to start at a time so that all run soonest. It goes through
// the numbers more than once, so that a busy moment of the machine does not decide.
func (b *bench) bestFloor(ctx context.Context, l *lab.Lab) (details []string, best int, err error) {
	workers := []int{1, 2, 3, 4, 6, 8}
	const passes = 3
	totals, mids := map[int]samples{}, map[int]samples{}
	for range min(passes, b.rounds) {
		for _, n := range workers {
			s, err := b.floorBurst(ctx, l, b.atOnce, n)
			if err != nil {
				return nil, 0, err
			}
			totals[n], mids[n] = append(totals[n], s.max()), append(mids[n], s.median())
		}
	}
	for _, n := range workers {
		line := fmt.Sprintf("floor with %d at a time: all after %s, the median pod after %s", n, ms(totals[n].median()), ms(mids[n].median()))
		b.say("  %s", line)
		details = append(details, line)
		if best == 0 || totals[n].median() < totals[best].median() {
			best = n
		}
	}
	return details, best, nil
}

func (b *bench) oneBurst(ctx context.Context) (_ samples, err error) {
	defer check.Return(&err)
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	pods := names("burst", b.atOnce)
	took := check.Must(s.start(ctx, pods...))
	check.Must(s.settled(ctx, pods...))
	check.OK(s.checkWorld(ctx, "burst", pods...))
	check.Must(s.stop(ctx, pods...))
	s.checkEmpty(ctx, "burst, removed")
	return took, nil
}
