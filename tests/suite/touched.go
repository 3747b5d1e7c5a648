package suite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

const (
	// testedFile holds what the last run of all tests found.
	testedFile = "docs/tested.txt"
	// firstTested stands for its commit while the file is not there.
	firstTested = "6427bfe1"

	touchedTime = 30 * time.Minute
	// touchedUntested is for a tree of which no result is known, where nearly every path has changed.
	touchedUntested = 10 * time.Minute
	// touchedLeast is what has to be left for a batch of tests to begin. One that takes longer gets touchedMore: tests that
	// are killed leave mounts and pods.
	touchedLeast = 4 * time.Minute
	touchedMore  = 5 * time.Minute
	touchedBatch = 6
)

// RunTouched runs the tests of tier all that the changes since the last run of all tests touch, and those that did not pass
// in it, until their time is over, and names the others.
func RunTouched(ctx context.Context) (err error) {
	defer check.Return(&err)
	s := check.Must(Load("."))
	last := check.Must(lastTested(s.Root))
	base, limit := last.commit, last.limit
	changed := check.Must(changedSince(s.Root, base))
	tests := s.failedIn(last.failed)
	for _, t := range s.Touched(changed) {
		if !slices.Contains(tests, t) {
			tests = append(tests, t)
		}
	}
	fmt.Printf("%d files have changed since %s. They touch %d tests, which get at most %v.\n", len(changed), base,
		len(tests), limit)
	end := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, end.Add(touchedMore))
	defer cancel()
	if d, _ := ctx.Deadline(); d.Before(end) {
		end = d
	}
	r := check.Must(s.runner(Options{All: true}))
	r.Env = append(r.Env, fullSize)
	var notRun []Test
	for i, p := range batches(tests) {
		if time.Until(end) < touchedLeast {
			notRun = append(notRun, p.tests...)
			continue
		}
		p.Name = fmt.Sprintf("touched-%d", i+1)
		r.run(ctx, p.Part)
	}
	sum := Sum(r.parts, ci(), true)
	for _, t := range notRun {
		sum.NotRun = append(sum.NotRun, t.fullName())
	}
	return finish(sum, s.Root, "touched")
}

type batch struct {
	Part
	tests []Test
}

// batches are the tests by package, a few at a time, so that the clock can be looked at between them. Virtual machines come
// last: without KVM one takes up to half an hour, and the others would get no time.
func batches(tests []Test) []batch {
	var all []batch
	tests = slices.Clone(tests)
	last := func(t Test) int { return strings.Count(t.Package, e2e+"/"+machinesDir) }
	slices.SortStableFunc(tests, func(a, b Test) int { return last(a) - last(b) })
	for len(tests) > 0 {
		var these, others []Test
		for _, t := range tests {
			if t.Package == tests[0].Package && len(these) < touchedBatch {
				these = append(these, t)
			} else {
				others = append(others, t)
			}
		}
		var names []string
		for _, t := range these {
			names = append(names, t.Name)
		}
		all = append(all, batch{tests: these, Part: Part{Dir: e2e, Packages: []string{Module + "/" + these[0].Package},
			Flags: []string{"-count=1", "-run", exactly(names)}, Rerun: true, Timeout: touchedTime}})
		tests = others
	}
	return all
}

// tested is what testedFile says.
type tested struct {
	commit string        // of which all tests have run
	limit  time.Duration // how long the tests may take that changes since then touch
	failed []string      // tests that failed or did not run, as their package and their name
}

func lastTested(root string) (t tested, err error) {
	defer check.Return(&err)
	b, err := os.ReadFile(filepath.Join(root, testedFile))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("There is no %s, so that no result of all tests is known: only some of those that are touched run.\n", testedFile)
		return tested{commit: firstTested, limit: touchedUntested}, nil
	}
	if err != nil {
		return tested{}, err
	}
	t = readTested(string(b))
	if t.commit == "" {
		return tested{}, fmt.Errorf("%s names no commit", testedFile)
	}
	since, err := git(root, "rev-list", "--count", t.commit+"..HEAD")
	if err != nil {
		return tested{}, fmt.Errorf("%s names a commit that is not in this clone (is it shallow, or was it rebased?): %w", testedFile, err)
	}
	date := check.Must(git(root, "log", "-1", "--format=%ct", t.commit))
	var seconds int64
	check.Must(fmt.Sscan(date, &seconds))
	days := int(time.Since(time.Unix(seconds, 0)).Hours() / 24)
	fmt.Printf("All tests last ran on %s: %s commits and %d days ago. %d did not pass then.\n", t.commit, since, days, len(t.failed))
	return t, nil
}

func readTested(text string) tested {
	t := tested{limit: touchedTime}
	for _, row := range table(text) {
		switch row[0] {
		case "commit":
			t.commit, _, _ = strings.Cut(row[1], " ")
		case "FAILED", "RACE", "NOT-RUN":
			t.failed = append(t.failed, row[1])
		}
	}
	return t
}

// failedIn are the tests of tier all that these names, of tests or subtests, stand for. All others run with each change.
func (s *Source) failedIn(names []string) []Test {
	var found []Test
	for _, t := range s.Tests() {
		name := t.fullName()
		if t.Tier == All && slices.ContainsFunc(names, func(n string) bool { return n == name || strings.HasPrefix(n, name+"/") }) {
			found = append(found, t)
		}
	}
	return found
}
