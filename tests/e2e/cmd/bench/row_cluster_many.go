package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// burst is one round of many pods at once.
type burst struct {
	ready, gone samples
	// CPU that the agent and the apiserver used until all were Ready, and until all were gone.
	starting, deleting usage
}

// clusterBursts measures 30 pods created at once and deleted at once, in turns with the floor.
func (b *bench) clusterBursts(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	workers, details := check.Must2(c.bestClusterFloor(ctx, b.atOnce))
	var floors []burst
	of := map[string][]burst{}
	for range b.rounds {
		ready, gone := check.Must2(c.clusterFloor(ctx, b.atOnce, workers))
		floors = append(floors, burst{ready: ready, gone: gone})
		for _, agent := range c.agents {
			one := check.Must(c.manyOnce(ctx, agent.Name, b.atOnce))
			of[agent.Name] = append(of[agent.Name], one)
			c.say("  %s: all Ready after %s (median pod %s; floor %s), all gone after %s (floor %s)", agent.Name,
				ms(one.ready.max()), ms(one.ready.median()), ms(ready.max()), ms(one.gone.max()), ms(gone.max()))
		}
	}
	return burstResults(b.atOnce, floors, of, details), nil
}

func (c *bed) manyOnce(ctx context.Context, agent string, n int) (one burst, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	pods := names("burst", n)
	one = check.Must(r.startMany(ctx, pods))
	err = r.removeMany(ctx, pods, &one)
	return one, err
}

// startMany starts pods at once and measures what that costs.
func (r *joined) startMany(ctx context.Context, pods []string) (one burst, err error) {
	return r.startManyAs(ctx, nil, pods)
}

// startManyAs does so with pods that change has changed.
func (r *joined) startManyAs(ctx context.Context, change func(*v1.Pod), pods []string) (one burst, err error) {
	defer check.Return(&err)
	before := check.Must(r.usage())
	one.ready = check.Must(r.start(ctx, change, pods...))
	after, err := r.usage()
	one.starting = after.since(before)
	return one, err
}

// removeMany deletes pods at once and measures what that costs.
func (r *joined) removeMany(ctx context.Context, pods []string, one *burst) (err error) {
	defer check.Return(&err)
	before := check.Must(r.usage())
	one.gone = check.Must(r.remove(ctx, pods...))
	after, err := r.usage()
	one.deleting = after.since(before)
	return err
}

// burstResults are four lines: creation and deletion, the last pod and the median one. Ratios are of
// each round, as the machine may be faster in one than in the next.
func burstResults(n int, floors []burst, of map[string][]burst, details []string) []result {
	line := func(what, bar string, limit float64, floor, value func(burst) time.Duration) result {
		var f, k, t samples
		var ratios []float64
		for i, ours := range of[troupeName] {
			f, t = append(f, floor(floors[i])), append(t, value(ours))
			k = append(k, value(of[kubeletName][i]))
			ratios = append(ratios, value(ours).Seconds()/floor(floors[i]).Seconds())
		}
		return result{
			section: cluster, what: fmt.Sprintf("%d pods %s", n, what), bar: bar,
			floor: fmt.Sprintf("%s; kubelet %s", ms(f.median()), ms(k.median())), measured: ms(t.median()),
			ratio: fmt.Sprintf("%.2f × the floor", middle(ratios)), verdict: verdict(middle(ratios) <= limit),
			details: []string{"floor: " + f.quantiles(), "kubelet: " + k.quantiles(), "troupe: " + t.quantiles(), fmt.Sprintf("ratios, round by round: %.2f", ratios)},
		}
	}
	readyAll, readyMid := func(b burst) time.Duration { return b.ready.max() }, func(b burst) time.Duration { return b.ready.median() }
	goneAll, goneMid := func(b burst) time.Duration { return b.gone.max() }, func(b burst) time.Duration { return b.gone.median() }
	lines := []result{
		line("created at once, all seen Ready", "≤ 1.15 × floor", 1.15, readyAll, readyAll),
		line("created at once, the median pod", "≤ 0.6 × the floor's total", 0.6, readyAll, readyMid),
		line("deleted at once, all seen gone", "≤ 1.1 × floor", 1.1, goneAll, goneAll),
		line("deleted at once, the median pod", "≤ 0.6 × the floor's total", 0.6, goneAll, goneMid),
	}
	lines[0].details = append(lines[0].details, details...)
	lines[0].details = append(lines[0].details, costs("all were Ready", of, func(b burst) usage { return b.starting })...)
	lines[2].details = append(lines[2].details, costs("all were gone", of, func(b burst) usage { return b.deleting })...)
	return lines
}

// costs says what CPU each agent and the apiserver used until something was so: the medians of the rounds.
func costs(until string, of map[string][]burst, get func(burst) usage) (details []string) {
	for _, agent := range []string{kubeletName, troupeName} {
		var own, api samples
		for _, b := range of[agent] {
			own, api = append(own, get(b).agent), append(api, get(b).apiserver)
		}
		details = append(details, fmt.Sprintf("until %s %s used %.1f CPU-s itself, and the apiserver %.1f", until, agent, own.median().Seconds(), api.median().Seconds()))
	}
	return details
}

// hundred is what an agent does with a hundred pods.
type hundred struct {
	burst
	// CPU seconds per minute that the agent used with idle pods, and with pods that have probes;
	// the apiserver's, and its with no node at all.
	idle, probed, apiserver, alone float64
	rss                            float64 // MiB
	// fresh is how long after its start by a killed agent's successor a new pod was Ready.
	fresh time.Duration
}

// clusterHundred measures an agent with a hundred pods: all at once, idle, killed and restarted, with
// probes, deleted.
func (b *bench) clusterHundred(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	workers, details := check.Must2(c.bestClusterFloor(ctx, b.idle))
	ready, gone := check.Must2(c.clusterFloor(ctx, b.idle, workers))
	before := check.Must(cpu(c.plane.APIServerPID()))
	check.OK(sleep(ctx, b.window))
	after := check.Must(cpu(c.plane.APIServerPID()))
	of := map[string]hundred{}
	for _, agent := range c.agents {
		h := check.Must(c.hundredOf(ctx, agent.Name))
		h.alone = (after - before).Seconds() / b.window.Minutes()
		of[agent.Name] = h
		c.say("  %s: all Ready after %s, all gone after %s; idle %.2f CPU-s a minute, the apiserver %.2f (%.2f alone), with probes %.2f; %.0f MiB; a new pod after a restart %s",
			agent.Name, ms(h.ready.max()), ms(h.gone.max()), h.idle, h.apiserver, h.alone, h.probed, h.rss, ms(h.fresh))
	}
	k, t := of[kubeletName], of[troupeName]
	lines := burstResults(b.idle, []burst{{ready: ready, gone: gone}}, map[string][]burst{kubeletName: {k.burst}, troupeName: {t.burst}}, details)
	return append(lines, idleResults(b.idle, k, t)...), nil
}

func idleResults(n int, k, t hundred) []result {
	line := func(what, bar, floor, measured, ratio string, holds bool) result {
		return result{section: cluster, what: fmt.Sprintf("%d %s", n, what), bar: bar, floor: floor, measured: measured, ratio: ratio, verdict: verdict(holds)}
	}
	perMinute := func(s float64) string { return fmt.Sprintf("%.2f CPU-s per minute", s) }
	ours, theirs := max(0, t.apiserver-t.alone), max(0, k.apiserver-k.alone)
	return []result{
		line("idle pods, the agent's CPU", "≤ 0.3 CPU-s per minute", "kubelet "+perMinute(k.idle), perMinute(t.idle), fmt.Sprintf("%.2f × the kubelet's", t.idle/k.idle), t.idle <= 0.3),
		line("idle pods, the apiserver's CPU for them", "≤ half of the kubelet's", "kubelet "+perMinute(theirs), perMinute(ours),
			fmt.Sprintf("in addition to %.2f without a node: troupe %.2f, kubelet %.2f", t.alone, ours, theirs), ours <= theirs/2),
		line("idle pods with an HTTP readiness probe every 10 s, the agent's CPU", "≤ 1 CPU-s per minute", "kubelet "+perMinute(k.probed), perMinute(t.probed), fmt.Sprintf("%.2f × the kubelet's", t.probed/k.probed), t.probed <= 1),
		line("idle pods, the agent's memory (RSS)", "≤ 64 MiB", fmt.Sprintf("kubelet %.0f MiB", k.rss), fmt.Sprintf("%.0f MiB", t.rss), fmt.Sprintf("%.2f × the kubelet's", t.rss/k.rss), t.rss <= 64),
		line("pods, agent killed and started again: a new pod seen Ready", "≤ 1 s", "kubelet "+ms(k.fresh), ms(t.fresh), times(t.fresh, k.fresh), t.fresh <= time.Second),
	}
}

func (c *bed) hundredOf(ctx context.Context, agent string) (h hundred, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	pods := names("many", c.idle)
	h.burst = check.Must(r.startMany(ctx, pods))
	h.idle, h.apiserver = check.Must2(r.idleMinute(ctx))
	h.rss, _ = check.Must2(memory(r.PID()))
	h.fresh = check.Must(r.takeOver(ctx, pods))
	check.OK(r.removeMany(ctx, pods, &h.burst))
	check.OK(r.cleared(ctx))
	probed := names("probed", c.idle)
	check.Must(r.start(ctx, withProbe, probed...))
	h.probed, _ = check.Must2(r.idleMinute(ctx))
	_, err = r.remove(ctx, probed...)
	return h, err
}

// withProbe makes a pod a web server that is asked every ten seconds.
func withProbe(p *v1.Pod) {
	c := &p.Spec.Containers[0]
	c.Image, c.Args = lab.WebImage, nil
	c.ReadinessProbe = &v1.Probe{
		PeriodSeconds: 10,
		ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
	}
}

// idleMinute measures the agent's and the apiserver's CPU seconds per minute after a moment of rest.
func (r *joined) idleMinute(ctx context.Context) (agent, apiserver float64, err error) {
	defer check.Return(&err)
	check.OK(sleep(ctx, 2*settle))
	begin := time.Now()
	before := check.Must(r.usage())
	check.OK(sleep(ctx, r.window))
	after, err := r.usage()
	used, minutes := after.since(before), time.Since(begin).Minutes()
	return used.agent.Seconds() / minutes, used.apiserver.Seconds() / minutes, err
}

// takeOver kills the agent, starts it again with one pod more, and tells when that was Ready. What it
// says of the others meanwhile must not have changed.
func (r *joined) takeOver(ctx context.Context, pods []string) (_ time.Duration, err error) {
	defer check.Return(&err)
	killed := time.Now()
	check.OK(r.Kill(ctx))
	const name = "fresh"
	check.Must(r.create(ctx, nil, name))
	begin := time.Now()
	check.OK(r.Start())
	at := check.Must(r.seen.await(ctx, "is Ready", (*history).readyAt, name))
	check.OK(sleep(ctx, settle))
	changed := 0
	for _, pod := range pods {
		versions := r.seen.since(killed, pod)
		if slices.ContainsFunc(versions, func(p *v1.Pod) bool { return !podReady(p) || p.Status.ContainerStatuses[0].RestartCount > 0 }) {
			changed++
		}
	}
	if changed > 0 {
		if r.agent.Name == troupeName {
			r.fault("agent killed: %d pods were shown restarted or not Ready", changed)
		}
		r.say("  %s killed: %d pods were shown restarted or not Ready", r.agent.Name, changed)
	}
	_, err = r.remove(ctx, name)
	return at[0].Sub(begin), err
}
