package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// restart measures how soon a container that was killed runs again, with runtime events and
// without, beyond the create and start of the runtime.
func (b *bench) restart(ctx context.Context) ([]result, error) {
	var all []result
	for _, release := range []lab.Release{lab.Containerd2, lab.Containerd1} {
		r, err := b.restartOn(ctx, release)
		if err != nil {
			return all, fmt.Errorf("on containerd %s: %w", release, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func (b *bench) restartOn(ctx context.Context, release lab.Release) (r result, err error) {
	l, err := b.lab(ctx, release)
	if err != nil {
		return r, err
	}
	const pods = 10
	floor, err := b.floorRestarts(ctx, l, pods)
	if err != nil {
		return r, err
	}
	bar := 100 * time.Millisecond
	r = result{
		what: "container killed → running again, with events (containerd 2)", bar: "floor + 100 ms",
		floor: ms(floor.median()), details: []string{"floor, create and start: " + floor.quantiles()},
	}
	if !release.HasEvents() {
		bar = 1200 * time.Millisecond
		r.what, r.bar = "container killed → running again, without events (containerd 1.6)", "≤ 1.2 s"
	}
	if b.floor {
		return r, nil
	}
	ours, err := b.restarts(ctx, release, names("crash", pods))
	if err != nil {
		return r, err
	}
	more := ours.median() - floor.median()
	r.measured, r.ratio = ms(ours.median()), plus(more)
	r.details = append(r.details, "troupe: "+ours.quantiles())
	if release.HasEvents() {
		r.verdict = verdict(more <= bar)
	} else {
		r.verdict = verdict(ours.median() <= bar)
	}
	return r, nil
}

// floorRestarts creates and starts a second container in a sandbox whose first was killed.
func (b *bench) floorRestarts(ctx context.Context, l *lab.Lab, n int) (samples, error) {
	marks, err := b.marks()
	if err != nil {
		return nil, err
	}
	var all samples
	for _, name := range names("floor", n) {
		p, err := newBare(l, name, marks)
		if err != nil {
			return nil, err
		}
		if err := p.run(ctx, l); err != nil {
			return nil, err
		}
		if _, err := node.AwaitMarks(ctx, podPatience, marks, 1, name); err != nil {
			return nil, err
		}
		if err := killContainer(ctx, l, name); err != nil {
			return nil, err
		}
		begin := time.Now()
		if err := p.container(ctx, l, 1); err != nil {
			return nil, err
		}
		at, err := node.AwaitMarks(ctx, podPatience, marks, 2, name)
		if err != nil {
			return nil, err
		}
		all = append(all, since(begin, at)...)
	}
	return all, b.wipe(ctx, l)
}

// killContainer kills the one running container of a pod from outside and waits until the runtime
// knows.
func killContainer(ctx context.Context, l *lab.Lab, name string) error {
	if _, err := killProcess(ctx, l, name); err != nil {
		return err
	}
	return lab.Eventually(ctx, podPatience, "the runtime sees that the container is dead", func() error {
		world, err := node.Look(ctx, l)
		if err == nil && len(world.Of(name).Running()) > 0 {
			err = fmt.Errorf("it runs")
		}
		return err
	})
}

// killProcess kills the process of a pod's one running container and tells when.
func killProcess(ctx context.Context, l *lab.Lab, name string) (time.Time, error) {
	world, err := node.Look(ctx, l)
	if err != nil {
		return time.Time{}, err
	}
	running := world.Of(name).Running()
	if len(running) != 1 {
		return time.Time{}, fmt.Errorf("pod %s has %d running containers; want one", name, len(running))
	}
	pid, err := node.ContainerPID(ctx, l, running[0].Id)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	return at, syscall.Kill(pid, syscall.SIGKILL)
}

func (b *bench) restarts(ctx context.Context, release lab.Release, pods []string) (all samples, err error) {
	s, err := b.subject(ctx, release)
	if err != nil {
		return nil, err
	}
	defer s.end(&err)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	if _, err := s.start(ctx, pods...); err != nil {
		return nil, err
	}
	if _, err := s.settled(ctx, pods...); err != nil {
		return nil, err
	}
	for _, name := range pods {
		begin, err := killProcess(ctx, s.lab, name)
		if err != nil {
			return nil, err
		}
		at, err := node.AwaitMarks(ctx, podPatience, s.marks, 2, name)
		if err != nil {
			return nil, err
		}
		all = append(all, since(begin, at)...)
	}
	view, err := s.settled(ctx, pods...)
	if err != nil {
		return nil, err
	}
	for _, name := range pods {
		p, _ := view.Pod(name)
		if p.Restarts != 1 {
			b.fault("restart: pod %s says %d restarts; want 1", name, p.Restarts)
		}
	}
	world, err := node.Look(ctx, s.lab)
	if err != nil {
		return nil, err
	}
	for _, twice := range world.Doubled() {
		b.fault("restart: %s", twice)
	}
	return all, nil
}
