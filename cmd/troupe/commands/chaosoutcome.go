package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/simtable"
	"github.com/troupe-dev/troupe/supervisor/chaos"
)

// outcome is what a command has found, and prints.
type outcome struct {
	f        *chaosFlags
	ctx      context.Context
	to, errs io.Writer
	// keep is not to stop at a violation; strict that a stale case fails; one that the only case
	// is reported whatever it shows.
	keep, strict, one bool
	pages             *pages

	total       uint64
	tally       chaos.Summary
	begin, told time.Time
	bar         *simtable.Bar // nil without a terminal
}

// newOutcome fails, before any work, if the report can't be written.
func newOutcome(f *chaosFlags, c *cobra.Command, total uint64) (*outcome, error) {
	pages, err := newPages(f.report)
	if err != nil {
		return nil, err
	}
	o := &outcome{
		f: f, ctx: c.Context(), to: c.OutOrStdout(), errs: c.ErrOrStderr(), keep: f.keep, pages: pages,
		total: total, begin: time.Now(), told: time.Now(),
	}
	if isTerminal(o.errs) {
		o.bar = simtable.NewBar(o.errs, time.Now)
	}
	return o, nil
}

func (o *outcome) close() { o.pages.discard() }

// add counts a result, and reports whether to go on.
func (o *outcome) add(r *chaos.Result) bool {
	o.tally.Add(r)
	switch v := r.Verdict(); {
	case v == chaos.Violated && o.keep:
		o.printf("%s%s\n  %s\n\n", violatedLine, r.Violations[0], r.Case.Line())
	case v == chaos.Stale && o.strict && !o.one:
		o.printf("stale\n  %s\n", r.Case.Line())
		for _, what := range r.Unreached {
			o.printf("  never happened: %s\n", what)
		}
	}
	o.progress()
	return r.Verdict() != chaos.Violated || o.keep
}

// lineEach is how often progress is a line of its own, without a terminal.
const lineEach = 10 * time.Second

// progress says on stderr how far the run is.
func (o *outcome) progress() {
	if o.bar != nil {
		o.bar.Say(o.far)
		return
	}
	if time.Since(o.told) >= lineEach {
		o.told = time.Now()
		_, _ = fmt.Fprintln(o.errs, o.far()) // nobody can be told
	}
}

func (o *outcome) far() string {
	struck := 0
	for _, row := range o.tally.Coverage() {
		struck += row.Cases - row.Stale
	}
	rate := float64(o.tally.Cases) / time.Since(o.begin).Seconds()
	of, left := "", ""
	if o.total > 0 {
		of = fmt.Sprintf(" of %d", o.total)
		rest := float64(o.total-uint64(o.tally.Cases)) / rate * float64(time.Second)
		left = fmt.Sprintf(", %s left", time.Duration(rest).Round(time.Second))
	}
	return fmt.Sprintf("%d%s cases, %.0f a second%s, %d faults reached, %s", o.tally.Cases, of, rate, left, struck,
		o.sums())
}

// printf writes for people: not with --json. Nobody can be told where that fails.
func (o *outcome) printf(format string, args ...any) {
	if o.f.json {
		return
	}
	if o.bar != nil {
		o.bar.Clear()
	}
	_, _ = fmt.Fprintf(o.to, format, args...)
}

func (o *outcome) stopped() bool {
	return o.ctx.Err() != nil || o.tally.Violated > 0 && !o.keep
}

func (o *outcome) sums() string {
	return fmt.Sprintf("%d held, %d violated, %d stale", o.tally.Held, o.tally.Violated, o.tally.Stale)
}

// failureJSON and outcomeJSON are what --json prints.
type failureJSON struct {
	Rule string `json:"rule"`
	Pod  string `json:"pod,omitempty"`
	What string `json:"what"`
	Case string `json:"case"`
	// Page is the file of the report about it.
	Page string `json:"page,omitempty"`
}

type sometimesJSON struct {
	Reached int `json:"reached"`
	Total   int `json:"total"`
}

type outcomeJSON struct {
	Cases         int            `json:"cases"`
	Held          int            `json:"held"`
	Violated      int            `json:"violated"`
	Stale         int            `json:"stale"`
	Failures      []failureJSON  `json:"failures"`
	FaultsReached map[string]int `json:"faultsReached"`
	Coverage      []chaos.Row    `json:"coverage"`
	// KilledBetween is what was covered of kill -9 before and after messages.
	KilledBetween chaos.Row     `json:"killedBetween"`
	Sometimes     sometimesJSON `json:"sometimes"`
	SimSeconds    float64       `json:"simSeconds"`
	WallSeconds   float64       `json:"wallSeconds"`
	TraceHash     string        `json:"traceHash"`
	Interrupted   bool          `json:"interrupted,omitempty"`
}

// end shrinks, prints and reports what was violated, and gives the exit code.
func (o *outcome) end() error {
	const most = 10 // failures that are shrunk and shown
	out := outcomeJSON{
		Cases: o.tally.Cases, Held: o.tally.Held, Violated: o.tally.Violated, Stale: o.tally.Stale,
		Failures: []failureJSON{}, FaultsReached: map[string]int{}, SimSeconds: o.tally.Simulated.Seconds(),
		Coverage: o.tally.Coverage(), KilledBetween: o.tally.Boundaries(),
		TraceHash: fmt.Sprintf("%016x", o.tally.Hash), Interrupted: o.ctx.Err() != nil && uint64(o.tally.Cases) != o.total,
	}
	reached, names := o.tally.Rarest()
	out.Sometimes = sometimesJSON{reached, len(names)}
	for _, row := range out.Coverage {
		out.FaultsReached[string(row.Stream)+" "+string(row.Effect)] = row.Cases - row.Stale
	}
	for _, r := range o.tally.Failures[:min(most, len(o.tally.Failures))] {
		if o.f.limit > 0 {
			r = chaos.Shrink(o.ctx, r, o.f.limit)
		}
		page, err := o.pages.add(r)
		if err != nil {
			return err
		}
		v := r.Violations[0]
		out.Failures = append(out.Failures,
			failureJSON{Rule: v.ID, Pod: v.Pod.Name, What: v.What, Case: r.Case.Line(), Page: page})
		if !o.keep || o.f.limit > 0 { // or it was told when it was found
			o.printf("%s%s\n%s\n", violatedLine, v, r.Case)
		}
	}
	if o.one && o.tally.Violated == 0 {
		if _, err := o.pages.add(o.tally.Last); err != nil {
			return err
		}
	}
	if err := o.pages.end(); err != nil {
		return err
	}
	out.WallSeconds = time.Since(o.begin).Seconds()
	if err := o.show(out); err != nil {
		return err
	}
	switch {
	case o.tally.Violated > 0:
		return exitError{code: exitViolated, text: "a rule was violated"}
	case out.Interrupted:
		return errInterrupted
	case o.strict && o.tally.Stale > 0:
		return exitError{code: exitStale, text: o.staleText()}
	}
	return nil
}

func (o *outcome) show(out outcomeJSON) error {
	if o.f.json {
		e := json.NewEncoder(o.to)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(out)
	}
	if out.Interrupted {
		o.printf("interrupted: results until then\n")
	}
	o.printf("%d cases, %s; %s of simulated time, %d messages, in %s\n", o.tally.Cases, o.sums(),
		o.tally.Simulated.Round(time.Second), o.tally.Messages, time.Since(o.begin).Round(time.Millisecond))
	for _, line := range o.tally.CoverageTable() {
		o.printf("  %s\n", line)
	}
	if !o.one {
		reached, names := o.tally.Rarest()
		o.printf("%d of %d rare states reached\n", reached, len(names))
		for _, name := range names {
			o.printf("  %8d cases: %s\n", o.tally.Sometimes[name], name)
		}
	}
	return nil
}

func (o *outcome) staleText() string {
	if o.one {
		return "the case is stale: these never happened: " + strings.Join(o.tally.Last.Unreached, "; ")
	}
	return fmt.Sprintf("%d cases are stale: a fault or an operation of them never happened", o.tally.Stale)
}
