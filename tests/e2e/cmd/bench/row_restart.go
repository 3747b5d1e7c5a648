package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
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
	defer check.Return(&err)
	l := check.Must(b.lab(ctx, release))
	const pods = 10
	floor := check.Must(b.floorRestarts(ctx, l, pods))
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
	ours := check.Must(b.restarts(ctx, release, names("crash", pods)))
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
func (b *bench) floorRestarts(ctx context.Context, l *lab.Lab, n int) (_ samples, err error) {
	defer check.Return(&err)
	marks := check.Must(b.marks())
	var all samples
	for _, name := range names("floor", n) {
		p := check.Must(newBare(l, name, marks))
		check.OK(p.run(ctx, l))
		check.Must(node.AwaitMarks(ctx, podPatience, marks, 1, name))
		check.OK(killContainer(ctx, l, name))
		begin := time.Now()
		check.OK(p.container(ctx, l, 1))
		at := check.Must(node.AwaitMarks(ctx, podPatience, marks, 2, name))
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
func killProcess(ctx context.Context, l *lab.Lab, name string) (_ time.Time, err error) {
	defer check.Return(&err)
	world := check.Must(node.Look(ctx, l))
	running := world.Of(name).Running()
	if len(running) != 1 {
		return time.Time{}, fmt.Errorf("pod %s has %d running containers; want one", name, len(running))
	}
	pid := check.Must(node.ContainerPID(ctx, l, running[0].Id))
	at := time.Now()
	return at, syscall.Kill(pid, syscall.SIGKILL)
}

func (b *bench) restarts(ctx context.Context, release lab.Release, pods []string) (all samples, err error) {
	defer check.Return(&err)
	s := check.Must(b.subject(ctx, release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	check.Must(s.start(ctx, pods...))
	check.Must(s.settled(ctx, pods...))
	for _, name := range pods {
		begin := check.Must(killProcess(ctx, s.lab, name))
		at := check.Must(node.AwaitMarks(ctx, podPatience, s.marks, 2, name))
		all = append(all, since(begin, at)...)
	}
	view := check.Must(s.settled(ctx, pods...))
	for _, name := range pods {
		p, _ := view.Pod(name)
		if p.Restarts != 1 {
			b.fault("restart: pod %s says %d restarts; want 1", name, p.Restarts)
		}
	}
	world := check.Must(node.Look(ctx, s.lab))
	for _, twice := range world.Doubled() {
		b.fault("restart: %s", twice)
	}
	return all, nil
}
