package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// panic measures other pods while the actor of one panics on every message.
func (b *bench) panic(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	if b.floor {
		return nil, nil
	}
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	const sick = "sick"
	s.SetFlags("--chaos-panic-pod", "default/"+sick)
	check.OK(s.Start(ctx))
	const others = 20
	steady := names("steady", 5)
	check.Must(s.start(ctx, steady...))
	usual := check.Must(s.startStop(ctx, "usual", others, b.rounds))
	check.OK(s.Write(sick+".yaml", node.MarkPod(sick, s.marks)))
	begin := time.Now()
	during := check.Must(s.startStop(ctx, "during", others, b.rounds))
	var quarantined time.Duration
	const patience = 2 * time.Minute
	err = lab.Eventually(ctx, patience, "the sick pod is quarantined", func() error {
		tree := check.Must(s.Tree(ctx))
		for _, a := range tree.Actors {
			if strings.Contains(strings.ToLower(a.Status), "quarantin") {
				quarantined = time.Since(begin)
				return nil
			}
		}
		return fmt.Errorf("no actor is")
	})
	if err != nil {
		b.fault("panic: %v", err)
	}
	after := check.Must(s.startStop(ctx, "after", others, b.rounds))
	during.add(after)
	check.OK(s.Remove(sick + ".yaml"))
	// Before and after: the machine may be faster at the end than at the beginning.
	again := check.Must(s.startStop(ctx, "again", others, b.rounds))
	usual.add(again)
	view := check.Must(s.settled(ctx, steady...))
	for _, name := range steady {
		if p, _ := view.Pod(name); p.Restarts != 0 {
			b.fault("panic: pod %s was restarted %d times", name, p.Restarts)
		}
	}
	check.OK(s.checkWorld(ctx, "panic", steady...))
	ratioStart := during.starts.median().Seconds() / usual.starts.median().Seconds()
	ratioStop := during.stops.median().Seconds() / usual.stops.median().Seconds()
	r := result{
		what:  fmt.Sprintf("a pod's actor panics on every message: %d other pods start / stop", others),
		bar:   "unchanged, none restarted, that pod quarantined",
		floor: ms(usual.starts.median()) + " / " + ms(usual.stops.median()) + " (usual)", measured: ms(during.starts.median()) + " / " + ms(during.stops.median()),
		// Unchanged is what noise of the machine allows.
		ratio: fmt.Sprintf("%.2f × / %.2f ×", ratioStart, ratioStop), verdict: verdict(quarantined > 0 && ratioStart <= 1.1 && ratioStop <= 1.1),
		details: []string{
			"starts, usual: " + usual.starts.quantiles(), "starts, while that actor panics: " + during.starts.quantiles(),
			"stops, usual: " + usual.stops.quantiles(), "stops, while that actor panics: " + during.stops.quantiles(),
		},
	}
	return []result{r}, nil
}
