package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// hostileMethods are the calls of a driver that an agent makes. Each fails, hangs and answers late in turns.
var hostileMethods = []string{
	"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeExpandVolume", "NodeGetCapabilities",
	"NodeGetInfo",
}

var hostileFaults = []struct {
	name  string
	fault csidriver.Fault
}{
	{"fails", csidriver.Fault{Code: codes.Internal, Message: "no"}},
	{"hangs", csidriver.Fault{Hang: true}},
	{"is late", csidriver.Fault{Late: 2 * time.Second}},
}

// hostileOthers is how many pods of another driver come and go in each round.
func (o *options) hostileOthers() int {
	if o.quick {
		return 3
	}
	return 10
}

// hostileRound is how long pods of another driver took to start and to stop.
type hostileRound struct{ starts, stops samples }

func (h *hostileRound) add(o hostileRound) {
	h.starts, h.stops = append(h.starts, o.starts...), append(h.stops, o.stops...)
}

// clusterHostile measures pods with volumes of one CSI driver while each call of another one, the mock driver of Kubernetes,
// fails, hangs and is late, each between two rounds without that.
func (b *bench) clusterHostile(ctx context.Context) (_ []result, err error) {
	c, err := b.clusterBed(ctx)
	if err != nil {
		return nil, err
	}
	load := loadAverage()
	r, err := c.join(ctx, c.agent(troupeName))
	if err != nil {
		return nil, err
	}
	defer r.leave(&err)
	good, err := r.newDisks(ctx, "good", false, names("other", b.hostileOthers()))
	if err != nil {
		return nil, err
	}
	defer good.end(&err)
	bad, err := r.newDisks(ctx, "bad", true, []string{"bad-begins", "bad-ends"})
	if err != nil {
		return nil, err
	}
	defer bad.end(&err)
	if _, err := good.comeAndGo(ctx); err != nil { // the first pods of a node take longer
		return nil, err
	}
	var usual, during hostileRound
	var details []string
	for _, method := range hostileMethods {
		for _, f := range hostileFaults {
			before, err := good.comeAndGo(ctx)
			if err != nil {
				return nil, err
			}
			one, calls, err := bad.hostile(ctx, good, method, f.fault)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, f.name, err)
			}
			after, err := good.comeAndGo(ctx)
			if err != nil {
				return nil, err
			}
			during.add(one)
			before.add(after)
			usual.add(before)
			text := fmt.Sprintf("%s %s (%d calls): starts %s (usual %s), stops %s (usual %s)", method, f.name, calls,
				ms(one.starts.median()), ms(before.starts.median()), ms(one.stops.median()), ms(before.stops.median()))
			details = append(details, text)
			c.say("  %s", text)
		}
	}
	lines := hostileResults(b.hostileOthers(), usual, during)
	lines[0].details = append(append(lines[0].details, details...), "load average of the machine when the row began: "+load)
	return lines, nil
}

func hostileResults(n int, usual, during hostileRound) []result {
	const limit = 1.1
	line := func(what string, usual, during samples) result {
		ratio := during.median().Seconds() / usual.median().Seconds()
		return result{
			section: cluster, bar: "≤ 1.1 × usual", floor: ms(usual.median()) + " (usual)", measured: ms(during.median()),
			what:  fmt.Sprintf("each call of a CSI driver fails, hangs and is late in turns: %d pods of another driver %s, the median pod", n, what),
			ratio: fmt.Sprintf("%.2f ×", ratio), verdict: verdict(ratio <= limit),
			details: []string{
				fmt.Sprintf("usual: %s, p99 %s", usual.quantiles(), ms(usual.quantile(0.99))),
				fmt.Sprintf("while a call fails, hangs or is late: %s, p99 %s", during.quantiles(), ms(during.quantile(0.99))),
			},
		}
	}
	return []result{line("start", usual.starts, during.starts), line("stop", usual.stops, during.stops)}
}

// comeAndGo has a pod with each volume start, all at once, and then go.
func (d *disks) comeAndGo(ctx context.Context) (one hostileRound, err error) {
	if one.starts, err = d.node.start(ctx, d.with, d.volumes...); err != nil {
		return one, err
	}
	if one.stops, err = d.node.remove(ctx, d.volumes...); err != nil {
		return one, err
	}
	return one, d.unused(ctx)
}

// hostile has pods of others come and go while a call of this driver has a fault, which one of its pods that begins and one
// that ends suffer. It tells how many calls had the fault. In the end both pods come and go.
func (d *disks) hostile(ctx context.Context, others *disks, method string, f csidriver.Fault) (one hostileRound, calls int, err error) {
	const begins, ends = "bad-begins", "bad-ends"
	if err := d.shrunk(ctx, begins); err != nil {
		return one, 0, err
	}
	if _, err := d.node.start(ctx, d.with, ends); err != nil {
		return one, 0, err
	}
	began := time.Now()
	f.Method = method
	if err := d.Set(ctx, f); err != nil {
		return one, 0, err
	}
	if _, err := d.node.create(ctx, d.with, begins); err != nil {
		return one, 0, err
	}
	if err := d.node.delete(ctx, ends); err != nil {
		return one, 0, err
	}
	suffered := func() (n int, err error) {
		n = d.Hanging(ctx, method)
		all, err := d.Calls()
		for _, c := range all {
			if c.Method == method && c.Began.After(began) {
				n++
			}
		}
		return n, err
	}
	if err := lab.Eventually(ctx, podPatience, method+" is called", func() error {
		n, err := suffered()
		if err == nil && n == 0 {
			err = errors.New("it was not")
		}
		return err
	}); err != nil {
		return one, 0, err
	}
	if one, err = others.comeAndGo(ctx); err != nil {
		return one, 0, err
	}
	if calls, err = suffered(); err != nil {
		return one, calls, err
	}
	if err := d.End(ctx, method); err != nil {
		return one, calls, err
	}
	if _, err := d.node.seen.await(ctx, "is Ready", (*history).readyAt, begins); err != nil {
		return one, calls, err
	}
	if _, err := d.node.remove(ctx, begins); err != nil {
		return one, calls, err
	}
	if _, err := d.node.seen.await(ctx, "is gone", (*history).goneAt, ends); err != nil {
		return one, calls, err
	}
	d.node.seen.drop(ends)
	return one, calls, d.unused(ctx)
}
