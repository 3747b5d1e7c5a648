package main

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// search is how a worker looks for a case that shows the mutant that is switched on in it.
type search struct {
	// Case is tried first, if it is not empty; with Only alone.
	Case string
	Only bool
	// Rounds of seeds and sweeps, see cases.
	Rounds int
	// Shrink is how long to look for a shorter case.
	Shrink time.Duration
}

// Finding is what a worker prints.
type Finding struct {
	Found bool
	// Rule was violated by Case, after Cases were run.
	Rule, What, Case string
	Cases            int
	// Crashes of actors in the cases that were run, for what no rule is about.
	Crashes int
}

// staleLife is found by no rule: a case without faults does not come to its end.
const staleLife = "stale"

// The first round has a case of each life, some seeds and a share of each sweep; later rounds have
// other seeds and other shares.
const (
	seedsPerRound = 150
	shares        = 32
)

// cases are the lives, and then rounds of seeds and of shares of the sweeps.
func (s *search) cases() iter.Seq[func() *chaos.Result] {
	run := func(c *plan.Case) func() *chaos.Result { return func() *chaos.Result { return chaos.Run(c) } }
	return func(yield func(func() *chaos.Result) bool) {
		if s.Case != "" {
			c, err := plan.Parse(s.Case)
			if err == nil && !yield(func() *chaos.Result { return besideTwin(c) }) || s.Only {
				return
			}
		}
		lives := chaos.Lives()
		for _, l := range lives {
			if !yield(run(l.Case)) {
				return
			}
		}
		singles := make([][]*plan.Case, len(lives))
		for round := range s.Rounds {
			for seed := range uint64(seedsPerRound) {
				if !yield(func() *chaos.Result { return seeded(uint64(round)*seedsPerRound + seed + 1) }) {
					return
				}
			}
			for i, l := range lives {
				if singles[i] == nil {
					singles[i] = chaos.Singles(l)
				}
				for k := (round*7 + i) % shares; k < len(singles[i]); k += shares {
					if !yield(run(singles[i][k])) {
						return
					}
				}
			}
		}
	}
}

// besideTwin runs a case, and once more without its faults, to compare the two.
func besideTwin(c *plan.Case) *chaos.Result {
	r := chaos.Run(c)
	if len(r.Violations) > 0 || len(c.Faults) == 0 {
		return r
	}
	twin := *c
	twin.Faults = nil
	if why := chaos.Beside(r, chaos.Run(&twin)); why != "" {
		r.Violations = append(r.Violations, invariants.Violation{ID: "L03", What: why})
	}
	return r
}

// seeded runs the case of one seed.
func seeded(seed uint64) (r *chaos.Result) {
	chaos.Seeds(context.Background(), seed, seed, 1, plan.Profile{}, func(got *chaos.Result) bool {
		r = got
		return true
	})
	return r
}

// find searches, and prints the finding.
func (s *search) find(to io.Writer) error {
	var f Finding
	for run := range s.cases() {
		r := run()
		f.Cases++
		f.Crashes += r.Crashes
		switch {
		case r.Verdict() == chaos.Violated:
			if s.Shrink > 0 {
				r = chaos.Shrink(context.Background(), r, s.Shrink)
			}
			v := r.Violations[0]
			f.Found, f.Rule, f.What, f.Case = true, v.ID, v.String(), r.Case.String()
		case r.Verdict() == chaos.Stale && len(r.Case.Faults) == 0:
			// Nothing goes wrong in it, and it does not come as far as it should.
			f.Found, f.Rule, f.What, f.Case = true, staleLife, strings.Join(r.Unreached, "; "), r.Case.String()
		default:
			continue
		}
		break
	}
	return json.NewEncoder(to).Encode(f)
}

// line is a case as one line.
func line(text string) string {
	c, err := plan.Parse(text)
	if err != nil {
		return text
	}
	return c.Line()
}

// names are those of the patches that were asked for, all if none were.
func selected(all []*patch, names []string) []*patch {
	if len(names) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(p *patch) bool { return !slices.Contains(names, p.name) })
}
