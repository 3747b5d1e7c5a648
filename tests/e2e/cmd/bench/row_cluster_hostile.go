package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/csidriver"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// hostileMethods are the calls of a driver that an agent makes. Each fails, hangs and answers late in turns.
var hostileMethods = []string{
	"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeExpandVolume", "NodeGetCapabilities",
	"NodeGetInfo",
}

// hostileFault is what one call of the hostile driver suffers in a turn.
type hostileFault struct {
	name string
	csidriver.Fault
}

func (f hostileFault) String() string { return f.Method + ":" + f.name }

// hostileFaults are all: each call with each fault.
func hostileFaults() (all []hostileFault) {
	for _, method := range hostileMethods {
		all = append(all,
			hostileFault{"fails", csidriver.Fault{Method: method, Code: codes.Internal, Message: "no"}},
			hostileFault{"hangs", csidriver.Fault{Method: method, Hang: true}},
			hostileFault{"late", csidriver.Fault{Method: method, Late: 2 * time.Second}},
		)
	}
	return all
}

// hostileOptions are those of this row.
type hostileOptions struct {
	pods   int // of the other driver, in each round
	rounds int // of each fault
	faults []hostileFault
}

// flags adds the flags of this row. After they were parsed, the function that is returned checks them.
func (h *hostileOptions) flags(flags *flag.FlagSet) (check func() error) {
	flags.IntVar(&h.pods, "hostile-pods", 10, "row cluster-csi-hostile: number of pods of the other driver")
	flags.IntVar(&h.rounds, "hostile-rounds", 1, "row cluster-csi-hostile: how often each fault comes")
	list := flags.String("hostile-faults", "", "row cluster-csi-hostile: which faults, such as NodeStageVolume,hangs,NodeGetInfo:late (default all)")
	return func() error {
		if h.pods < 1 || h.rounds < 1 {
			return errors.New("--hostile-pods and --hostile-rounds are at least 1")
		}
		return h.choose(*list)
	}
}

// choose takes those faults that a list names, by call, by fault, or by both.
func (h *hostileOptions) choose(list string) error {
	h.faults = nil
	wanted := map[string]bool{}
	for word := range strings.SplitSeq(list, ",") {
		if word != "" {
			wanted[word] = false
		}
	}
	for _, f := range hostileFaults() {
		take := len(wanted) == 0
		for _, word := range []string{f.Method, f.name, f.String()} {
			if _, is := wanted[word]; is {
				wanted[word], take = true, true
			}
		}
		if take {
			h.faults = append(h.faults, f)
		}
	}
	for word, found := range wanted {
		if !found {
			return fmt.Errorf("--hostile-faults: no fault %q; there are %s, each with fails, hangs and late, such as %s",
				word, strings.Join(hostileMethods, ", "), hostileFaults()[0])
		}
	}
	return nil
}

// hostileRound is how long pods of the other driver took to start and to stop.
type hostileRound struct{ starts, stops samples }

func (h *hostileRound) add(o hostileRound) {
	h.starts, h.stops = append(h.starts, o.starts...), append(h.stops, o.stops...)
}

// hostileTurn is a fault: a round with it, and those before and after it, with the same pods of the same driver when it is
// healthy.
type hostileTurn struct {
	fault          hostileFault
	healthy, amiss hostileRound
	calls          int // that had the fault
}

func (t hostileTurn) String() string {
	return fmt.Sprintf("%s (%d calls): starts %s (usual %s), stops %s (usual %s)", t.fault, t.calls,
		ms(t.amiss.starts.median()), ms(t.healthy.starts.median()), ms(t.amiss.stops.median()), ms(t.healthy.stops.median()))
}

// clusterHostile measures pods with volumes of one CSI driver beside two pods of another one, the mock driver of Kubernetes,
// one of which begins and one of which ends. Each call of the other fails, hangs and is late, each between two rounds with
// the same pods in which it does not. What a turn that failed had measured does not count: it ends with its node, and the
// next one has a node of its own.
func (b *bench) clusterHostile(ctx context.Context) ([]result, error) {
	c, err := b.clusterBed(ctx)
	if err != nil {
		return nil, err
	}
	load := loadAverage()
	var turns []hostileTurn
	var failed []string
	rest, lost := c.hostileTurns(), 0
	for attempt := 0; len(rest) > 0 && err == nil; attempt++ {
		var done []hostileTurn
		done, err = c.hostileOn(ctx, attempt, rest)
		turns, rest = append(turns, done...), rest[len(done):]
		if err == nil || ctx.Err() != nil || len(rest) == 0 {
			continue
		}
		failed = append(failed, c.lost(true, rest[0].String(), err))
		if lost++; lost < mayFail {
			rest, err = rest[1:], nil
		}
	}
	if len(turns) == 0 {
		return nil, errors.Join(err, errors.New("no turn worked"))
	}
	lines := b.hostileResults(turns)
	lines[0].details = append(append(lines[0].details, failed...), "load average of the machine when the row began: "+load)
	return lines, err
}

// mayFail is how many rounds of a row may fail before it is given up.
const mayFail = 3

// hostileTurns are the faults in their turns.
func (o *options) hostileTurns() (all []hostileFault) {
	for range o.hostile.rounds {
		all = append(all, o.hostile.faults...)
	}
	return all
}

// hostileOn runs turns on a fresh node, up to one that fails.
func (c *bed) hostileOn(ctx context.Context, attempt int, faults []hostileFault) (turns []hostileTurn, err error) {
	defer check.Return(&err)
	r := check.Must(c.join(ctx, c.agent(troupeName)))
	defer r.leave(&err)
	// Names that no pod has had: the watch may still tell of those of a turn that failed.
	good := check.Must(r.newDisks(ctx, "good", false, names(fmt.Sprint("other", attempt), c.hostile.pods)))
	defer good.end(&err)
	bad := check.Must(r.newDisks(ctx, "bad", true, names(fmt.Sprint("bad", attempt), 2)))
	defer bad.end(&err)
	// The first pods of a node take longer.
	check.Must2(bad.beside(ctx, good, csidriver.Fault{Method: "NodePublishVolume"}, false))
	for _, f := range faults {
		turn := check.Must(bad.turn(ctx, good, f))
		turns = append(turns, turn)
		c.say("  %s", turn)
	}
	return turns, nil
}

// turn is a fault, between two rounds without.
func (d *disks) turn(ctx context.Context, others *disks, f hostileFault) (t hostileTurn, err error) {
	t.fault = f
	for i := range 3 {
		with, amiss := &t.healthy, i == 1
		if amiss {
			with = &t.amiss
		}
		one, calls, err := d.beside(ctx, others, f.Fault, amiss)
		if err != nil {
			return t, err
		}
		with.add(one)
		if amiss {
			t.calls = calls
		}
	}
	return t, nil
}

func (b *bench) hostileResults(turns []hostileTurn) []result {
	const limit = 1.1
	var healthy, amiss hostileRound
	var texts []string
	for _, t := range turns {
		healthy.add(t.healthy)
		amiss.add(t.amiss)
		texts = append(texts, t.String())
	}
	which := "each call of a CSI driver fails, hangs and is late in turns"
	if len(b.hostile.faults) < len(hostileFaults()) {
		which = fmt.Sprintf("calls of a CSI driver have %d faults in turns", len(b.hostile.faults))
	}
	line := func(what string, get func(hostileRound) samples) result {
		usual, during := get(healthy), get(amiss)
		ratio := during.median().Seconds() / usual.median().Seconds()
		var ratios []float64
		for _, t := range turns {
			ratios = append(ratios, get(t.amiss).median().Seconds()/get(t.healthy).median().Seconds())
		}
		return result{
			section: volumes, bar: "≤ 1.1 × beside the healthy driver", floor: ms(usual.median()) + " beside the healthy driver", measured: ms(during.median()),
			what:  fmt.Sprintf("%s: %d pods of another driver %s, the median pod", which, b.hostile.pods, what),
			ratio: fmt.Sprintf("%.2f ×", ratio), verdict: verdict(ratio <= limit),
			details: []string{
				fmt.Sprintf("beside the healthy driver: %s, p99 %s", usual.quantiles(), ms(usual.quantile(0.99))),
				fmt.Sprintf("while a call fails, hangs or is late: %s, p99 %s", during.quantiles(), ms(during.quantile(0.99))),
				fmt.Sprintf("ratios of the medians, fault by fault: the median %.2f, all %.2f", middle(ratios), ratios),
			},
		}
	}
	lines := []result{
		line("start", func(h hostileRound) samples { return h.starts }),
		line("stop", func(h hostileRound) samples { return h.stops }),
	}
	lines[0].details = append(lines[0].details, texts...)
	return lines
}

// comeAndGo has a pod with each volume start, all at once, and then go.
func (d *disks) comeAndGo(ctx context.Context) (one hostileRound, err error) {
	defer check.Return(&err)
	one.starts = check.Must(d.node.start(ctx, d.with, d.volumes...))
	one.stops = check.Must(d.node.remove(ctx, d.volumes...))
	return one, d.unused(ctx)
}

// beside has pods of others come and go while a pod of this driver begins and another one ends. amiss: the call of f suffers
// it. Whether or not, the others come once that was called. It tells how often that was. In the end both pods come and go.
func (d *disks) beside(ctx context.Context, others *disks, f csidriver.Fault, amiss bool) (one hostileRound, calls int, err error) {
	defer check.Return(&err)
	begins, ends := d.volumes[0], d.volumes[1]
	check.OK(d.shrunk(ctx, begins))
	check.Must(d.node.start(ctx, d.with, ends))
	began := time.Now()
	if !amiss {
		f = csidriver.Fault{Method: f.Method} // which the call does not notice, but it is written down
	}
	check.OK(d.Set(ctx, f))
	check.Must(d.node.create(ctx, d.with, begins))
	check.OK(d.node.delete(ctx, ends))
	called := func() (n int, err error) {
		n = d.Hanging(ctx, f.Method)
		all, err := d.Calls()
		for _, c := range all {
			if c.Method == f.Method && c.Began.After(began) {
				n++
			}
		}
		return n, err
	}
	check.OK(lab.Eventually(ctx, podPatience, f.Method+" is called", func() error {
		n, err := called()
		if err == nil && n == 0 {
			err = errors.New("it was not")
		}
		return err
	}))
	one = check.Must(others.comeAndGo(ctx))
	calls = check.Must(called())
	check.OK(d.End(ctx, f.Method))
	return one, calls, d.rest(ctx, begins, ends)
}

// rest waits until the pod that begins is ready and the one that ends is gone, and removes the former.
func (d *disks) rest(ctx context.Context, begins, ends string) (err error) {
	defer check.Return(&err)
	check.Must(d.node.seen.await(ctx, "is Ready", (*history).readyAt, begins))
	check.Must(d.node.remove(ctx, begins))
	check.Must(d.node.seen.await(ctx, "is gone", (*history).goneAt, ends))
	d.node.seen.drop(ends)
	return d.unused(ctx)
}
