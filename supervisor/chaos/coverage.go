package chaos

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Row is what was covered of one effect of one stream.
type Row struct {
	Stream plan.Stream     `json:"stream"`
	Effect plan.EffectKind `json:"effect"`
	// Points are different things that it struck, by subject, role and number: the second
	// StartContainer of a/app is one, in all lives.
	Points int `json:"points"`
	// Cases are faults of this kind, one for each point of each life in a sweep: those that struck
	// while every rule held, those whose case violated a rule, and those that were never reached.
	Cases    int `json:"cases"`
	Held     int `json:"held"`
	Violated int `json:"violated"`
	Stale    int `json:"stale"`
}

// coverage counts rows.
type coverage struct {
	rows   map[Kind]*Row
	points map[Kind]map[uint64]bool
	// boundaries are the messages before or after which the agent was killed.
	boundaries map[uint64]bool
	seed       maphash.Seed
}

func (c *coverage) add(r *Result) {
	if c.rows == nil {
		*c = coverage{map[Kind]*Row{}, map[Kind]map[uint64]bool{}, map[uint64]bool{}, maphash.MakeSeed()}
	}
	verdict := r.Verdict()
	for i := range r.Case.Faults {
		f := &r.Case.Faults[i]
		k := Kind{f.Stream, f.Effect.Do}
		row := c.rows[k]
		if row == nil {
			row = &Row{Stream: f.Stream, Effect: f.Effect.Do}
			c.rows[k], c.points[k] = row, map[uint64]bool{}
		}
		row.Cases++
		switch {
		case !slices.Contains(r.Reached, *f):
			row.Stale++
			continue
		case verdict == Violated:
			row.Violated++
		default:
			row.Held++
		}
		point := maphash.Comparable(c.seed, Point{f.Stream, f.Subject, f.Role, f.N})
		c.points[k][point] = true
		if k.kills() {
			c.boundaries[point] = true
		}
	}
}

// kills says whether a fault is the end of the agent between two messages of an actor.
func (k Kind) kills() bool {
	return k.Stream == plan.Message && (k.Effect == plan.KillAgent || k.Effect == plan.KillAfter)
}

// Coverage is what the cases covered, by stream and effect.
func (t *Summary) Coverage() []Row {
	out := make([]Row, 0, len(t.covered.rows))
	for k, row := range t.covered.rows { // order-free: sorted below
		row.Points = len(t.covered.points[k])
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Effect, b.Effect))
	})
	return out
}

// Boundaries is what was covered of kill -9 between messages: before and after each message of each
// actor. Its points are messages, with two boundaries each.
func (t *Summary) Boundaries() Row {
	sum := Row{Stream: plan.Message, Effect: "kill -9", Points: len(t.covered.boundaries)}
	for k, row := range t.covered.rows { // order-free: a sum
		if k.kills() {
			sum.Cases += row.Cases
			sum.Held += row.Held
			sum.Violated += row.Violated
			sum.Stale += row.Stale
		}
	}
	return sum
}

// CoverageTable is the coverage as lines of text, with the sum of kill -9 between messages as the last.
func (t *Summary) CoverageTable() []string {
	rows := t.Coverage()
	if len(rows) == 0 {
		return nil
	}
	if b := t.Boundaries(); b.Cases > 0 {
		rows = append(rows, b)
	}
	out := []string{"STREAM EFFECT          POINTS    CASES     HELD VIOLATED    STALE"}
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%-6s %-13s %8d %8d %8d %8d %8d", r.Stream, r.Effect, r.Points, r.Cases, r.Held,
			r.Violated, r.Stale))
	}
	return out
}
