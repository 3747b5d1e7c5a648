package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// outcome is how a spec ended with an agent.
type outcome struct {
	Spec  string `json:"spec"`
	State string `json:"state"` // passed, failed or skipped
	// Group is what the spec is about: the outermost words of its name.
	Group string `json:"group"`
	// Why is the first line of what the suite says of a spec that did not pass.
	Why string `json:"why,omitempty"`
	// Failed is how often it has failed in all runs that are known.
	Failed int `json:"failed,omitempty"`
}

const passed, failed, skipped = "passed", "failed", "skipped"

// readReport reads the report of a run: the specs that ran, or said why they do not. Those that were not asked for, or
// that the end of the time kept from running, are not among them.
func readReport(file string) (all []outcome, err error) {
	defer check.Return(&err)
	var suites []types.Report
	check.OK(json.Unmarshal(check.Must(os.ReadFile(file)), &suites))
	for _, suite := range suites {
		for _, r := range suite.SpecReports {
			if o, ran := outcomeOf(r); ran {
				all = append(all, o)
			} else if r.LeafNodeType.Is(types.NodeTypesForSuiteLevelNodes) && r.State.Is(types.SpecStateFailureStates) {
				return nil, fmt.Errorf("%s: %s", r.LeafNodeType, r.Failure.Message)
			}
		}
	}
	return all, nil
}

func outcomeOf(r types.SpecReport) (o outcome, ran bool) {
	if r.LeafNodeType != types.NodeTypeIt {
		return o, false
	}
	why, _, _ := strings.Cut(strings.TrimSpace(r.Failure.Message), "\n")
	o = outcome{Spec: r.FullText(), State: passed}
	if len(r.ContainerHierarchyTexts) > 0 {
		o.Group = r.ContainerHierarchyTexts[0]
	}
	switch {
	case strings.HasPrefix(why, "A suite timeout occurred"):
		return o, false
	case r.State.Is(types.SpecStatePassed):
		return o, true
	case r.State.Is(types.SpecStateSkipped):
		o.State, o.Why = skipped, why
		return o, why != ""
	case r.State.Is(types.SpecStateFailed | types.SpecStatePanicked | types.SpecStateTimedout):
		o.State, o.Why, o.Failed = failed, why, 1
		return o, true
	}
	return o, false // it was interrupted
}

// results are outcomes by spec.
type results map[string]outcome

// add takes over the outcomes of a run.
func (r results) add(all []outcome) {
	for _, o := range all {
		o.Failed += r[o.Spec].Failed
		r[o.Spec] = o
	}
}

// in are the specs that ended in a state, sorted.
func (r results) in(state string) (specs []string) {
	for _, spec := range slices.Sorted(maps.Keys(r)) {
		if r[spec].State == state {
			specs = append(specs, spec)
		}
	}
	return specs
}

// read takes over what an earlier run has written, if there was one.
func (r results) read(file string) error {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return err
}

func (r results) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// pick has the suite run no more or no other than these specs, by a flag: focus or skip.
func pick(flag string, specs []string) (args []string) {
	for _, spec := range specs {
		args = append(args, "--"+flag+"="+regexp.QuoteMeta(spec)+"$")
	}
	return args
}

// show prints how many specs ended how, and those that have failed, also those that passed later.
func (r results) show(w io.Writer, agent string) {
	fmt.Fprintf(w, "%s: %d passed, %d failed, %d skipped\n",
		agent, len(r.in(passed)), len(r.in(failed)), len(r.in(skipped)))
	for _, spec := range r.in(failed) {
		fmt.Fprintf(w, "  failed: %s: %s\n", spec, r[spec].Why)
	}
	for _, spec := range r.in(passed) {
		if r[spec].Failed > 0 {
			fmt.Fprintf(w, "  passed, and failed before: %s\n", spec)
		}
	}
}

// compare prints where two agents differ, of the specs that both have an outcome of, and returns how many specs the
// second passes and the first does not.
func compare(w io.Writer, troupe, kubelet results) (worse int) {
	both := 0
	for _, spec := range slices.Sorted(maps.Keys(troupe)) {
		t, k := troupe[spec], kubelet[spec]
		if k.State == "" {
			continue
		}
		both++
		if t.State == k.State {
			continue
		}
		fmt.Fprintf(w, "differs: %s: troupe %s, kubelet %s: %s%s\n", spec, t.State, k.State, t.Why, k.Why)
		if k.State == passed {
			worse++
		}
	}
	fmt.Fprintf(w, "%d specs with both; %d passed by the kubelet and not by troupe\n", both, worse)
	return worse
}

// table prints, by groups of specs, how many have an outcome with both agents, and how many of those each passes.
func table(w io.Writer, troupe, kubelet results) {
	type row struct{ both, troupe, kubelet int }
	rows := map[string]row{}
	for spec, t := range troupe {
		k := kubelet[spec]
		if k.State == "" {
			continue
		}
		r := rows[t.Group]
		r.both++
		if t.State == passed {
			r.troupe++
		}
		if k.State == passed {
			r.kubelet++
		}
		rows[t.Group] = r
	}
	fmt.Fprintln(w, "| specs | ran with both | kubelet passes | troupe passes |\n|---|---|---|---|")
	for _, group := range slices.Sorted(maps.Keys(rows)) {
		r := rows[group]
		fmt.Fprintf(w, "| %s | %d | %d | %d |\n", group, r.both, r.kubelet, r.troupe)
	}
}
