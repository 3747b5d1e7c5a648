package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// victim is a pod one of whose calls hangs.
type victim struct {
	method string
	// ending: the call is one of those that end the pod.
	ending bool
	image  string
	rule   *criproxy.Rule
}

func (v *victim) name() string { return "hung-" + strings.ToLower(v.method) }

const unpulledImage = "troupe.local/demo/unpulled:v1"

func victims() []*victim {
	return []*victim{
		{method: "RunPodSandbox"}, {method: "PodSandboxStatus"}, {method: "PullImage", image: unpulledImage},
		{method: "CreateContainer"}, {method: "StartContainer"}, {method: "ContainerStatus"},
		{method: "ExecSync", ending: true}, {method: "StopContainer", ending: true},
		{method: "StopPodSandbox", ending: true}, {method: "RemovePodSandbox", ending: true},
		{method: "RemoveContainer", ending: true},
	}
}

// hungAtLeast is how many of the victims' calls must hang: not every agent makes every call of
// them for every pod.
const hungAtLeast = 10

// hung measures how other pods start and stop while calls of some pods hang, each in another RPC.
func (b *bench) hung(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	if b.floor {
		return nil, nil
	}
	l := check.Must(b.lab(ctx, b.release))
	image := check.Must(lab.ProgramImage(ctx, b.repository, "work"))
	check.OK(b.registry.Push(ctx, unpulledImage, image))
	proxy, err := criproxy.Start(criproxy.Config{Socket: filepath.Join(b.dir, "proxy.sock"), Target: l.SocketPath()})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	s := check.Must(b.subject(ctx, b.release))
	defer s.end(&err)
	s.SetEndpoint(proxy.Endpoint())
	check.OK(s.Start(ctx))

	const others = 20
	usual := check.Must(s.startStop(ctx, "usual", others, b.rounds))
	all := victims()
	check.OK(s.hang(ctx, proxy, all))
	during := check.Must(s.startStop(ctx, "during", others, b.rounds))
	hanging, shown := check.Must2(s.hangingShown(ctx, all))
	check.OK(s.release(ctx, all))
	// Before and after: the machine may be faster at the end than at the beginning.
	again := check.Must(s.startStop(ctx, "again", others, b.rounds))
	usual.add(again)

	ratioStart := during.starts.median().Seconds() / usual.starts.median().Seconds()
	ratioStop := during.stops.median().Seconds() / usual.stops.median().Seconds()
	what := fmt.Sprintf("calls of %d pods hang, each in another RPC: %d other pods ", len(hanging), others)
	return []result{
		{
			what: what + "start", bar: "≤ 1.2 × usual", floor: ms(usual.starts.median()) + " (usual)",
			measured: ms(during.starts.median()), ratio: fmt.Sprintf("%.2f ×", ratioStart), verdict: verdict(ratioStart <= 1.2),
			details: []string{"usual: " + usual.starts.quantiles(), "while calls hang: " + during.starts.quantiles(), "hung: " + strings.Join(hanging, ", ")},
		}, {
			what: what + "stop", bar: "≤ 1.2 × usual", floor: ms(usual.stops.median()) + " (usual)",
			measured: ms(during.stops.median()), ratio: fmt.Sprintf("%.2f ×", ratioStop), verdict: verdict(ratioStop <= 1.2),
			details: []string{"usual: " + usual.stops.quantiles(), "while calls hang: " + during.stops.quantiles()},
		}, {
			what: "each hung call and its age in the tree", bar: fmt.Sprintf("all %d", len(hanging)),
			measured: fmt.Sprintf("%d", len(shown)), verdict: verdict(len(shown) == len(hanging) && len(hanging) >= hungAtLeast),
			details: []string{"shown: " + strings.Join(shown, ", ")},
		},
	}, nil
}

// startsAndStops are how long it took, each round, until all pods ran and until all were gone.
type startsAndStops struct{ starts, stops samples }

func (a *startsAndStops) add(b startsAndStops) {
	a.starts, a.stops = append(a.starts, b.starts...), append(a.stops, b.stops...)
}

func (s *subject) startStop(ctx context.Context, prefix string, n, rounds int) (all startsAndStops, err error) {
	defer check.Return(&err)
	for i := range rounds {
		pods := names(fmt.Sprintf("%s-%d", prefix, i), n)
		took := check.Must(s.start(ctx, pods...))
		check.Must(s.settled(ctx, pods...))
		check.OK(s.checkWorld(ctx, prefix, pods...))
		stopped := check.Must(s.stop(ctx, pods...))
		all.starts, all.stops = append(all.starts, took.max()), append(all.stops, stopped)
		s.bench.say("  %s: %d pods run after %s, are gone after %s", prefix, n, ms(took.max()), ms(stopped))
	}
	return all, nil
}

// hang starts the victims that are to end badly, injects the faults, starts the others and stops
// these, and waits until the calls hang.
func (s *subject) hang(ctx context.Context, proxy *criproxy.Proxy, all []*victim) (err error) {
	defer check.Return(&err)
	for _, v := range all {
		manifest := node.MarkPod(v.name(), s.marks)
		if v.image != "" {
			manifest = strings.Replace(manifest, lab.WorkImage, v.image, 1)
		}
		if v.method == "ExecSync" { // a hook hangs no longer than the grace period
			manifest = strings.Replace(manifest, "terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: 600", 1)
			manifest = strings.Replace(manifest, "      volumeMounts:", "      lifecycle:\n        preStop: {exec: {command: [/work, print, bye]}}\n      volumeMounts:", 1)
		}
		fault := criproxy.Fault{Method: v.method, Match: criproxy.OfPod(v.name()), Do: criproxy.Hold}
		if v.image != "" {
			fault.Match = criproxy.OfImage(v.image)
		}
		var err error
		if v.ending {
			check.OK(s.Write(v.name()+".yaml", manifest))
			check.Must(node.AwaitMarks(ctx, podPatience, s.marks, 1, v.name()))
			check.Must(s.settled(ctx, v.name()))
			if v.rule, err = proxy.Inject(fault); err == nil {
				err = s.Remove(v.name() + ".yaml")
			}
		} else if v.rule, err = proxy.Inject(fault); err == nil {
			err = s.Write(v.name()+".yaml", manifest)
		}
		if err != nil {
			return err
		}
	}
	waiting := func() (n int, missing []string) {
		for _, v := range all {
			if v.rule.Waiting() > 0 {
				n++
			} else {
				missing = append(missing, v.method)
			}
		}
		return n, missing
	}
	const patience = 20 * time.Second
	err = lab.Eventually(ctx, patience, "calls hang", func() error {
		n, missing := waiting()
		return check.That(n >= len(all), "%d do, without %v", n, missing)
	})
	if n, missing := waiting(); err != nil && n >= hungAtLeast {
		s.bench.say("  %d calls hang; the agent does not make these for a pod: %v", n, missing)
		err = nil
	}
	return err
}

// hangingShown says whose calls hang, and which of these the tree shows.
func (s *subject) hangingShown(ctx context.Context, all []*victim) (hanging, shown []string, err error) {
	tree, err := s.Tree(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range all {
		if v.rule.Waiting() == 0 {
			continue
		}
		hanging = append(hanging, v.method)
		for _, a := range tree.Actors {
			at := slices.IndexFunc(a.Effects, func(e node.Effect) bool {
				return strings.EqualFold(e.Kind, v.method) && time.Since(e.Since) > time.Second
			})
			if at >= 0 {
				e := a.Effects[at]
				shown = append(shown, fmt.Sprintf("%s %s for %s", e.Kind, e.Object, ms(time.Since(e.Since))))
				break
			}
		}
	}
	return hanging, shown, nil
}

// release lets the hung calls go and sees that each pod comes to what it should be, once.
func (s *subject) release(ctx context.Context, all []*victim) (err error) {
	defer check.Return(&err)
	var stay []string
	for _, v := range all {
		v.rule.Release()
		if !v.ending {
			stay = append(stay, v.name())
		}
	}
	for _, v := range all {
		check.OK(v.rule.Settle(ctx))
	}
	check.Must(node.AwaitMarks(ctx, podPatience, s.marks, 1, stay...))
	check.Must(s.settled(ctx, stay...))
	check.OK(s.checkWorld(ctx, "after hung calls were answered", stay...))
	err = lab.Eventually(ctx, podPatience, "only the pods that are wanted are left", func() error {
		world, err := node.Look(ctx, s.lab)
		if err == nil && len(world.Sandboxes) != len(stay) {
			err = fmt.Errorf("%d sandboxes for %d pods: %v", len(world.Sandboxes), len(stay), world.Empty())
		}
		return err
	})
	if err != nil {
		s.bench.fault("after hung calls were answered: %v", err)
	}
	check.Must(s.stop(ctx, stay...))
	s.checkEmpty(ctx, "hung, all removed")
	return nil
}
