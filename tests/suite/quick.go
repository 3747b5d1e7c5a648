package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// quickTime is how long a quick run may take as a whole.
const quickTime = 3 * time.Minute

// RunQuick tests what the changes since main, or else those of the last commit, can have broken, as far as it needs no
// root: style and vet of what changed, the tests of the packages that changed, the rules of the structure, and the
// packages that import the changed ones, the nearest first. It names what its time did not suffice for.
func RunQuick(ctx context.Context) (err error) {
	defer check.Return(&err)
	ctx, cancel := context.WithTimeout(ctx, quickTime)
	defer cancel()
	s := check.Must(Load("."))
	base := check.Must(quickBase(s.Root))
	files := check.Must(changedSince(s.Root, base))
	fmt.Printf("%d files have changed since %s.\n", len(files), base)
	r := check.Must(s.runner(Options{Short: true}))
	for _, p := range s.quickParts(files) {
		if len(p.Packages) > 0 {
			r.run(ctx, p)
		}
	}
	sum := Sum(r.parts, false, true)
	sum.NotRun = nil // packages say it better
	for _, p := range r.parts {
		for _, name := range p.Packages {
			if p.Cut && !slices.Contains(p.Ended, name) {
				sum.NotRun = append(sum.NotRun, name)
			}
		}
	}
	changed, _ := s.Affected(files)
	for _, line := range append(s.style(files), vet(ctx, s.Root, changed)...) {
		sum.Bad = append(sum.Bad, "FAILED  "+line)
	}
	if ctx.Err() != nil {
		sum.NotRun = append(sum.NotRun, "go vet, or a part of it")
	}
	return finish(sum, s.Root, "quick")
}

// quickBase is what changes are counted from.
func quickBase(root string) (string, error) {
	base, err := git(root, "merge-base", "HEAD", "main")
	if err != nil {
		base = "HEAD"
	}
	files, err := changedSince(root, base)
	if err == nil && len(files) == 0 {
		base = "HEAD~1"
	}
	return base, err
}

// quickParts are the packages that changed and the rest of what a change can have broken, and the tests of changed
// packages of tests/e2e that need nothing.
func (s *Source) quickParts(files []string) []Part {
	changed, others := s.Affected(files)
	rules := s.choose(Options{}, func(p *Package) bool { return p.Name() == "tests/arch" || p.Name() == "tests/suite" })
	ends := s.choose(Options{Short: true}, func(p *Package) bool { return p.E2E() && slices.Contains(changed, p) })
	root := func(packages []*Package) []string {
		var paths []string
		for _, p := range packages {
			if p.tested() && !p.E2E() && !slices.Contains(rules, p.ImportPath) {
				paths = append(paths, p.ImportPath)
			}
		}
		return paths
	}
	var unit []string
	for _, t := range s.Tests() {
		if t.Tier == Unit {
			unit = append(unit, t.Name)
		}
	}
	return []Part{
		{Name: "quick-changed", Packages: root(changed), Timeout: quickTime},
		{Name: "quick-rules", Packages: rules, Flags: []string{"-count=1"}, Timeout: quickTime},
		{Name: "quick-e2e", Dir: e2e, Packages: ends, Flags: []string{"-run", exactly(unit)}, Timeout: quickTime},
		{Name: "quick-others", Packages: root(others), Timeout: quickTime},
	}
}

// style is misstyled of files in the tree.
func (s *Source) style(files []string) []string {
	var wrong []string
	for _, name := range files {
		if path.Ext(name) != ".go" {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(s.Root, name)); err == nil { // else it is removed
			wrong = append(wrong, misstyled(name, text)...)
		}
	}
	return wrong
}

// vet has vet look at packages.
func vet(ctx context.Context, root string, packages []*Package) []string {
	paths := map[string][]string{}
	for _, p := range packages {
		if p.E2E() {
			paths[e2e] = append(paths[e2e], p.ImportPath)
		} else {
			paths["."] = append(paths["."], p.ImportPath)
		}
	}
	var wrong []string
	for dir, list := range paths {
		cmd := exec.CommandContext(ctx, "go", append([]string{"vet"}, list...)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root, dir), os.Stdout, os.Stderr
		if _, err := run(cmd); err != nil && ctx.Err() == nil {
			wrong = append(wrong, "go vet")
		}
	}
	return wrong
}
