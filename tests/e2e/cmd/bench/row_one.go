package main

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// one measures a single pod, from its manifest to its program, against the same calls made
// directly. It goes in turns of a few samples of each.
func (b *bench) one(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	l := check.Must(b.lab(ctx, b.release))
	const turn = 5
	var floor, ours samples
	for len(floor) < b.samples {
		n := min(turn, b.samples-len(floor))
		for range n {
			s := check.Must(b.floorBurst(ctx, l, 1, 1))
			floor = append(floor, s...)
		}
		if b.floor {
			continue
		}
		s := check.Must(b.oneByOne(ctx, n))
		ours = append(ours, s...)
		b.say("  %d of %d: floor %s, troupe %s", len(floor), b.samples, ms(floor.median()), ms(ours.median()))
	}
	const bar = 100 * time.Millisecond
	r := result{
		what: "one pod, manifest written → container running", bar: "floor + 100 ms",
		floor: ms(floor.median()), details: []string{"floor: " + floor.quantiles()},
	}
	if !b.floor {
		more := ours.median() - floor.median()
		r.measured, r.ratio, r.verdict = ms(ours.median()), plus(more), verdict(more <= bar)
		r.details = append(r.details, "troupe: "+ours.quantiles())
	}
	return []result{r}, nil
}

func (b *bench) oneByOne(ctx context.Context, n int) (all samples, err error) {
	defer check.Return(&err)
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	// The first pod of a process is among the samples: users see first pods too.
	for i := range n {
		name := fmt.Sprintf("one-%d", i)
		took := check.Must(s.start(ctx, name))
		all = append(all, took...)
		check.Must(s.settled(ctx, name))
		check.OK(s.checkWorld(ctx, "one pod", name))
		check.Must(s.stop(ctx, name))
		s.checkEmpty(ctx, "one pod, removed")
	}
	return all, nil
}
