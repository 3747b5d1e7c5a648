// Command bench measures the agent against what the runtime alone can do, on the same machine, in
// the same run, and writes docs/benchmarks.md.
//
// The floor of a row is the same work done by direct CRI calls and nothing else, with no agent
// running. When a program runs is told by the program itself: it appends to a file of the host as
// the first thing it does, for the floor as for the agent, and nobody is asked or disturbed.
//
// It fails if something is wrong: a pod lost, doubled, restarted for no reason or left behind. A
// bar that is missed is a verdict in the table and no failure, as the machine may be busy.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// row is a row of a table, or several. rows holds them in the order of the tables.
type row struct {
	section section
	name    string
	measure func(*bench, context.Context) ([]result, error)
}

var rows = []row{
	{alone, "one", (*bench).one},
	{alone, "burst", (*bench).manyAtOnce},
	{alone, "restart", (*bench).restart},
	{alone, "idle", (*bench).idlePods},
	{alone, "takeover", (*bench).takeover},
	{alone, "hung", (*bench).hung},
	{alone, "panic", (*bench).panic},
	{alone, "runtime", (*bench).runtime},
	{cluster, "cluster-one", (*bench).clusterOne},
	{cluster, "cluster-burst", (*bench).clusterBursts},
	{cluster, "cluster-crash", (*bench).clusterCrash},
	{cluster, "cluster-start", (*bench).clusterStart},
	{cluster, "cluster-events", (*bench).clusterEvents},
	{cluster, "cluster-hundred", (*bench).clusterHundred},
	{cluster, "cluster-killed", (*bench).clusterKilled},
	{cluster, "cluster-devices", (*bench).clusterDevices},
	{cluster, "cluster-eviction", (*bench).clusterEviction},
	{volumes, "cluster-csi", (*bench).clusterCSI},
	{volumes, "cluster-csi-hostile", (*bench).clusterHostile},
	{shortages, "cluster-hog", (*bench).clusterHog},
	{shortages, "cluster-filler", (*bench).clusterFiller},
	{shutdowns, "cluster-shutdown", (*bench).clusterShutdown},
	{simulation, "world-determinism", (*bench).worldDeterminism},
	{simulation, "world-scale", (*bench).worldScale},
	{simulation, "world-memory", (*bench).worldMemory},
	{simulation, "world-speed", (*bench).worldSpeed},
	{simulation, "world-growth", (*bench).worldGrowth},
	{simulation, "world-soak", (*bench).worldSoak},
	{simulation, "live", (*bench).live},
}

func rowNames() []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}

// options are what the user may choose.
type options struct {
	rows    []string
	release lab.Release
	samples int // of one pod
	rounds  int // of a burst
	atOnce  int // pods at once
	idle    int // idle pods
	window  time.Duration
	seeds   int           // of the determinism of a simulated world
	soak    time.Duration // of simulated time
	// simNodes are those of the largest simulated world.
	simNodes int
	beside   []string // other builds of the agent
	hostile  hostileOptions
	out      string
	keep     bool
	floor    bool
	quick    bool
	// chosen are the flags that change what is measured, as they were given.
	chosen []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	rowList := flags.String("rows", strings.Join(rowNames(), ","), "rows to measure")
	release := flags.String("release", "2", "containerd's release (row restart measures 1.6 as well)")
	quick := flags.Bool("quick", false, "fewer samples and pods: a smoke test")
	flags.IntVar(&o.samples, "samples", 15, "number of samples of one pod")
	flags.IntVar(&o.rounds, "rounds", 3, "number of rounds of --pods")
	flags.IntVar(&o.atOnce, "pods", 30, "number of pods created at once")
	flags.IntVar(&o.idle, "idle-pods", 100, "number of idle pods")
	flags.IntVar(&o.seeds, "seeds", 100, "number of seeds of the simulated world, each run twice (100 take one to two minutes; the bar is for 1000)")
	flags.DurationVar(&o.soak, "soak", 24*time.Hour, "simulated time of the soak, at least 8h")
	flags.IntVar(&o.simNodes, "sim-nodes", worldNodes, "nodes of the largest simulated world, 30 pods each: 100, 1000 or 5000")
	flags.DurationVar(&o.window, "window", time.Minute, "how long idle CPU is measured")
	flags.StringVar(&o.out, "out", "", "file to write the fully measured sections to (default docs/benchmarks.md; none with --quick or --floor-only)")
	flags.Func("beside", "another build of the agent, measured by rows cluster-events and cluster-eviction in turns with this build; may be repeated", func(path string) error {
		o.beside = append(o.beside, path)
		return nil
	})
	hostile := o.hostile.flags(flags)
	flags.BoolVar(&o.keep, "keep", false, "keep the agent's log and containerd's")
	flags.BoolVar(&o.floor, "floor-only", false, "measure only the floors, without an agent")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "out" && f.Name != "keep" {
			o.chosen = append(o.chosen, "--"+f.Name+"="+f.Value.String())
		}
	})
	o.rows = strings.Split(*rowList, ",")
	for _, name := range o.rows {
		if !slices.Contains(rowNames(), name) {
			return o, fmt.Errorf("--rows: no row %q; there are %s", name, strings.Join(rowNames(), ","))
		}
	}
	if o.quick = *quick; o.quick {
		o.samples, o.rounds, o.atOnce, o.idle, o.window = 4, 1, 8, 12, 10*time.Second
		o.seeds, o.soak, o.simNodes = 6, 8*time.Hour, 100
		o.hostile.pods, o.hostile.rounds = 3, 1
	}
	if o.samples < 1 || o.rounds < 1 || o.atOnce < 1 || o.idle < 10 || o.window < time.Second {
		return o, errors.New("--samples, --rounds and --pods are at least 1, --idle-pods 10, --window 1s")
	}
	if o.seeds < 1 || o.soak < 8*time.Hour || !slices.Contains([]int{100, 1000, worldNodes}, o.simNodes) {
		return o, errors.New("--seeds is at least 1, --soak at least 8h, --sim-nodes 100, 1000 or 5000")
	}
	if err := hostile(); err != nil {
		return o, err
	}
	var err error
	o.release, err = lab.ParseRelease(*release)
	if o.out == "" && !*quick && !o.floor {
		o.out = "docs/benchmarks.md"
	}
	return o, err
}

// bench is one run.
type bench struct {
	options
	repository string
	dir        string // all that is written
	binary     string
	registry   *lab.Registry
	labs       map[lab.Release]*lab.Lab
	bed        *bed // nil until a row needs a cluster
	// benchmarks are those of the simulated world that were run, by name and nodes.
	benchmarks map[string]map[string]float64
	// wrong is what is not a matter of speed.
	wrong []string
}

func run(ctx context.Context, args []string) (err error) {
	defer check.Return(&err)
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	b := &bench{options: o, labs: map[lab.Release]*lab.Lab{}, benchmarks: map[string]map[string]float64{}}
	b.repository = check.Must(lab.Repository())
	for _, r := range b.release.Needs() {
		if err := r.Missing(); err != nil {
			return fmt.Errorf("needs %s: %w", r, err)
		}
	}
	b.dir = filepath.Join(b.repository, ".run/bench")
	check.OK(os.MkdirAll(b.dir, 0o755))
	defer func() { err = errors.Join(err, b.cleanup()) }()
	b.registry = check.Must(lab.NewRegistry())
	check.OK(b.registry.PushDemoImages(ctx, b.repository))
	if !b.floor {
		b.say("building the agent")
		b.binary = check.Must(lab.BuildTroupe(ctx, b.repository, false))
	}
	results := b.measure(ctx)
	report := b.report(ctx, results)
	fmt.Println("\n" + document("", report))
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if b.out != "" {
		file := b.out
		if !filepath.IsAbs(file) {
			file = filepath.Join(b.repository, file)
		}
		check.OK(b.write(file, report))
	}
	if len(b.wrong) > 0 {
		return fmt.Errorf("wrong, whatever the speed:\n  %s", strings.Join(b.wrong, "\n  "))
	}
	return nil
}

// write replaces the sections of a document of which all rows were measured.
func (b *bench) write(file string, report map[string]string) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, in := range sections {
		for _, r := range rows {
			if r.section == in.section && !slices.Contains(b.rows, r.name) && report[in.title] != "" {
				b.say("row %s was not measured: the section %q is left as it is", r.name, in.title)
				delete(report, in.title)
			}
		}
	}
	if len(report) == 0 {
		return nil
	}
	if err := os.WriteFile(file, []byte(document(string(old), report)), 0o644); err != nil {
		return err
	}
	b.say("written to %s", file)
	return nil
}

func (b *bench) measure(ctx context.Context) []result {
	var all []result
	for _, r := range rows {
		if !slices.Contains(b.rows, r.name) || ctx.Err() != nil {
			continue
		}
		b.say("row %s", r.name)
		begin := time.Now()
		results, err := r.measure(b, ctx)
		if err != nil {
			b.fault("row %s: %v", r.name, err)
			if len(results) == 0 {
				results = []result{{what: "row " + r.name, measured: "not measured", verdict: "failed"}}
			}
		}
		for _, result := range results {
			b.say("  %s | %s | %s", result.what, result.measured, result.verdict)
		}
		b.say("row %s took %.0f s", r.name, time.Since(begin).Seconds())
		all = append(all, results...)
	}
	return all
}

// say prints progress.
func (b *bench) say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// fault notes something that is wrong whatever the speed.
func (b *bench) fault(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	b.say("  WRONG: %s", text)
	b.wrong = append(b.wrong, text)
}

// lab starts the release's containerd the first time it is asked for, and pulls the images.
func (b *bench) lab(ctx context.Context, release lab.Release) (_ *lab.Lab, err error) {
	defer check.Return(&err)
	if l := b.labs[release]; l != nil {
		return l, nil
	}
	l := check.Must(lab.New(ctx, lab.Config{
		Dir: filepath.Join(b.dir, "containerd-"+string(release)), Release: release,
		Registry: b.registry, Repository: b.repository, NodeNetwork: true, Log: os.Stdout,
	}))
	b.labs[release] = l
	check.OK(l.Start(ctx))
	if err := l.RemovePods(ctx); err != nil {
		return nil, fmt.Errorf("remove the pods of an earlier run: %w", err)
	}
	for _, image := range []string{lab.PauseImage, lab.WorkImage} {
		check.OK(pull(ctx, l, image))
	}
	return l, nil
}

func (b *bench) cleanup() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var err error
	if b.bed != nil {
		err = b.bed.close()
	}
	for _, l := range b.labs {
		err = errors.Join(err, l.Cleanup(ctx))
	}
	if b.registry != nil {
		err = errors.Join(err, b.registry.Close())
	}
	if b.keep {
		return err
	}
	if e := lab.Unmount(b.dir); e != nil {
		return errors.Join(err, e)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}
