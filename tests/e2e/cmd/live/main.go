// Command live runs cases of troupe chaos in both worlds on several real nodes of this machine, and
// prints the differences. Its cases are every single fault of the streams that live runs can fault,
// at every point of the lives of pods.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	chaoslive "github.com/troupe-dev/troupe/supervisor/chaos/live"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/live"
)

const usage = `live [--nodes N] [--dir DIR] [--every N] [--without EFFECT,...] [--cases FILE] [LIFE...]
  Runs the cases of troupe chaos sweep, of these lives or of all, that live runs can do, or those of a
  file with one on each line. Prints a line for each, and at the end how many held.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	defer check.Return(&err)
	nodes := flag.Int("nodes", 2, "")
	dir := flag.String("dir", "", "")
	every := flag.Int("every", 1, "")
	without := flag.String("without", "", "")
	file := flag.String("cases", "", "")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	if *dir == "" {
		made := check.Must(os.MkdirTemp("", "live-"))
		defer os.RemoveAll(made)
		*dir = made
	}
	cases := check.Must(read(*file))
	if *file == "" {
		cases = sweep(flag.Args(), strings.Split(*without, ","), *every)
	}
	m := check.Must(prepare(ctx, *dir))
	fmt.Printf("%d cases on %d nodes\n", len(cases), *nodes)
	next := make(chan *plan.Case)
	var all sync.WaitGroup
	for n := range *nodes {
		all.Go(func() {
			for ctx.Err() == nil { // a node that is not well any more is replaced
				err := m.node(ctx, n, next)
				if err == nil {
					return
				}
				fmt.Printf("node %d: %v\n", n, err)
			}
		})
	}
	for _, c := range cases {
		select {
		case next <- c:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	fmt.Println(m.sums())
	return m.close()
}

// read reads the cases of a file, one on each line.
func read(name string) (cases []*plan.Case, err error) {
	defer check.Return(&err)
	if name == "" {
		return nil, nil
	}
	f := check.Must(os.Open(name))
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		c := check.Must(plan.Parse(lines.Text()))
		cases = append(cases, c)
	}
	return cases, nil
}

// sweep are the cases of lives that can be run live. What takes minutes comes last.
func sweep(lives, without []string, every int) (cases []*plan.Case) {
	config := chaoslive.Config{Manifests: "-", KillRuntime: func(context.Context, time.Duration) error { return nil }}
	n := 0
	for _, l := range chaos.Lives() {
		if len(lives) > 0 && !slices.Contains(lives, l.Name) {
			continue
		}
		for _, c := range append([]*plan.Case{l.Case}, chaos.Singles(l)...) {
			if config.Possible(c) != nil || len(c.Faults) > 0 && late(&c.Faults[0], without) {
				continue
			}
			if n++; n%every == 0 {
				cases = append(cases, c)
			}
		}
	}
	slices.SortStableFunc(cases, func(a, b *plan.Case) int { return order(a) - order(b) })
	return cases
}

// order: what is about pods comes first, what takes minutes last.
func order(c *plan.Case) (n int) {
	for _, f := range c.Faults {
		if f.Role.Pod == "" {
			n = max(n, 1)
		}
		if f.Effect.Do == plan.Hang || f.Effect.Do == plan.Lose {
			n = 2
		}
	}
	return n
}

// late says whether a fault is left out: it was not asked for, or a case on a node, which does not
// wait for minutes at its end, has ended before it.
func late(f *plan.Fault, without []string) bool {
	return slices.Contains(without, string(f.Effect.Do)) || f.Role.Pod == "" && f.N > 2
}

// machine is what all nodes share.
type machine struct {
	dir, binary string
	plane       *lab.ControlPlane
	registry    *lab.Registry

	mu    sync.Mutex
	tally chaos.Summary
	names int
}

func prepare(ctx context.Context, dir string) (_ *machine, err error) {
	defer check.Return(&err)
	m := &machine{dir: dir}
	repository := check.Must(lab.Repository())
	m.binary = check.Must(lab.BuildTroupe(ctx, repository, false))
	m.registry = check.Must(lab.NewRegistry())
	check.OK(m.registry.PushDemoImages(ctx, repository))
	m.plane, err = lab.StartControlPlane(ctx, lab.ControlPlaneConfig{
		Dir: filepath.Join(dir, "plane"), ControllerManager: true, Log: os.Stderr,
	})
	return m, err
}

// node runs cases on a node of its own until there are none.
func (m *machine) node(ctx context.Context, n int, cases <-chan *plan.Case) (err error) {
	defer check.Return(&err)
	m.mu.Lock()
	m.names++
	name := fmt.Sprintf("live-%d-%d", n, m.names)
	m.mu.Unlock()
	dir := filepath.Join(m.dir, name)
	check.OK(os.MkdirAll(dir, 0o755))
	bed, err := live.New(ctx, live.Config{Dir: dir, Name: name, Binary: m.binary, Plane: m.plane, Registry: m.registry})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	s := check.Must(chaoslive.Start(ctx, bed.Chaos))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		err = errors.Join(err, s.Close(ctx))
	}()
	for c := range cases {
		begin := time.Now()
		r, err := s.Run(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Line(), err)
		}
		m.add(r, time.Since(begin))
	}
	return nil
}

func (m *machine) add(r *chaos.Result, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tally.Add(r)
	fmt.Printf("%-8s %6.1f s  %s\n", r.Verdict(), took.Seconds(), r.Case.Line())
	for _, v := range r.Violations {
		fmt.Printf("  %s\n", v)
	}
}

func (m *machine) sums() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &m.tally
	return fmt.Sprintf("%d cases: %d held, %d violated, %d stale", t.Cases, t.Held, t.Violated, t.Stale)
}

func (m *machine) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(m.plane.Stop(ctx), m.registry.Close())
}
