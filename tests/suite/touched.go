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

// RunTouched runs the tests of tier all that the changes since the last run of all tests touch, until their time is
// over, and names the others.
func RunTouched(ctx context.Context) (err error) {
	defer check.Return(&err)
	s := check.Must(Load("."))
	base, limit := check.Must2(lastTested(s.Root))
	changed := check.Must(changedSince(s.Root, base))
	tests := s.Touched(changed)
	fmt.Printf("%d files have changed since %s. They touch %d tests, which get at most %v.\n", len(changed), base,
		len(tests), limit)
	end := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, end.Add(touchedMore))
	defer cancel()
	if last, _ := ctx.Deadline(); last.Before(end) {
		end = last
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
		sum.NotRun = append(sum.NotRun, t.Package+"."+t.Name)
	}
	return finish(sum, s.Root, "touched")
}

type batch struct {
	Part
	tests []Test
}

// batches are the tests by package, a few at a time, so that the clock can be looked at between them.
func batches(tests []Test) []batch {
	var all []batch
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

// lastTested is the commit of which all tests have run, and how long the tests may take that changes since then touch.
func lastTested(root string) (commit string, limit time.Duration, err error) {
	defer check.Return(&err)
	b, err := os.ReadFile(filepath.Join(root, testedFile))
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("There is no %s, so that no result of all tests is known: only some of those that are touched run.\n", testedFile)
		return firstTested, touchedUntested, nil
	}
	if err != nil {
		return "", 0, err
	}
	rows := table(string(b))
	i := slices.IndexFunc(rows, func(row [2]string) bool { return row[0] == "commit" })
	if i < 0 {
		return "", 0, fmt.Errorf("%s names no commit", testedFile)
	}
	commit, _, _ = strings.Cut(rows[i][1], " ")
	since, err := git(root, "rev-list", "--count", commit+"..HEAD")
	if err != nil {
		return "", 0, fmt.Errorf("%s names a commit that is not in this clone (is it shallow, or was it rebased?): %w", testedFile, err)
	}
	date := check.Must(git(root, "log", "-1", "--format=%ct", commit))
	var seconds int64
	check.Must(fmt.Sscan(date, &seconds))
	days := int(time.Since(time.Unix(seconds, 0)).Hours() / 24)
	fmt.Printf("All tests last ran on %s: %s commits and %d days ago.\n", commit, since, days)
	return commit, touchedTime, nil
}
