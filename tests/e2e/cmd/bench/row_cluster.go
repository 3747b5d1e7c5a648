package main

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// compared are the floor's samples and each agent's, by its name.
type compared struct {
	floor  samples
	agents map[string]samples
}

const kubeletName, troupeName = "kubelet", "troupe"

func (c *compared) add(agent string, s ...time.Duration) {
	if c.agents == nil {
		c.agents = map[string]samples{}
	}
	c.agents[agent] = append(c.agents[agent], s...)
}

// beside is what stands in the column beside troupe's.
func (c *compared) beside() string {
	k := ms(c.agents[kubeletName].median())
	if len(c.floor) == 0 {
		return "kubelet " + k
	}
	return ms(c.floor.median()) + "; kubelet " + k
}

func (c *compared) details() []string {
	var all []string
	if len(c.floor) > 0 {
		all = append(all, "floor: "+c.floor.quantiles())
	}
	return append(all, "kubelet: "+c.agents[kubeletName].quantiles(), "troupe: "+c.agents[troupeName].quantiles())
}

// clusterOne measures one pod on an idle node, from its creation until a client sees it Ready.
func (b *bench) clusterOne(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	const turn = 5
	var of compared
	for len(of.floor) < b.samples {
		n := min(turn, b.samples-len(of.floor))
		for range n {
			ready, _ := check.Must2(c.clusterFloor(ctx, 1, 1))
			of.floor = append(of.floor, ready...)
		}
		for _, agent := range c.agents {
			s := check.Must(c.oneAfterOther(ctx, agent.Name, n))
			of.add(agent.Name, s...)
		}
		c.say("  %d of %d: floor %s, kubelet %s, troupe %s", len(of.floor), b.samples,
			ms(of.floor.median()), ms(of.agents[kubeletName].median()), ms(of.agents[troupeName].median()))
	}
	const bar = 80 * time.Millisecond
	more := of.agents[troupeName].median() - of.floor.median()
	return []result{{
		section: cluster, what: "one pod, created → seen Ready", bar: "floor + 80 ms",
		floor: of.beside(), measured: ms(of.agents[troupeName].median()), ratio: plus(more), verdict: verdict(more <= bar),
		details: of.details(),
	}}, nil
}

func (c *bed) oneAfterOther(ctx context.Context, agent string, n int) (all samples, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	for i := range n {
		name := fmt.Sprintf("one-%d", i)
		took := check.Must(r.start(ctx, nil, name))
		all = append(all, took...)
		check.Must(r.remove(ctx, name))
		check.OK(r.cleared(ctx))
	}
	return all, nil
}

// clusterCrash kills the one container of each of ten pods, its first crash, and measures until a
// client sees the restart and that it runs.
func (b *bench) clusterCrash(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	var of compared
	for _, agent := range c.agents {
		s := check.Must(c.crashes(ctx, agent.Name))
		of.add(agent.Name, s...)
	}
	ours := of.agents[troupeName]
	holds := ours.median() <= 200*time.Millisecond && ours.max() <= 350*time.Millisecond
	return []result{{
		section: cluster, what: "container killed → restart and Running seen", bar: "median ≤ 200 ms, worst ≤ 350 ms",
		floor:    fmt.Sprintf("kubelet %s, worst %s", ms(of.agents[kubeletName].median()), ms(of.agents[kubeletName].max())),
		measured: fmt.Sprintf("%s, worst %s", ms(ours.median()), ms(ours.max())), verdict: verdict(holds),
		ratio: times(ours.median(), of.agents[kubeletName].median()), details: of.details(),
	}}, nil
}

func (c *bed) crashes(ctx context.Context, agent string) (all samples, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	pods := names("crash", 10)
	check.Must(r.start(ctx, nil, pods...))
	check.OK(sleep(ctx, settle))
	for _, name := range pods {
		begin := check.Must(killProcess(ctx, r.lab, name))
		at := check.Must(r.seen.await(ctx, "was restarted", (*history).restartedAt, name))
		all = append(all, since(begin, at)...)
	}
	_, err = r.remove(ctx, pods...)
	return all, err
}

// clusterStart measures a fresh node, from the start of the process until it is Ready.
func (b *bench) clusterStart(ctx context.Context) (_ []result, err error) {
	defer check.Return(&err)
	c := check.Must(b.clusterBed(ctx))
	var of compared
	for range max(3, b.rounds) {
		for _, agent := range c.agents {
			took := check.Must(c.firstReady(ctx, agent.Name))
			of.add(agent.Name, took)
		}
	}
	ours := of.agents[troupeName].median()
	return []result{{
		section: cluster, what: "process started → Node seen Ready", bar: "≤ 250 ms",
		floor: of.beside(), measured: ms(ours), ratio: times(ours, of.agents[kubeletName].median()),
		verdict: verdict(ours <= 250*time.Millisecond), details: of.details(),
	}}, nil
}

func times(ours, theirs time.Duration) string {
	return fmt.Sprintf("%.2f × the kubelet's", ours.Seconds()/theirs.Seconds())
}
