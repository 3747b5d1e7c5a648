package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// runtime kills the runtime under running pods, starts it again, and measures how soon a new pod
// runs.
func (b *bench) runtime(ctx context.Context) (_ []result, err error) {
	if b.floor {
		return nil, nil
	}
	s, err := b.subject(ctx, b.release)
	if err != nil {
		return nil, err
	}
	defer s.end(&err)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	pods := names("under", b.atOnce)
	if _, err := s.start(ctx, pods...); err != nil {
		return nil, err
	}
	if _, err := s.settled(ctx, pods...); err != nil {
		return nil, err
	}
	before, err := node.Look(ctx, s.lab)
	if err != nil {
		return nil, err
	}
	var fresh samples
	for i := range b.rounds {
		if err := s.lab.Kill(ctx); err != nil {
			return nil, err
		}
		if err := s.lab.Start(ctx); err != nil {
			return nil, err
		}
		begin := time.Now()
		name := fmt.Sprintf("new-%d", i)
		if _, err := s.add(name); err != nil {
			return nil, err
		}
		at, err := node.AwaitMarks(ctx, podPatience, s.marks, 1, name)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, since(begin, at)...)
		if _, err := s.settled(ctx, append(slices.Clone(pods), name)...); err != nil {
			return nil, err
		}
		if err := s.checkWorld(ctx, "runtime restarted", append(slices.Clone(pods), name)...); err != nil {
			return nil, err
		}
		if _, err := s.stop(ctx, name); err != nil {
			return nil, err
		}
	}
	after, err := node.Look(ctx, s.lab)
	if err != nil {
		return nil, err
	}
	same := slices.Equal(before.RunningIDs(), after.RunningIDs())
	if !same {
		b.fault("runtime restarted: what ran was\n%v\nand is\n%v", before.RunningIDs(), after.RunningIDs())
	}
	if _, err := s.stop(ctx, pods...); err != nil {
		return nil, err
	}
	s.checkEmpty(ctx, "runtime restarted, all removed")
	return []result{{
		what: fmt.Sprintf("runtime killed and restarted under %d pods", b.atOnce), bar: "no pod lost or doubled",
		measured: "a new pod runs " + ms(fresh.median()) + " after the runtime is back", verdict: verdict(same),
		details: []string{"new pod: " + fresh.quantiles()},
	}}, nil
}
