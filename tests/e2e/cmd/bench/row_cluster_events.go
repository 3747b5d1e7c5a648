package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/member"
)

// eventsAtOnce are the pods of a node where twelve others start.
const eventsAtOnce = 13

// eventBar is how late an event may be seen.
const eventBar = 2 * time.Second

// told is one round of pods that start at once, and what was told of them meanwhile.
type told struct {
	burst
	// events is how late the events of their starts were seen, shown how late after a pod it was seen
	// that its containers are made.
	events, shown samples
}

func (t *told) add(o told) {
	t.ready, t.events, t.shown = append(t.ready, o.ready...), append(t.events, o.events...), append(t.shown, o.shown...)
	t.starting = usage{t.starting.agent + o.starting.agent, t.starting.apiserver + o.starting.apiserver}
}

// clusterEvents measures how late a client sees the events of pods that start at once, in turns with
// the kubelet and with the other builds of this agent that --beside names.
func (b *bench) clusterEvents(ctx context.Context) ([]result, error) {
	c, err := b.clusterBed(ctx)
	if err != nil {
		return nil, err
	}
	agents := slices.Clone(c.agents)
	for _, binary := range b.beside {
		agents = append(agents, member.Agent{Name: filepath.Base(binary), Command: []string{binary, "node"}})
	}
	var lines []result
	for _, n := range []int{eventsAtOnce, b.atOnce, b.idle} {
		all := make([]told, len(agents))
		last := make([]samples, len(agents)) // when the last pod of each round was Ready
		for range b.rounds {
			for i, agent := range agents {
				one, err := c.toldOnce(ctx, agent, n)
				if err != nil {
					return lines, err
				}
				all[i].add(one)
				last[i] = append(last[i], one.ready.max())
				c.say("  %d pods, %s: events seen after %s, p99 %s; all Ready after %s (median pod %s)", n, agent.Name,
					ms(one.events.median()), ms(one.events.quantile(0.99)), ms(one.ready.max()), ms(one.ready.median()))
			}
		}
		lines = append(lines, b.eventsResult(n, agents, all, last))
	}
	return lines, nil
}

func (b *bench) eventsResult(n int, agents []member.Agent, all []told, last []samples) result {
	p99 := func(t told) time.Duration { return t.events.quantile(0.99) }
	r := result{section: cluster, what: fmt.Sprintf("%d pods created at once: event of a start → seen, p99", n), bar: "≤ " + ms(eventBar)}
	for i, agent := range agents {
		t := all[i]
		switch agent.Name {
		case kubeletName:
			r.floor = "kubelet " + ms(p99(t))
		case troupeName:
			r.measured, r.ratio, r.verdict = ms(p99(t)), times(p99(t), p99(all[0])), verdict(p99(t) <= eventBar)
		}
		r.details = append(r.details,
			agent.Name+", events: "+t.events.quantiles()+", p99 "+ms(p99(t)),
			agent.Name+", pod created → seen that its containers are made: "+t.shown.quantiles(),
			fmt.Sprintf("%s, all Ready: %s; median pod %s; CPU-s a round: agent %.2f, apiserver %.2f", agent.Name, last[i].quantiles(), ms(t.ready.median()),
				t.starting.agent.Seconds()/float64(b.rounds), t.starting.apiserver.Seconds()/float64(b.rounds)))
	}
	return r
}

func (c *bed) toldOnce(ctx context.Context, agent member.Agent, n int) (one told, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, agent))
	defer r.leave(&err)
	events := check.Must(watchEvents(ctx, c.client))
	defer events.stop()
	pods := names("told", n)
	one.burst = check.Must(r.startMany(ctx, pods))
	one.events = check.Must(events.await(ctx, pods...))
	one.shown = check.Must(r.seen.shown(ctx, pods...))
	one.gone, err = r.remove(ctx, pods...)
	return one, err
}

// shown is how long after each pod was first seen it was seen that its containers are made, or run.
func (w *watcher) shown(ctx context.Context, names ...string) (samples, error) {
	from, err := w.await(ctx, "is there", func(h *history) (time.Time, bool) { return h.versions[0].at, true }, names...)
	if err != nil {
		return nil, err
	}
	to, err := w.await(ctx, "is shown", func(h *history) (time.Time, bool) {
		return h.first(func(v version) bool { return len(v.pod.Status.ContainerStatuses) > 0 })
	}, names...)
	if err != nil {
		return nil, err
	}
	all := make(samples, len(names))
	for i := range all {
		all[i] = to[i].Sub(from[i])
	}
	return all, nil
}
