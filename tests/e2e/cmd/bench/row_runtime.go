package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// runtime kills the runtime under running pods, starts it again, and measures how soon a new pod
// runs.
func (b *bench) runtime(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	if b.floor {
		return nil, nil
	}
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	pods := names("under", b.atOnce)
	check.Must(s.start(ctx, pods...))
	check.Must(s.settled(ctx, pods...))
	before := check.Must(node.Look(ctx, s.lab))
	var fresh samples
	for i := range b.rounds {
		check.OK(s.lab.Kill(ctx))
		check.OK(s.lab.Start(ctx))
		begin := time.Now()
		name := fmt.Sprintf("new-%d", i)
		check.Must(s.add(name))
		at := check.Must(node.AwaitMarks(ctx, podPatience, s.marks, 1, name))
		fresh = append(fresh, since(begin, at)...)
		check.Must(s.settled(ctx, append(slices.Clone(pods), name)...))
		check.OK(s.checkWorld(ctx, "runtime restarted", append(slices.Clone(pods), name)...))
		check.Must(s.stop(ctx, name))
	}
	after := check.Must(node.Look(ctx, s.lab))
	same := slices.Equal(before.RunningIDs(), after.RunningIDs())
	if !same {
		b.fault("runtime restarted: what ran was\n%v\nand is\n%v", before.RunningIDs(), after.RunningIDs())
	}
	check.Must(s.stop(ctx, pods...))
	s.checkEmpty(ctx, "runtime restarted, all removed")
	return []result{{
		what: fmt.Sprintf("runtime killed and restarted under %d pods", b.atOnce), bar: "no pod lost or doubled",
		measured: "a new pod runs " + ms(fresh.median()) + " after the runtime is back", verdict: verdict(same),
		details: []string{"new pod: " + fresh.quantiles()},
	}}, nil
}
