package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// takeover kills the agent with many pods and measures how soon its successor knows them all and
// runs a new one.
func (b *bench) takeover(ctx context.Context) (_ []result, err error) {
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
	pods := names("idle", b.idle)
	if _, err := s.start(ctx, pods...); err != nil {
		return nil, err
	}
	view, err := s.settled(ctx, pods...)
	if err != nil {
		return nil, err
	}
	known := ids(view, pods)
	var listed, fresh samples
	for i := range max(3, b.rounds) {
		if err := s.Kill(ctx); err != nil {
			return nil, err
		}
		name := fmt.Sprintf("new-%d", i)
		l, f, err := s.takeOver(ctx, pods, name, known)
		if err != nil {
			return nil, err
		}
		listed, fresh = append(listed, l), append(fresh, f)
		b.say("  all listed after %s, the new pod runs after %s", ms(l), ms(f))
		if err := s.checkWorld(ctx, "takeover", append(slices.Clone(pods), name)...); err != nil {
			return nil, err
		}
		if _, err := s.stop(ctx, name); err != nil {
			return nil, err
		}
		// What is left to be tidied up would be in the next one's way.
		err = lab.Eventually(ctx, podPatience, "the new pod is gone", func() error {
			world, err := node.Look(ctx, s.lab)
			if err != nil {
				return err
			}
			return world.Of(name).Empty()
		})
		if err != nil {
			return nil, err
		}
	}
	const listedBar, freshBar = 500 * time.Millisecond, time.Second
	what := fmt.Sprintf("agent killed with %d pods, started again, ", b.idle)
	return []result{
		{
			what: what + "all listed Running with the same containers", bar: "≤ 0.5 s",
			measured: ms(listed.median()), verdict: verdict(listed.median() <= listedBar), details: []string{listed.quantiles()},
		}, {
			what: what + "a new pod runs", bar: "≤ 1 s",
			measured: ms(fresh.median()), verdict: verdict(fresh.median() <= freshBar), details: []string{fresh.quantiles()},
		},
	}, nil
}

// takeOver starts the agent with one manifest more and measures from there.
func (s *subject) takeOver(ctx context.Context, pods []string, name string, known map[string]string) (listed, fresh time.Duration, err error) {
	if _, err := s.add(name); err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := s.Launch(); err != nil {
		return 0, 0, err
	}
	var view node.View
	err = lab.Eventually(ctx, podPatience, "all pods are listed as running", func() error {
		if view, err = s.Pods(ctx); err != nil {
			return err
		}
		return allRunning(view, pods)
	})
	listed = time.Since(begin)
	if err != nil {
		return 0, 0, err
	}
	if now := ids(view, pods); !maps.Equal(now, known) {
		for _, name := range pods {
			if now[name] != known[name] {
				s.bench.fault("takeover: pod %s had containers %s and has %s", name, known[name], now[name])
			}
		}
	}
	at, err := node.AwaitMarks(ctx, podPatience, s.marks, 1, name)
	if err != nil {
		return 0, 0, err
	}
	return listed, at[0].Sub(begin), nil
}
