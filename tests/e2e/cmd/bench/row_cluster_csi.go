package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// csiRound is one round of an agent: pods with a volume each, and the same pods without.
type csiRound struct {
	without, with burst
	// starting and deleting are what the driver did for them, unstaged how long after the deletion it had done all.
	starting, deleting work
	unstaged           time.Duration
}

// clusterCSI measures a hundred pods at once with a volume of a CSI driver each, in turns with the same pods without.
func (b *bench) clusterCSI(ctx context.Context) ([]result, error) {
	c, err := b.clusterBed(ctx)
	if err != nil {
		return nil, err
	}
	load := loadAverage()
	of, failed := map[string][]csiRound{}, []string(nil)
	for i := range b.rounds {
		for _, agent := range c.agents {
			one, err := c.csiRound(ctx, agent.Name, i)
			if ctx.Err() != nil {
				return nil, err
			}
			if err != nil {
				failed = append(failed, c.lost(agent.Name == troupeName, fmt.Sprintf("%s, round %d", agent.Name, i+1), err))
				continue
			}
			of[agent.Name] = append(of[agent.Name], one)
			c.say("  %s: with volumes all Ready after %s (without %s; the driver was busy for %s), all gone after %s (without %s; driver %s)",
				agent.Name, ms(one.with.ready.max()), ms(one.without.ready.max()), ms(one.starting.busy),
				ms(one.with.gone.max()), ms(one.without.gone.max()), ms(one.deleting.busy))
		}
	}
	for _, agent := range c.agents {
		if len(of[agent.Name]) == 0 {
			return nil, fmt.Errorf("no round of %s worked", agent.Name)
		}
	}
	lines := csiResults(b.idle, of)
	lines[0].details = append(append(lines[0].details, failed...), "load average of the machine when the row began: "+load)
	return lines, nil
}

// lost tells that a round failed, and returns that in short. ours: not that of another agent, so something is wrong.
func (b *bench) lost(ours bool, what string, err error) string {
	b.say("  %s: %v", what, err)
	first, _, _ := strings.Cut(err.Error(), "\n") // the end of the agent's log follows
	text := fmt.Sprintf("%s failed, and does not count: %s", what, strings.TrimSuffix(first, "; the end of its log:"))
	if ours {
		b.fault("%s", text)
	}
	return text
}

// csiRound runs a round on a fresh node. In every other one the pods with volumes come first.
func (c *bed) csiRound(ctx context.Context, agent string, round int) (one csiRound, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(agent)))
	defer r.leave(&err)
	// Names that no pod has had: the watch may still tell of those of a round that failed.
	pods := names(fmt.Sprint(agent, "-disk", round), c.idle)
	d := check.Must(r.newDisks(ctx, "disks", false, pods))
	defer d.end(&err)
	turns := []func() error{
		func() error { return r.csiWithout(ctx, round, &one) },
		func() error { return d.csiWith(ctx, &one) },
	}
	if round%2 == 1 {
		turns[0], turns[1] = turns[1], turns[0]
	}
	for _, turn := range turns {
		check.OK(sleep(ctx, settle))
		check.OK(turn())
		check.OK(r.cleared(ctx))
	}
	return one, nil
}

func (r *joined) csiWithout(ctx context.Context, round int, one *csiRound) (err error) {
	pods := names(fmt.Sprint(r.agent.Name, "-bare", round), r.idle)
	if one.without, err = r.startMany(ctx, pods); err != nil {
		return err
	}
	return r.removeMany(ctx, pods, &one.without)
}

func (d *disks) csiWith(ctx context.Context, one *csiRound) (err error) {
	defer check.Return(&err)
	r, begin := d.node, time.Now()
	one.with = check.Must(r.startManyAs(ctx, d.with, d.volumes))
	one.starting = check.Must(d.since(begin))
	check.OK(sleep(ctx, settle))
	begin = time.Now()
	check.OK(r.removeMany(ctx, d.volumes, &one.with))
	check.OK(d.unused(ctx))
	one.deleting, err = d.since(begin)
	one.unstaged = one.deleting.last.Sub(begin)
	return err
}

// csiResults are two lines: creation and deletion. Ratios are of each round, as the machine may be faster in one than in
// the next.
func csiResults(n int, of map[string][]csiRound) []result {
	const limit = 1.15
	line := func(what string, get func(csiRound) (with, without samples, driver work)) result {
		r := result{section: volumes, what: fmt.Sprintf("%d pods with a CSI volume each, %s", n, what), bar: "≤ 1.15 × without + what the driver takes"}
		for _, agent := range []string{kubeletName, troupeName} {
			var with, without, driver, every, everyWithout samples
			var ratios []float64
			for _, one := range of[agent] {
				w, o, d := get(one)
				with, without, driver = append(with, w.max()), append(without, o.max()), append(driver, d.busy)
				every, everyWithout = append(every, w...), append(everyWithout, o...)
				ratios = append(ratios, (w.max()-d.busy).Seconds()/o.max().Seconds())
				r.details = append(r.details, fmt.Sprintf("%s, a round: %s with, %s without; the driver got %d calls, was busy with one or more for %s, and needed %s added up",
					agent, ms(w.max()), ms(o.max()), d.calls, ms(d.busy), ms(d.sum)))
			}
			r.details = append(r.details,
				fmt.Sprintf("%s, every pod with a volume: %s, p99 %s", agent, every.quantiles(), ms(every.quantile(0.99))),
				fmt.Sprintf("%s, every pod without: %s, p99 %s", agent, everyWithout.quantiles(), ms(everyWithout.quantile(0.99))),
				fmt.Sprintf("%s, ratios without what the driver takes, round by round: %.2f", agent, ratios))
			text := fmt.Sprintf("without %s, driver %s", ms(without.median()), ms(driver.median()))
			if agent == kubeletName {
				r.floor = fmt.Sprintf("kubelet %s (%s)", ms(with.median()), text)
				continue
			}
			r.floor = text + "; " + r.floor
			r.measured = ms(with.median())
			r.ratio = fmt.Sprintf("%.2f × without, beside the driver", middle(ratios))
			r.verdict = verdict(middle(ratios) <= limit)
		}
		return r
	}
	lines := []result{
		line("created at once, all seen Ready", func(c csiRound) (samples, samples, work) { return c.with.ready, c.without.ready, c.starting }),
		line("deleted at once, all seen gone", func(c csiRound) (samples, samples, work) { return c.with.gone, c.without.gone, c.deleting }),
	}
	with, without, unstaged := map[string][]burst{}, map[string][]burst{}, samples(nil)
	for agent, rounds := range of {
		for _, one := range rounds {
			with[agent], without[agent] = append(with[agent], one.with), append(without[agent], one.without)
		}
	}
	for _, one := range of[troupeName] {
		unstaged = append(unstaged, one.unstaged)
	}
	starting, deleting := func(b burst) usage { return b.starting }, func(b burst) usage { return b.deleting }
	lines[0].details = append(lines[0].details, costs("all with volumes were Ready", with, starting)...)
	lines[0].details = append(lines[0].details, costs("all without were Ready", without, starting)...)
	lines[1].details = append(lines[1].details, costs("all with volumes were gone", with, deleting)...)
	lines[1].details = append(lines[1].details, costs("all without were gone", without, deleting)...)
	lines[1].details = append(lines[1].details, "troupe, the driver had unstaged all after "+ms(unstaged.median()))
	return lines
}
