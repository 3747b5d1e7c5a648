package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// sampling runs a random sample of the generated mutants.
type sampling struct {
	sample  int
	seed    uint64
	budget  time.Duration
	below   string
	results string
	workers int
	rounds  int
	list    bool
	// dir keeps the programs for another run; empty for none.
	dir string
}

// Who killed a mutant.
const (
	byUnits     = "unit tests"
	byScenarios = "scenarios"
	byChaos     = "only chaos"
	byNobody    = "nobody"
)

// Result is what came of a mutant. It is one line of the file of results.
type Result struct {
	Operator, Place, From, To string
	Killer, By                string
	CPU                       time.Duration
}

// pick are the mutants of the sample, in random order; those that do not compile are left out.
func (s *sampling) pick(o *overlay) (all []*generated, of int, err error) {
	defer check.Return(&err)
	every := check.Must(generate(o, s.below))
	of = len(every)
	r := rand.New(rand.NewPCG(s.seed, 0))
	r.Shuffle(len(every), func(i, k int) { every[i], every[k] = every[k], every[i] })
	every = every[:min(len(every), s.sample*3/2+20)] // some do not compile
	variants := make([]*variant, len(every))
	for i, g := range every {
		variants[i] = g.variant
	}
	good := check.Must(o.compiling(variants))
	is := map[*variant]bool{}
	for _, v := range good {
		is[v] = true
	}
	every = slices.DeleteFunc(every, func(g *generated) bool { return !is[g.variant] })
	return every[:min(len(every), s.sample)], of, nil
}

// programs are what mutants are run in.
type programs struct {
	// units are the tests of packages, by folder. before is how they end without a mutant.
	units     map[string]*suite
	scenarios *suite
	chaos     *suite
}

func (s *sampling) run(ctx context.Context, to io.Writer) (err error) {
	defer check.Return(&err)
	root := check.Must(moduleRoot())
	o := check.Must(newOverlay(root))
	mutants, of := check.Must2(s.pick(o))
	if s.list {
		for _, g := range mutants {
			fmt.Fprintf(to, "%s %s: %q, not %q\n", g.place(), g.Operator, g.To, g.From)
		}
		return nil
	}
	known := check.Must(s.known())
	dir := s.dir
	if dir == "" {
		dir = check.Must(os.MkdirTemp("", "mutants"))
		defer func() { _ = os.RemoveAll(dir) }()
	}
	p := check.Must(s.build(ctx, o, dir, mutants))
	ctx, stop := context.WithTimeout(ctx, s.budget)
	defer stop()
	check.OK(s.each(ctx, mutants, known, p))
	s.tell(to, mutants, known, of)
	return nil
}

// known are the results that the file has.
func (s *sampling) known() (map[string]*Result, error) {
	known := map[string]*Result{}
	data, err := os.ReadFile(s.results)
	if os.IsNotExist(err) {
		return known, nil
	}
	for d := json.NewDecoder(bytes.NewReader(data)); err == nil; {
		var r Result
		if err = d.Decode(&r); err == nil {
			known[r.key()] = &r
		}
	}
	if err != io.EOF {
		return nil, err
	}
	return known, nil
}

func (r *Result) key() string { return strings.Join([]string{r.Place, r.Operator, r.From, r.To}, "\n") }

func (g *generated) result() *Result {
	return &Result{Operator: g.Operator, Place: g.place(), From: g.From, To: g.To}
}

// build builds everything, and runs the tests without a mutant, to see how long they take.
func (s *sampling) build(ctx context.Context, o *overlay, dir string, mutants []*generated) (_ *programs, err error) {
	defer check.Return(&err)
	variants := make([]*variant, len(mutants))
	for i, g := range mutants {
		variants[i] = g.variant
	}
	b := &built{root: o.root, dir: dir}
	b.overlay = check.Must(o.write(dir, variants))
	check.OK(b.recall())
	p := &programs{units: map[string]*suite{}}
	for folder := range byFolder(variants) {
		binary := check.Must(b.test(ctx, folder))
		if binary == "" {
			continue
		}
		args := []string{"-test.failfast", "-test.short"}
		if usesRapid(o.root, folder) {
			args = append(args, "-rapid.nofailfile", "-rapid.seed=1")
		}
		p.units[folder] = &suite{binary: binary, dir: filepath.Join(o.root, folder), args: args}
	}
	p.scenarios = check.Must(b.scenarios(ctx))
	worker := check.Must(b.worker(ctx))
	p.chaos = &suite{binary: worker, dir: o.root, args: []string{"find", "-rounds", fmt.Sprint(s.rounds)}}
	for folder, u := range p.units {
		check.OK(b.measure(ctx, u, folder))
	}
	check.OK(b.measure(ctx, p.scenarios, "scenarios"))
	return p, b.measure(ctx, p.chaos, "chaos")
}

// found is what a worker has printed.
func found(out []byte) (f Finding) {
	if err := json.Unmarshal(out, &f); err != nil {
		return Finding{}
	}
	return f
}

// recall reads how long the suites took in an earlier run.
func (b *built) recall() error {
	b.took = map[string]time.Duration{}
	data, err := os.ReadFile(filepath.Join(b.dir, tookFile))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &b.took)
}

const tookFile = "took.json"

// measure runs a suite without a mutant. One that takes three times as long, and ten seconds, hangs.
func (b *built) measure(ctx context.Context, s *suite, name string) error {
	if took, is := b.took[name]; is {
		s.cpu = 3*took + 10*time.Second
		return nil
	}
	s.cpu = 20 * time.Minute
	o := s.run(ctx, 0)
	if f := found(o.output); f.Found {
		return fmt.Errorf("chaos finds something without a mutant: %s", f.What)
	}
	if o.killed {
		return fmt.Errorf("%s fails without a mutant: %s\n%s", name, o.by, o.output)
	}
	s.cpu, b.took[name] = 3*o.cpu+10*time.Second, o.cpu
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, o.cpu.Round(10*time.Millisecond))
	data, err := json.Marshal(b.took)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, tookFile), data, 0o666)
}

func usesRapid(root, folder string) bool {
	tests, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go")) // the pattern is good
	return slices.ContainsFunc(tests, func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && bytes.Contains(text, []byte(`"pgregory.net/rapid"`))
	})
}

// scenarios builds the scenarios.
func (b *built) scenarios(ctx context.Context) (*suite, error) {
	binary, err := b.test(ctx, "tests/scenarios")
	return &suite{
		binary: binary, dir: filepath.Join(b.root, "tests/scenarios"), args: []string{"-test.failfast", "-test.short"},
	}, err
}

// each runs the mutants that have no result yet, and writes their results down.
func (s *sampling) each(ctx context.Context, mutants []*generated, known map[string]*Result, p *programs) error {
	file, err := os.OpenFile(s.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var mu sync.Mutex
	write := func(r *Result) {
		mu.Lock()
		defer mu.Unlock()
		known[r.key()] = r
		err = errors.Join(err, json.NewEncoder(file).Encode(r))
		fmt.Fprintf(os.Stderr, "%s %s: %s %s\n", r.Place, r.Operator, r.Killer, r.By)
	}
	// The tests of packages are quick: all mutants go through them first.
	var survivors []*generated
	s.parallel(ctx, mutants, known, func(g *generated) {
		r := g.result()
		if u := p.units[filepath.Dir(g.path)]; u != nil && p.try(ctx, u, g, r, byUnits) {
			write(r)
		} else if ctx.Err() == nil {
			mu.Lock()
			survivors = append(survivors, g)
			mu.Unlock()
		}
	})
	s.parallel(ctx, survivors, known, func(g *generated) {
		if r := p.judge(ctx, g); ctx.Err() == nil {
			write(r)
		}
	})
	return err
}

// parallel does something for each mutant without a result.
func (s *sampling) parallel(ctx context.Context, mutants []*generated, known map[string]*Result, do func(*generated)) {
	var left []*generated
	for _, g := range mutants {
		if known[g.result().key()] == nil {
			left = append(left, g)
		}
	}
	next := make(chan *generated)
	var done sync.WaitGroup
	for range s.workers {
		done.Go(func() {
			for g := range next {
				if ctx.Err() == nil {
					do(g)
				}
			}
		})
	}
	for _, g := range left {
		next <- g
	}
	close(next)
	done.Wait()
}

// try runs a suite on a mutant, and notes who killed it. What was stopped by ctx was not killed.
func (p *programs) try(ctx context.Context, s *suite, g *generated, r *Result, killer string) bool {
	o := s.run(ctx, g.mutant)
	r.CPU += o.cpu
	if o.killed && ctx.Err() == nil {
		r.Killer, r.By = killer, o.by
	}
	return r.Killer != ""
}

// judge says who kills a mutant that its package's tests pass: the scenarios, or only chaos.
func (p *programs) judge(ctx context.Context, g *generated) *Result {
	r := g.result()
	if p.try(ctx, p.scenarios, g, r, byScenarios) {
		return r
	}
	o := p.chaos.run(ctx, g.mutant)
	r.CPU += o.cpu
	if o.killed { // a world that breaks down
		r.Killer, r.By = byChaos, o.by
		return r
	}
	if f := found(o.output); f.Found {
		r.Killer, r.By = byChaos, f.Rule+" "+line(f.Case)
		return r
	}
	r.Killer = byNobody
	return r
}

// tell prints what came of the sample.
func (s *sampling) tell(to io.Writer, mutants []*generated, known map[string]*Result, of int) {
	killers := []string{byUnits, byScenarios, byChaos, byNobody}
	count, total := map[string]int{}, 0
	by := map[string][]*Result{}
	for _, g := range mutants {
		r := known[g.result().key()]
		if r == nil {
			continue
		}
		total++
		count[r.Operator+r.Killer]++
		by[r.Killer] = append(by[r.Killer], r)
	}
	fmt.Fprintf(to, "%d mutants of %d below %s, seed %d\n\n", total, of, s.below, s.seed)
	fmt.Fprintf(to, "| operator | %s |\n|---|---|---|---|---|\n", strings.Join(killers, " | "))
	for _, op := range []string{negate, boundary, offByOne, dropCall, dropSend, dropMap, dropSet, dropJump} {
		fmt.Fprintf(to, "| %s |", op)
		for _, k := range killers {
			fmt.Fprintf(to, " %d |", count[op+k])
		}
		fmt.Fprintln(to)
	}
	fmt.Fprint(to, "| all |")
	for _, k := range killers {
		fmt.Fprintf(to, " %d |", len(by[k]))
	}
	fmt.Fprintln(to)
	for _, k := range []string{byChaos, byNobody} {
		fmt.Fprintf(to, "\n%s:\n\n", k)
		for _, r := range by[k] {
			fmt.Fprintf(to, "- %s %s: `%s`, not `%s` %s\n", r.Place, r.Operator, r.To, r.From, r.By)
		}
	}
}
