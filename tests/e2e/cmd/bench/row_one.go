package main

import (
	"context"
	"fmt"
	"time"
)

// one measures a single pod, from its manifest to its program, against the same calls made
// directly. It goes in turns of a few samples of each.
func (b *bench) one(ctx context.Context) (_ []result, err error) {
	l, err := b.lab(ctx, b.release)
	if err != nil {
		return nil, err
	}
	const turn = 5
	var floor, ours samples
	for len(floor) < b.samples {
		n := min(turn, b.samples-len(floor))
		for range n {
			s, err := b.floorBurst(ctx, l, 1, 1)
			if err != nil {
				return nil, err
			}
			floor = append(floor, s...)
		}
		if b.floor {
			continue
		}
		s, err := b.oneByOne(ctx, n)
		if err != nil {
			return nil, err
		}
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
	s, err := b.subject(ctx, b.release)
	if err != nil {
		return nil, err
	}
	defer s.end(&err)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	// The first pod of a process is among the samples: users see first pods too.
	for i := range n {
		name := fmt.Sprintf("one-%d", i)
		took, err := s.start(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, took...)
		if _, err := s.settled(ctx, name); err != nil {
			return nil, err
		}
		if err := s.checkWorld(ctx, "one pod", name); err != nil {
			return nil, err
		}
		if _, err := s.stop(ctx, name); err != nil {
			return nil, err
		}
		s.checkEmpty(ctx, "one pod, removed")
	}
	return all, nil
}
