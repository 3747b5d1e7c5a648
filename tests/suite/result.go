package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Result is what the events of go test say.
type Result struct {
	Outcomes []Outcome // of tests and subtests, in the order of their ends, the last run of each
	Ended    []string  // packages
	Races    []string  // tests or packages in which the race detector found something, in any run of theirs
}

// Outcome is how a test or a subtest ended. Of a package without a test that failed, Test is empty.
type Outcome struct {
	Package, Test string
	Action        string // pass, fail, skip or unfinished
	Took          time.Duration
	Reason        string // of a skip
	Said          string // of a test that failed: the first lines that it logged, or its last lines of output
	// Before is set if an earlier run of the same test failed: how long it took.
	Before []time.Duration
}

// Name is the package and the test, as a list shows them.
func (o Outcome) Name() string {
	name := strings.TrimPrefix(o.Package, Module+"/")
	if o.Test != "" {
		name += "." + o.Test
	}
	return name
}

// race begins what the race detector reports, of a test or of a program that the test has run.
const race = "WARNING: DATA RACE"

// output is what is kept of a test's output: the first lines that it logged, as its clean-up logs much, and the last lines.
type output struct{ logged, last []string }

const keptLines = 4

var logged = regexp.MustCompile(`^\w+\.go:\d+: `)

func (o output) add(line string) output {
	if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
		return o
	}
	if logged.MatchString(line) && len(o.logged) < keptLines {
		o.logged = append(o.logged, line)
	}
	return output{o.logged, append(o.last[max(0, len(o.last)-keptLines+1):], line)}
}

// why says why the test failed, as far as these lines do.
func (o output) why() string {
	if len(o.logged) > 0 {
		return strings.Join(o.logged, "\n")
	}
	return strings.Join(o.last, "\n")
}

// unfinished is a test that still ran when all was ended.
const unfinished = "unfinished"

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type testKey struct{ pkg, test string }

// reading is what ReadResult knows while it reads.
type reading struct {
	order   []testKey
	last    map[testKey]Outcome
	running map[testKey]output
	failed  map[string]bool // packages with a test that failed in this run of theirs
	ended   []string
	races   []string // names of tests and packages
}

// ReadResult reads the events that gotestsum kept. A run again follows the first.
func ReadResult(from io.Reader) (Result, error) {
	r := reading{last: map[testKey]Outcome{}, running: map[testKey]output{}, failed: map[string]bool{}}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return Result{}, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return Result{}, fmt.Errorf("%.80q: %w", line, err)
		}
		r.add(e)
	}
	// What still ran when all was ended.
	for key := range r.running {
		r.end(key, unfinished, 0)
	}
	result := Result{Ended: r.ended, Races: r.races}
	for _, key := range r.order {
		result.Outcomes = append(result.Outcomes, r.last[key])
	}
	return result, nil
}

func (r *reading) add(e event) {
	key := testKey{e.Package, e.Test}
	switch {
	case e.Package == "":
		return // of a build, whose package fails
	case e.Action == "start":
		r.failed[e.Package] = false
	case e.Action == "run":
		r.running[key] = output{}
	case e.Action == "output":
		line := strings.TrimSpace(e.Output)
		if name := (Outcome{Package: e.Package, Test: e.Test}).Name(); line == race && !slices.Contains(r.races, name) {
			r.races = append(r.races, name)
		}
		if said, ok := r.running[key]; ok {
			r.running[key] = said.add(line)
		}
	case e.Action != "pass" && e.Action != "fail" && e.Action != "skip":
		return
	case e.Test != "":
		r.end(key, e.Action, e.Elapsed)
	case e.Action != "fail":
		r.ended = append(r.ended, e.Package)
	default:
		r.ended = append(r.ended, e.Package)
		for key := range r.running {
			if key.pkg == e.Package {
				r.end(key, "fail", e.Elapsed)
			}
		}
		if !r.failed[e.Package] {
			r.end(key, "fail", e.Elapsed)
		}
	}
}

func (r *reading) end(key testKey, action string, elapsed float64) {
	said := r.running[key]
	delete(r.running, key)
	o := Outcome{Package: key.pkg, Test: key.test, Action: action,
		Took: time.Duration(elapsed * float64(time.Second)).Round(10 * time.Millisecond)}
	if action == "fail" {
		r.failed[key.pkg] = true
		o.Said = said.why()
	}
	if n := len(said.last); action == "skip" && n > 0 {
		o.Reason = said.last[n-1]
	}
	before, again := r.last[key]
	if !again {
		r.order = append(r.order, key)
	}
	o.Before = before.Before
	if before.Action == "fail" {
		o.Before = append(slices.Clip(o.Before), before.Took)
	}
	r.last[key] = o
}

// Failed are the tests that failed in their last run. A test is left out for its subtests.
func (r Result) Failed() []Outcome {
	return r.leaves(func(o Outcome) bool { return o.Action == "fail" })
}

// Unfinished are the tests that still ran when all was ended.
func (r Result) Unfinished() []Outcome {
	return r.leaves(func(o Outcome) bool { return o.Action == unfinished })
}

// Flaky are the tests that failed and passed when they ran again.
func (r Result) Flaky() []Outcome {
	return r.leaves(func(o Outcome) bool { return o.Action == "pass" && len(o.Before) > 0 })
}

// Skipped are the tests that were skipped.
func (r Result) Skipped() []Outcome {
	return r.leaves(func(o Outcome) bool { return o.Action == "skip" })
}

func (r Result) leaves(is func(Outcome) bool) []Outcome {
	var found []Outcome
	for _, o := range r.Outcomes {
		if is(o) && !slices.ContainsFunc(r.Outcomes, func(x Outcome) bool {
			return is(x) && x.Package == o.Package && strings.HasPrefix(x.Test, o.Test+"/")
		}) {
			found = append(found, o)
		}
	}
	return found
}

// Counts is a line of how many tests and subtests passed, failed and were skipped.
func (r Result) Counts() string {
	n := map[string]int{}
	for _, o := range r.Outcomes {
		n[o.Action]++
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", n["pass"], n["fail"], n["skip"])
}
