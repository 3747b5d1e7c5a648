package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// The exit codes of troupe chaos besides exitFailed.
const (
	exitViolated = 3
	exitStale    = 4
)

// chaosError is what a case has shown, with its exit code.
type chaosError struct {
	code int
	text string
}

func (e chaosError) Error() string { return e.text }

// pairsLife is the life of one pod that pairs of faults are tried on.
const pairsLife = "plain"

// chaosFlags are the flags of troupe chaos.
type chaosFlags struct {
	workers int
	keep    bool
	pairs   bool
	json    bool
	limit   time.Duration
}

func newChaosCommand() *cobra.Command {
	var f chaosFlags
	c := &cobra.Command{
		Use:   "chaos",
		Short: "Find what breaks a node, in a simulated world",
		Long: `Run cases against the actors of the node agent, on a simulated machine: what is done
to a node, and what goes wrong. A case is text, one line for each operation and fault,
or parts between semicolons. Each is held against the rules of docs/invariants.md, and
at its end all must be well.

  troupe chaos run 'create web main=app ready=app; on web Ready: kill-agent'
  troupe chaos run 'create job main=app restart=Never app.run-for=2s;
                    fault call StartContainer job/app #1 = hang'
  troupe chaos sweep
  troupe chaos seeds 1..1000

Exit codes: 3 if a rule was violated, 4 if the case of run is stale (a fault or an
operation of it was never reached), 1 if the command could not be run.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().IntVar(&f.workers, "workers", 0, "cases to run at once (default: one for each CPU)")
	c.PersistentFlags().BoolVar(&f.keep, "keep-going", false, "run all cases, instead of stopping at the first violation")
	c.PersistentFlags().BoolVar(&f.json, "json", false, "print the outcome as JSON")
	c.PersistentFlags().DurationVar(&f.limit, "shrink", 20*time.Second,
		"how long to look for a smaller case that violates the same rule; 0 for not at all")
	run := &cobra.Command{
		Use:   "run CASE",
		Short: "Run one case, given as text or as @FILE",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	shrink := &cobra.Command{
		Use:   "shrink CASE",
		Short: "Take away from a case what it does not need to violate its rule",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.shrink(c, args[0]) },
	}
	sweep := &cobra.Command{
		Use:   "sweep [LIFE...]",
		Short: "Run every single fault at every point of the lives of pods (all if none is given)",
		RunE:  f.sweep,
	}
	sweep.Flags().BoolVar(&f.pairs, "pairs", false,
		"run pairs of faults on each life ("+pairsLife+" if none is given), but those that strike a node in a state "+
			"in which the same fault struck it before")
	seeds := &cobra.Command{
		Use:   "seeds FROM..TO",
		Short: "Run the cases of seeds, each beside its twin without faults",
		Args:  cobra.ExactArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return f.seeds(c, args[0]) },
	}
	c.AddCommand(run, shrink, sweep, seeds, newChaosLiveCommand(&f))
	return c
}

// readCase reads a case from an argument.
func readCase(arg string) (*plan.Case, error) {
	name, isFile := strings.CutPrefix(arg, "@")
	if !isFile {
		return plan.Parse(arg)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := plan.Parse(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func (f *chaosFlags) run(c *cobra.Command, arg string) error {
	given, err := readCase(arg)
	if err != nil {
		return err
	}
	o := newOutcome(f, c.OutOrStdout())
	o.add(chaos.Run(given))
	return o.end()
}

func (f *chaosFlags) shrink(c *cobra.Command, arg string) error {
	given, err := readCase(arg)
	if err != nil {
		return err
	}
	r := chaos.Run(given)
	if r.Verdict() != chaos.Violated {
		return fmt.Errorf("the case violates no rule: it is %s", r.Verdict())
	}
	r = chaos.Shrink(r, f.limit)
	_, err = fmt.Fprint(c.OutOrStdout(), r.Case)
	return err
}

func (f *chaosFlags) sweep(c *cobra.Command, names []string) error {
	o := newOutcome(f, c.OutOrStdout())
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
		if _, is := known[name]; !is {
			return fmt.Errorf("there is no life %q, but: %s", name, strings.Join(all, " "))
		}
	}
	for _, name := range names {
		if f.pairs {
			n := chaos.Pairs(c.Context(), known[name], f.workers, o.add)
			o.printf("%-16s %6d single faults, %d pairs, %d pruned, %d run, %s\n", name, n.Singles, n.Pairs, n.Pairs-n.Run,
				o.tally.Cases, o.sums())
			continue
		}
		before := o.tally.Cases
		chaos.Each(c.Context(), append([]*plan.Case{known[name].Case}, chaos.Singles(known[name])...), f.workers, o.add)
		if !f.json {
			o.printf("%-16s %6d cases, %s\n", name, o.tally.Cases-before, o.sums())
		}
		if o.stopped(c.Context()) {
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
	o := newOutcome(f, c.OutOrStdout())
	begin, told := time.Now(), time.Now()
	chaos.Seeds(c.Context(), first, last, f.workers, plan.Profile{}, func(r *chaos.Result) bool {
		if since := time.Since(told); since > 5*time.Second {
			told = time.Now()
			rate := float64(o.tally.Cases) / time.Since(begin).Seconds()
			left := time.Duration(float64(last-first+1-uint64(o.tally.Cases))/rate) * time.Second
			o.printf("%d cases, %.0f a second, %s left, %s\n", o.tally.Cases, rate, left, o.sums())
		}
		return o.add(r)
	})
	return o.end()
}

// seedRange reads FROM..TO, or one seed.
func seedRange(s string) (first, last uint64, err error) {
	from, to, both := strings.Cut(s, "..")
	if !both {
		to = from
	}
	if first, err = strconv.ParseUint(from, 10, 64); err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first > last {
		return 0, 0, fmt.Errorf("%q: want FROM..TO, two numbers of which the first is not larger", s)
	}
	return first, last, nil
}

// outcome is what a command prints.
type outcome struct {
	f     *chaosFlags
	to    io.Writer
	tally chaos.Tally
	begin time.Time
}

func newOutcome(f *chaosFlags, to io.Writer) *outcome {
	return &outcome{f: f, to: to, begin: time.Now()}
}

// add counts a result, and reports whether to go on.
func (o *outcome) add(r *chaos.Result) bool {
	o.tally.Add(r)
	if r.Verdict() == chaos.Violated && o.f.keep {
		o.printf("violated %s\n  %s\n", r.Violations[0], r.Case.Line())
	}
	return r.Verdict() != chaos.Violated || o.f.keep
}

// printf writes for people: not with --json. Nobody can be told where that fails.
func (o *outcome) printf(format string, args ...any) {
	if !o.f.json {
		_, _ = fmt.Fprintf(o.to, format, args...)
	}
}

func (o *outcome) stopped(ctx context.Context) bool {
	return ctx.Err() != nil || o.tally.Violated > 0 && !o.f.keep
}

func (o *outcome) sums() string {
	return fmt.Sprintf("%d held, %d violated, %d stale", o.tally.Held, o.tally.Violated, o.tally.Stale)
}

// failureJSON and outcomeJSON are what --json prints.
type failureJSON struct {
	Rule, Pod, What, Case string
}

type sometimesJSON struct {
	Reached int `json:"reached"`
	Total   int `json:"total"`
}

type outcomeJSON struct {
	Cases         int            `json:"cases"`
	Held          int            `json:"held"`
	Stale         int            `json:"stale"`
	Failures      []failureJSON  `json:"failures"`
	FaultsReached map[string]int `json:"faultsReached"`
	Coverage      []chaos.Row    `json:"coverage"`
	// KilledBetween is what was covered of kill -9 before and after messages.
	KilledBetween chaos.Row     `json:"killedBetween"`
	Sometimes     sometimesJSON `json:"sometimes"`
	SimSeconds    float64       `json:"simSeconds"`
	WallSeconds   float64       `json:"wallSeconds"`
	TraceHash     string        `json:"traceHash,omitempty"`
}

// end shrinks and prints what was violated, and gives the exit code.
func (o *outcome) end() error {
	const most = 10 // failures that are shrunk and shown
	out := outcomeJSON{
		Cases: o.tally.Cases, Held: o.tally.Held, Stale: o.tally.Stale, Failures: []failureJSON{},
		FaultsReached: map[string]int{}, SimSeconds: o.tally.Simulated.Seconds(),
		Coverage: o.tally.Coverage(), KilledBetween: o.tally.Boundaries(),
	}
	if o.tally.Cases == 1 {
		out.TraceHash = fmt.Sprintf("%016x", o.tally.Last.Hash)
	}
	reached, names := o.tally.Rarest()
	out.Sometimes = sometimesJSON{reached, len(names)}
	for _, r := range out.Coverage {
		out.FaultsReached[string(r.Stream)+" "+string(r.Effect)] = r.Cases - r.Stale
	}
	for _, r := range o.tally.Failures[:min(most, len(o.tally.Failures))] {
		if o.f.limit > 0 {
			r = chaos.Shrink(r, o.f.limit)
		}
		v := r.Violations[0]
		out.Failures = append(out.Failures, failureJSON{Rule: v.ID, Pod: v.Pod.Name, What: v.What, Case: r.Case.Line()})
		o.printf("\nviolated %s\n%s", v, r.Case)
	}
	out.WallSeconds = time.Since(o.begin).Seconds()
	if o.f.json {
		e := json.NewEncoder(o.to)
		e.SetIndent("", "  ")
		if err := e.Encode(out); err != nil {
			return err
		}
	} else {
		o.table()
	}
	switch {
	case o.tally.Violated > 0:
		return chaosError{exitViolated, "a rule was violated"}
	case o.tally.Cases == 1 && o.tally.Stale == 1:
		return chaosError{exitStale, "the case is stale: these never happened: " + strings.Join(o.tally.Last.Unreached, "; ")}
	}
	return nil
}

func (o *outcome) table() {
	o.printf("\n%d cases, %s; %s of simulated time, %d messages, in %s\n", o.tally.Cases, o.sums(),
		o.tally.Simulated.Round(time.Second), o.tally.Messages, time.Since(o.begin).Round(time.Millisecond))
	for _, line := range o.tally.CoverageTable() {
		o.printf("  %s\n", line)
	}
	o.rareStates()
}

// rareStates prints how often the rare states were reached, the rarest first.
func (o *outcome) rareStates() {
	reached, names := o.tally.Rarest()
	o.printf("%d of %d rare states reached\n", reached, len(names))
	for _, name := range names {
		o.printf("  %8d cases: %s\n", o.tally.Sometimes[name], name)
	}
}
