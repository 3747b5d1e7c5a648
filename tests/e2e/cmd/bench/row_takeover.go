package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// takeover kills the agent with many pods and measures how soon its successor knows them all and
// runs a new one.
func (b *bench) takeover(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	if b.floor {
		return nil, nil
	}
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	pods := names("idle", b.idle)
	check.Must(s.start(ctx, pods...))
	view := check.Must(s.settled(ctx, pods...))
	known := ids(view, pods)
	var listed, fresh samples
	for i := range max(3, b.rounds) {
		check.OK(s.Kill(ctx))
		name := fmt.Sprintf("new-%d", i)
		l, f := check.Must2(s.takeOver(ctx, pods, name, known))
		listed, fresh = append(listed, l), append(fresh, f)
		b.say("  all listed after %s, the new pod runs after %s", ms(l), ms(f))
		check.OK(s.checkWorld(ctx, "takeover", append(slices.Clone(pods), name)...))
		check.Must(s.stop(ctx, name))
		// What is left to be tidied up would be in the next one's way.
		err = lab.Eventually(ctx, podPatience, "the new pod is gone", func() error {
			world := check.Must(node.Look(ctx, s.lab))
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
	defer check.Return(&err)
	check.Must(s.add(name))
	begin := time.Now()
	check.OK(s.Launch())
	var view node.View
	err = lab.Eventually(ctx, podPatience, "all pods are listed as running", func() error {
		view = check.Must(s.Pods(ctx))
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
	at := check.Must(node.AwaitMarks(ctx, podPatience, s.marks, 1, name))
	return listed, at[0].Sub(begin), nil
}
