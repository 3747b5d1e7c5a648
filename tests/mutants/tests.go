package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// byTests runs the mutants that tests of packages find.
type byTests struct{}

// place is where a mutant is found: a package, and the expression for -run.
type place struct{ folder, run string }

// testFile is the file that says which test finds a patch.
func (p *patch) testFile(root string) string { return filepath.Join(root, handDir, p.name+".test") }

// foundBy reads which test finds a patch; false if none does, but a case.
func (p *patch) foundBy(root string) (at place, is bool, err error) {
	text, err := os.ReadFile(p.testFile(root))
	if os.IsNotExist(err) {
		return place{}, false, nil
	}
	words := strings.Fields(string(text))
	if err == nil && len(words) != 2 {
		err = fmt.Errorf("%s: want a folder and the name of a test, not %q", p.testFile(root), text)
	}
	if err != nil {
		return place{}, true, err
	}
	return place{words[0], words[1]}, true, nil
}

// split are the patches that a case shows, and those that a test finds.
func split(root string, all []*patch) (cases, tests []*patch, at map[*patch]place, err error) {
	at = map[*patch]place{}
	for _, p := range all {
		where, is, err := p.foundBy(root)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case is:
			tests, at[p] = append(tests, p), where
		default:
			cases = append(cases, p)
		}
	}
	return cases, tests, at, nil
}

// A test may use this much more time with a mutant than all of its package's do without one. One that uses more
// hangs.
const testSlack = 30 * time.Second

// run runs the mutants of some names, all if there are none. It fails if one is not found.
func (b *byTests) run(ctx context.Context, names []string, to io.Writer) (err error) {
	defer check.Return(&err)
	root, _, patches, at, err := named(names)
	if err != nil {
		return err
	}
	patches = onNodes(patches, at, false)
	all, o := check.Must2(variantsOf(root, patches))
	dir := check.Must(os.MkdirTemp("", "mutants"))
	defer func() { _ = os.RemoveAll(dir) }()
	programs := &built{root: root, dir: dir}
	programs.overlay = check.Must(o.write(dir, all))
	begin, of, missed := time.Now(), map[string][]int{}, 0
	for i, p := range patches {
		of[at[p].folder] = append(of[at[p].folder], i)
	}
	for _, folder := range slices.Sorted(maps.Keys(of)) {
		var tests []string
		for _, i := range of[folder] {
			tests = append(tests, at[patches[i]].run)
		}
		s := check.Must(programs.tests(ctx, folder, strings.Join(tests, "|")))
		for _, i := range of[folder] {
			p := patches[i]
			if got := s.only(at[p].run).run(ctx, i+1); got.killed {
				fmt.Fprintf(to, "%s: %s %s\n", p.name, folder, got.by)
				continue
			}
			missed++
			fmt.Fprintf(to, "%s: NOT FOUND by %s %s\n", p.name, folder, at[p].run)
		}
	}
	return foundAll(ctx, to, len(patches), missed, begin)
}

// onNodes are the patches that tests of real nodes find, or the others.
func onNodes(patches []*patch, at map[*patch]place, on bool) []*patch {
	return slices.DeleteFunc(patches, func(p *patch) bool { return at[p].onNode() != on })
}

// foundAll says how many mutants were found. It fails if one was not.
func foundAll(ctx context.Context, to io.Writer, of, missed int, begin time.Time) error {
	fmt.Fprintf(to, "%d of %d found, %v\n", of-missed, of, time.Since(begin).Round(time.Second))
	if missed > 0 {
		return errors.New("not all mutants were found")
	}
	return ctx.Err()
}

// tests builds the tests of a package, and runs those that find its mutants without a mutant.
func (b *built) tests(ctx context.Context, folder, names string) (*suite, error) {
	binary, err := b.test(ctx, folder)
	if err != nil {
		return nil, err
	}
	s := &suite{binary: binary, dir: filepath.Join(b.root, folder), cpu: 10 * time.Minute}
	if usesRapid(b.root, folder) {
		s.args = []string{"-rapid.nofailfile"}
	}
	begin := time.Now()
	if whole := s.only(names).run(ctx, 0); whole.killed {
		return nil, fmt.Errorf("%s fails without a mutant: %s\n%s", folder, whole.by, whole.output)
	}
	limit := time.Since(begin) + testSlack
	s.args = append(s.args, "-test.timeout", limit.String())
	return s, nil
}

// only is the suite with the tests of some names.
func (s *suite) only(tests string) *suite {
	some := *s
	some.args = append(slices.Clone(s.args), "-test.failfast", "-test.run", "^("+tests+")$")
	return &some
}
