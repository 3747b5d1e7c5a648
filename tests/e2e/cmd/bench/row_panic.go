package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// panic measures other pods while the actor of one panics on every message.
func (b *bench) panic(ctx context.Context) (_ []result, err error) {
	if b.floor {
		return nil, nil
	}
	s, err := b.subject(ctx, b.release)
	if err != nil {
		return nil, err
	}
	defer s.end(&err)
	const sick = "sick"
	s.SetFlags("--chaos-panic-pod", "default/"+sick)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	const others = 20
	steady := names("steady", 5)
	if _, err := s.start(ctx, steady...); err != nil {
		return nil, err
	}
	usual, err := s.startStop(ctx, "usual", others, b.rounds)
	if err != nil {
		return nil, err
	}
	if err := s.Write(sick+".yaml", node.MarkPod(sick, s.marks)); err != nil {
		return nil, err
	}
	begin := time.Now()
	during, err := s.startStop(ctx, "during", others, b.rounds)
	if err != nil {
		return nil, err
	}
	var quarantined time.Duration
	const patience = 2 * time.Minute
	err = lab.Eventually(ctx, patience, "the sick pod is quarantined", func() error {
		tree, err := s.Tree(ctx)
		if err != nil {
			return err
		}
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
	after, err := s.startStop(ctx, "after", others, b.rounds)
	if err != nil {
		return nil, err
	}
	during.add(after)
	if err := s.Remove(sick + ".yaml"); err != nil {
		return nil, err
	}
	// Before and after: the machine may be faster at the end than at the beginning.
	again, err := s.startStop(ctx, "again", others, b.rounds)
	if err != nil {
		return nil, err
	}
	usual.add(again)
	view, err := s.settled(ctx, steady...)
	if err != nil {
		return nil, err
	}
	for _, name := range steady {
		if p, _ := view.Pod(name); p.Restarts != 0 {
			b.fault("panic: pod %s was restarted %d times", name, p.Restarts)
		}
	}
	if err := s.checkWorld(ctx, "panic", steady...); err != nil {
		return nil, err
	}
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
