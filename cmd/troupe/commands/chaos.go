package commands

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// The exit codes of troupe chaos besides exitFailed and exitInterrupted.
const (
	exitViolated = 3
	exitStale    = 4
)

// pairsLife is the life of one pod that pairs of faults are tried on.
const pairsLife = "plain"

// mostNodes of a case.
const mostNodes = 100

// chaosFlags are the flags of troupe chaos.
type chaosFlags struct {
	workers int
	keep    bool
	pairs   bool
	json    bool
	report  string
	nodes   int
	private bool
	panics  bool
	limit   time.Duration
	shard   shard
}

func newChaosCommand() *cobra.Command {
	var f chaosFlags
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Find faults that break a simulated node",
		Long: `Run cases against the actors of the node agent, on a simulated machine. A case says what is
done to a node (operations), and what fails (faults). It is text, with one operation or fault
on each line, or between semicolons. The rules of docs/invariants.md are checked at every step,
and at the end of a case all pods and nodes must be as they should.

  troupe chaos run 'create web main=app ready=app; on web Ready: kill-agent'
  troupe chaos run 'create job main=app restart=Never app.run-for=2s;
                    fault call StartContainer job/app #1 = hang'
  troupe chaos sweep
  troupe chaos seeds 1..1000 --report failures/
  troupe chaos replay failures/

Exit codes: 3 if a rule was violated; 4 if a case of run or replay is stale (a fault or an
operation of it was never reached); 130 if the run was interrupted, after what was
found until then was printed; 1 if the command could not be run.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	flags := c.PersistentFlags()
	flags.IntVar(&f.workers, "workers", 0, "number of cases to run at once (default: one for each CPU)")
	flags.BoolVar(&f.keep, "keep-going", false, "run all cases, instead of stopping at the first violation")
	flags.BoolVar(&f.json, "json", false, "print the outcome as JSON")
	flags.StringVar(&f.report, "report", "",
		"FILE.html to write a page about the case to, or of many cases about the first that violated a rule; "+
			"or a directory for a page about each, and a file cases.txt for replay")
	flags.DurationVar(&f.limit, "shrink", 20*time.Second,
		"how long to look for a smaller case that violates the same rule; 0 for not at all")
	run := &cobra.Command{
		Use:   "run CASE",
		Short: "Run one case, given as text or as @FILE",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	replay := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run all cases of a file: text, or what run, sweep or seeds has printed or reported",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.replay(c, args[0]) },
	}
	shrink := &cobra.Command{
		Use:   "shrink CASE",
		Short: "Minimize a failing case: leave out what it does not need to violate its rule",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.shrink(c, args[0]) },
	}
	sweep := &cobra.Command{
		Use:   "sweep [LIFE...]",
		Short: "Run single faults at every point of recorded lives of pods (default: all lives)",
		RunE:  f.sweep,
	}
	sweep.Flags().BoolVar(&f.pairs, "pairs", false,
		"test pairs of faults on each life (default: "+pairsLife+"); skip a pair whose second fault hits a node state "+
			"in which it was already tested")
	seeds := &cobra.Command{
		Use:   "seeds FROM..TO",
		Short: "Run random cases for a range of seeds; each is compared with the same case without faults",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.seeds(c, args[0]) },
	}
	seeds.Flags().IntVar(&f.nodes, "nodes", 0,
		"number of nodes of the cluster that cases run on (default: one node without a control plane)")
	seeds.Flags().BoolVar(&f.private, "private", false,
		"pods of each case use an image that needs a credential, half of them without one")
	seeds.Flags().BoolVar(&f.panics, "panics", false,
		"half of the faults are panics of the agent's own code within ports, and calls that take much memory")
	seeds.MarkFlagsMutuallyExclusive("nodes", "private")
	for _, many := range []*cobra.Command{replay, sweep, seeds} {
		many.Flags().Var(&f.shard, "shard", "run only part I of N of the cases, I from 0 to N-1: I/N")
	}
	sweep.MarkFlagsMutuallyExclusive("pairs", "shard")
	c.AddCommand(run, replay, shrink, sweep, seeds)
	c.AddCommand(chaosOnNodes(&f)...)
	return c
}

func (f *chaosFlags) run(c *cobra.Command, arg string) error {
	given, err := readCase(arg)
	if err != nil {
		return err
	}
	o, err := newOutcome(f, c, 1)
	if err != nil {
		return err
	}
	defer o.close()
	o.strict, o.one = true, true
	o.add(chaos.Twinned(given))
	return o.end()
}

func (f *chaosFlags) replay(c *cobra.Command, file string) error {
	cases, err := readCases(file)
	if err != nil {
		return err
	}
	from, to := f.shard.of(uint64(len(cases)))
	o, err := newOutcome(f, c, to-from)
	if err != nil {
		return err
	}
	defer o.close()
	o.strict, o.keep = true, true
	chaos.Replay(c.Context(), cases[from:to], f.workers, o.add)
	return o.end()
}

func (f *chaosFlags) shrink(c *cobra.Command, arg string) error {
	given, err := readCase(arg)
	if err != nil {
		return err
	}
	if f.limit <= 0 {
		return errors.New("--shrink 0: shrinking needs time: give a longer duration, or leave the flag out")
	}
	r := chaos.Twinned(given)
	if r.Verdict() != chaos.Violated {
		return fmt.Errorf("the case violates no rule: it is %s", r.Verdict())
	}
	r = chaos.Shrink(c.Context(), r, f.limit)
	if _, err = fmt.Fprint(c.OutOrStdout(), r.Case); err == nil && c.Context().Err() != nil {
		err = errInterrupted
	}
	return err
}

func (f *chaosFlags) sweep(c *cobra.Command, names []string) error {
	lives, err := f.lives(names)
	if err != nil {
		return err
	}
	if f.pairs {
		return f.sweepPairs(c, lives)
	}
	total := uint64(0)
	cases := make([][]*plan.Case, len(lives))
	for i, l := range lives {
		cases[i] = append([]*plan.Case{l.Case}, chaos.Singles(l)...)
		total += uint64(len(cases[i]))
	}
	from, to := f.shard.of(total)
	o, err := newOutcome(f, c, to-from)
	if err != nil {
		return err
	}
	defer o.close()
	at := uint64(0)
	for i, cases := range cases {
		n := uint64(len(cases))
		mine := cases[min(max(from, at)-at, n):min(max(to, at)-at, n)]
		at += n
		if len(mine) == 0 {
			continue
		}
		before := o.tally.Cases
		chaos.Each(c.Context(), mine, f.workers, o.add)
		o.printf("%-16s %6d cases, %s\n", lives[i].Name, o.tally.Cases-before, o.sums())
		if o.stopped() {
			break
		}
	}
	return o.end()
}

// lives are those of the names, all if there are none.
func (f *chaosFlags) lives(names []string) (out []chaos.Life, err error) {
	known := map[string]chaos.Life{}
	var all []string
	for _, l := range chaos.Lives() {
		known[l.Name] = l
		all = append(all, l.Name)
	}
	switch {
	case len(names) > 0:
	case f.pairs:
		names = []string{pairsLife}
	default:
		names = all
	}
	for _, name := range names {
		l, is := known[name]
		if !is {
			return nil, fmt.Errorf("unknown life %q; lives are: %s", name, strings.Join(all, " "))
		}
		out = append(out, l)
	}
	return out, nil
}

// sweepPairs: how many pairs there are shows only while they are run.
func (f *chaosFlags) sweepPairs(c *cobra.Command, lives []chaos.Life) error {
	o, err := newOutcome(f, c, 0)
	if err != nil {
		return err
	}
	defer o.close()
	for _, l := range lives {
		n := chaos.Pairs(c.Context(), l, f.workers, o.add)
		o.printf("%-16s %6d single faults, %d pairs, %d pruned, %d run, %s\n", l.Name, n.Singles, n.Pairs, n.Pairs-n.Run,
			o.tally.Cases, o.sums())
		if o.stopped() {
			break
		}
	}
	return o.end()
}

func (f *chaosFlags) seeds(c *cobra.Command, arg string) error {
	first, last, err := seedRange(arg)
	if err != nil {
		return err
	}
	profile := plan.Profile{Private: f.private}
	switch {
	case f.nodes < 0 || f.nodes > mostNodes:
		return fmt.Errorf("--nodes: %d: must be from 1 to %d", f.nodes, mostNodes)
	case f.nodes > 0:
		profile = plan.Cluster(f.nodes)
	}
	profile.Panics = f.panics
	from, to := f.shard.of(last - first + 1)
	o, err := newOutcome(f, c, to-from)
	if err != nil {
		return err
	}
	defer o.close()
	if from < to {
		chaos.Seeds(c.Context(), first+from, first+to-1, f.workers, profile, o.add)
	}
	return o.end()
}
