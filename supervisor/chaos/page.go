package chaos

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// ends are the rules of this package, by number.
var ends = map[string]string{
	"L01": "At the end all is well: what was asked for runs or has ended, what was deleted is gone, nothing is left or " +
		"under way.",
	busyForNothing: "While all is well and nothing strikes, the agent changes nothing in the apiserver or the runtime.",
	isolated: "A pod that no fault names is Ready as soon as it is in the twin, and its containers restart no more " +
		"often.",
	frugal:    "Faults cost few calls more than the twin has that change something in the apiserver or the runtime.",
	atRest:    "An agent that is killed while all is well, and started again, changes nothing.",
	sameAgain: "A case has the same run on another number of threads.",
}

// textOf is what a rule says.
func textOf(id string) string {
	for _, r := range invariants.Rules() {
		if r.ID == id {
			return r.Text
		}
	}
	return ends[id]
}

// WritePage writes a page about a result that was run WithStory: one HTML file that needs nothing
// but a browser. Version is what the program calls itself, command what runs the case again; both
// may be empty.
func WritePage(w io.Writer, r *Result, version string, command []string) error {
	if r.Story == nil {
		return errors.New("chaos: write the page of a case: it was not run WithStory")
	}
	s := *r.Story
	s.Case, s.Verdict = r.Case.String(), r.Verdict().String()
	s.Unreached = r.Unreached
	s.Figures = []report.StoryFigure{
		{Name: "Operations", Value: len(r.Case.Ops)},
		{Name: "Faults reached", Value: len(r.Reached), Note: fmt.Sprintf("of %d", len(r.Case.Faults))},
		{Name: "Messages handled", Value: int(r.Messages)},
		{Name: "Crashes of actors", Value: r.Crashes},
	}
	d := report.Data{
		Title: title(r), Seed: r.Case.Seed, Command: command, Version: version, Duration: r.Simulated, Story: &s,
	}
	d.Figures.Nodes = s.Nodes
	d.Figures.Pods = len(s.Lanes) - s.Nodes
	d.Figures.TraceHash = fmt.Sprintf("%016x", r.Hash)
	for _, v := range r.Violations {
		at := r.Simulated // as of two runs that are compared
		if !v.At.IsZero() {
			at = min(max(0, r.Simulated-r.ended.Sub(v.At)), r.Simulated)
		}
		d.Failures = append(d.Failures, report.Failure{
			At: at, Want: v.ID + ": " + textOf(v.ID), Got: strings.TrimPrefix(v.String(), v.ID+": "),
		})
	}
	return report.Write(w, d)
}

func title(r *Result) string {
	switch {
	case len(r.Violations) > 0 && r.Violations[0].Pod.Name != "":
		return fmt.Sprintf("Case that violates %s for pod %s", r.Violations[0].ID, r.Violations[0].Pod.Name)
	case len(r.Violations) > 0:
		return "Case that violates " + r.Violations[0].ID
	case len(r.Unreached) > 0:
		return "Case that is stale"
	default:
		return "Case that holds every rule"
	}
}
