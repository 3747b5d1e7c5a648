package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// settle is how long the machine is left alone before idle CPU is measured.
const settle = 5 * time.Second

// idlePods measures what many pods cost that do nothing: the agent's CPU and memory, and what the
// agent makes the runtime use.
func (b *bench) idlePods(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	if b.floor {
		return nil, nil
	}
	with := check.Must(b.idleOn(ctx, lab.Containerd2))
	// "at the same idle CPU": the bar of restarts without events.
	without := check.Must(b.idleOn(ctx, lab.Containerd1))
	const bar, rssBar = 0.3, 56.0
	n := fmt.Sprintf("%d idle pods, ", b.idle)
	ratio := with.runtimeWith / with.runtimeAlone
	growth := with.goroutines - with.goroutinesFew
	goroutines := result{
		what: n + "goroutines", bar: "independent of the number of pods",
		measured: fmt.Sprint(with.goroutines), ratio: fmt.Sprintf("%d with 10 pods", with.goroutinesFew),
		verdict: verdict(growth <= 10),
	}
	if with.goroutines == 0 {
		goroutines.measured, goroutines.ratio, goroutines.verdict = "the agent does not say", "", ""
	}
	return []result{
		{
			what: n + "agent's CPU with events (containerd 2)", bar: "≤ 0.3 CPU-s per minute",
			measured: fmt.Sprintf("%.2f CPU-s per minute", with.agent), verdict: verdict(with.agent <= bar),
		}, {
			what: n + "agent's CPU without events (containerd 1.6)", bar: "the same",
			measured: fmt.Sprintf("%.2f CPU-s per minute", without.agent), verdict: verdict(without.agent <= bar),
		}, {
			what: n + "the runtime's CPU (containerd 2 and its shims)", bar: "≤ 2 × without an agent",
			floor: fmt.Sprintf("%.2f CPU-s per minute", with.runtimeAlone), measured: fmt.Sprintf("%.2f CPU-s per minute", with.runtimeWith),
			ratio: fmt.Sprintf("%.2f ×", ratio), verdict: verdict(ratio <= 2),
			details: []string{fmt.Sprintf("containerd 1.6: %.2f CPU-s per minute without the agent, %.2f with it", without.runtimeAlone, without.runtimeWith)},
		}, {
			what: n + "agent's memory (RSS)", bar: "≤ 56 MiB",
			measured: fmt.Sprintf("%.1f MiB", with.rss), verdict: verdict(with.rss <= rssBar),
			details: []string{fmt.Sprintf("anonymous memory: %.1f MiB; RSS on containerd 1.6: %.1f MiB", with.anonymous, without.rss)},
		}, goroutines,
	}, nil
}

// idleCosts are CPU seconds per minute, MiB, and goroutines.
type idleCosts struct {
	agent, runtimeWith, runtimeAlone float64
	rss, anonymous                   float64
	goroutines, goroutinesFew        int
}

func (b *bench) idleOn(ctx context.Context, release lab.Release) (c idleCosts, err error) {
	defer check.Return(&err)
	s := check.Must(b.subject(ctx, release))
	defer s.end(&err)
	check.OK(s.Start(ctx))
	pods := names("idle", b.idle)
	const few = 10
	for i, batch := range [][]string{pods[:few], pods[few:]} {
		check.Must(s.start(ctx, batch...))
		check.Must(s.settled(ctx, batch...))
		check.OK(sleep(ctx, settle))
		tree := check.Must(s.Tree(ctx))
		if i == 0 {
			c.goroutinesFew = tree.Goroutines
		} else {
			c.goroutines = tree.Goroutines
		}
	}
	b.say("  %d pods run on containerd %s; measuring for %s with the agent, then without", b.idle, release, b.window)
	c.agent, c.runtimeWith = check.Must2(s.burn(ctx, b.window))
	c.rss, c.anonymous = check.Must2(memory(s.PID()))
	check.OK(s.checkWorld(ctx, "idle", pods...))
	check.OK(s.Stop(ctx))
	check.OK(sleep(ctx, settle))
	_, c.runtimeAlone, err = s.burn(ctx, b.window)
	return c, err
}

// burn measures the CPU of the agent, if it runs, and of the runtime, in seconds per minute.
func (s *subject) burn(ctx context.Context, window time.Duration) (agent, runtime float64, err error) {
	defer check.Return(&err)
	read := func() (agent, runtime time.Duration, err error) {
		usage, err := s.lab.Usage()
		if err == nil && s.PID() != 0 {
			agent, err = cpu(s.PID())
		}
		return agent, usage.Total(), err
	}
	begin := time.Now()
	agentBefore, runtimeBefore := check.Must2(read())
	check.OK(sleep(ctx, window))
	agentAfter, runtimeAfter := check.Must2(read())
	minutes := time.Since(begin).Minutes()
	return (agentAfter - agentBefore).Seconds() / minutes, (runtimeAfter - runtimeBefore).Seconds() / minutes, nil
}

// cpu reads the time that a process and the children it waited for have run, from
// proc_pid_stat(5).
func cpu(pid int) (_ time.Duration, err error) {
	defer check.Return(&err)
	text := check.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	const utime, cstime = 14 - 3, 17 - 3
	if len(fields) <= cstime {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var ticks int64
	for _, field := range fields[utime : cstime+1] {
		n := check.Must(strconv.ParseInt(field, 10, 64))
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100, nil // USER_HZ
}

// memory reads a process's resident memory in MiB, and how much of it is anonymous.
func memory(pid int) (rss, anonymous float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f kB", &kib); n == 1 {
			rss = kib / 1024
		}
		if n, _ := fmt.Sscanf(line, "RssAnon: %f kB", &kib); n == 1 {
			anonymous = kib / 1024
		}
	}
	return rss, anonymous, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
