package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// byHand runs the mutants that were made by hand.
type byHand struct {
	search bool
	rounds int
	shrink time.Duration
}

// handDir is where the patches are.
const handDir = "tests/mutants"

// named are the patches of some names, all if there are none, and where the repository is.
func named(names []string) (root string, cases, tests []*patch, at map[*patch]place, err error) {
	defer check.Return(&err)
	root = check.Must(moduleRoot())
	patches := check.Must(readPatches(filepath.Join(root, handDir)))
	cases, tests, at, err = split(root, selected(patches, names))
	return root, cases, tests, at, err
}

// run runs the mutants of some names, all if there are none. It fails if one is not found.
func (h *byHand) run(ctx context.Context, names []string, to io.Writer) error {
	root, patches, _, _, err := named(names)
	if err != nil {
		return err
	}
	worker, done, err := h.build(ctx, root, patches)
	if err != nil {
		return err
	}
	defer done()
	missed, tried, begin := 0, 0, time.Now()
	var cpu time.Duration
	for i, p := range patches {
		if _, err := os.Stat(p.caseFile(root)); errors.Is(err, fs.ErrNotExist) && !h.search {
			fmt.Fprintf(to, "%s: there is no case; docs/mutants.md says why\n", p.name)
			continue
		}
		tried++
		f, took, err := h.try(ctx, worker, root, p, i+1)
		cpu += took
		switch {
		case err != nil:
			return err
		case !f.Found:
			missed++
			fmt.Fprintf(to, "%s: NOT FOUND in %d cases, %v, %d crashes\n", p.name, f.Cases, took.Round(time.Second), f.Crashes)
		default:
			fmt.Fprintf(to, "| %s | %s | %s | `%s` | %d |\n", p.name, p.title, f.Rule, line(f.Case), f.Cases)
		}
	}
	fmt.Fprintf(to, "%d of %d found, %v of CPU, %v\n", tried-missed, tried, cpu.Round(time.Second),
		time.Since(begin).Round(time.Second))
	if missed > 0 {
		return errors.New("not all mutants were found")
	}
	return nil
}

// variantsOf are the variants of patches, numbered from 1. All must compile.
func variantsOf(root string, patches []*patch) (all []*variant, o *overlay, err error) {
	defer check.Return(&err)
	o = check.Must(newOverlay(root))
	for i, p := range patches {
		of := check.Must(p.variants(o, i+1))
		all = append(all, of...)
	}
	good := check.Must(o.compiling(slices.Clone(all)))
	var broken error
	for i, p := range patches {
		if !compiles(good, i+1) {
			broken = errors.Join(broken, fmt.Errorf("%s does not compile", p.name))
		}
	}
	return all, o, broken
}

// build makes one program of all patches.
func (h *byHand) build(ctx context.Context, root string, patches []*patch) (worker string, done func(), err error) {
	defer check.Return(&err)
	all, o := check.Must2(variantsOf(root, patches))
	dir := check.Must(os.MkdirTemp("", "mutants"))
	b := &built{root: o.root, dir: dir}
	if b.overlay, err = o.write(dir, all); err == nil {
		worker, err = b.worker(ctx)
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return worker, func() { _ = os.RemoveAll(dir) }, nil
}

// caseFile is the file of the shortest case that shows a patch.
func (p *patch) caseFile(root string) string { return filepath.Join(root, handDir, p.name+".case") }

func compiles(all []*variant, mutant int) bool {
	for _, v := range all {
		if v.mutant == mutant {
			return true
		}
	}
	return false
}

// try runs one mutant: its case, or a search.
func (h *byHand) try(ctx context.Context, worker, root string, p *patch, n int) (f Finding, cpu time.Duration, err error) {
	file := p.caseFile(root)
	args := []string{"find", "-rounds", fmt.Sprint(h.rounds), "-shrink", h.shrink.String()}
	if !h.search {
		kept, err := os.ReadFile(file)
		if err != nil {
			return f, 0, err
		}
		args = []string{"find", "-only", "-case", string(kept)}
	}
	s := suite{binary: worker, dir: root, args: args, cpu: 20 * time.Minute}
	got := s.run(ctx, n)
	if got.killed {
		return f, got.cpu, fmt.Errorf("%s: %s\n%s", p.name, got.by, got.output)
	}
	if err = json.NewDecoder(bytes.NewReader(got.output)).Decode(&f); err != nil {
		return f, got.cpu, fmt.Errorf("%s: %w", p.name, err)
	}
	if h.search && f.Found {
		text := "# " + f.Rule + "\n" + strings.TrimPrefix(f.Case, "seed 1\n")
		err = os.WriteFile(file, []byte(text), 0o666)
	}
	return f, got.cpu, err
}
