package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/cmd/troupe/simtable"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/run"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/supervisor/sim/trace"
	"github.com/troupe-dev/troupe/supervisor/version"
)

// simFlags are the flags of troupe sim.
type simFlags struct {
	options  run.Options
	seed     uint64
	scenario string
	report   string
	record   string
	json     bool
	live     liveFlags
}

func newSimCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use:   "sim",
		Short: "Run thousands of simulated nodes in this process",
		Long: `Run simulated nodes. They use the same actors as the node agent, with simulated
container runtimes, an apiserver in memory and a virtual clock. The same seed
gives the same run on every machine.

  troupe sim --nodes 100 --pods-per-node 30
  troupe sim --scenario tests/scenarios/rolling-update.yaml --report run.html

The exit code is 1 if an expectation of the scenario was not met, or if --duration
ended the run before the end of the scenario; 130 if the run was interrupted.

With --kubeconfig or --in-cluster the nodes register with a real apiserver, use the
wall clock, and run the pods scheduled to them. Several processes can share the nodes.

  troupe sim --kubeconfig ~/.kube/config --nodes 200

SIGTERM ends this process and releases its nodes to the other processes.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch live, err := f.live.chosen(c.Flags()); {
			case err != nil:
				return err
			case live:
				return f.runLive(c)
			}
			return f.run(c, nil)
		},
	}
	c.Flags().IntVar(&f.options.Nodes, "nodes", 0, "number of nodes (default: from the scenario)")
	c.Flags().IntVar(&f.options.PodsPerNode, "pods-per-node", 0, "number of pods to create per node")
	c.Flags().DurationVar(&f.options.Duration, "duration", 0,
		"simulated time after which the run ends, even if the scenario has steps left (default: until the scenario ends "+
			"or all pods run; with a real apiserver: until stopped)")
	c.Flags().DurationVar(&f.options.Probe, "probe", 0,
		"period of the readiness probe of the pods of --pods-per-node (default: no probe)")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of all random numbers of the run")
	c.Flags().StringVar(&f.scenario, "scenario", "", "scenario file: steps and expectations")
	c.Flags().StringVar(&f.record, "record", "", "file to write a recording to, for troupe sim replay")
	f.outputFlags(c)
	f.live.addTo(c.Flags())
	c.AddCommand(newReplayCommand())
	return c
}

func (f *simFlags) outputFlags(c *cobra.Command) {
	c.Flags().BoolVar(&f.json, "json", false, "print the summary as JSON")
	c.Flags().StringVar(&f.report, "report", "", "file to write an HTML report to")
}

func newReplayCommand() *cobra.Command {
	var f simFlags
	c := &cobra.Command{
		Use:   "replay FILE",
		Short: "Repeat a recorded run and report the first difference",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // it was only read
			t, err := trace.NewReader(file)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if err := distinct(namedFile{"the recording", args[0]}, namedFile{"--report", f.report}); err != nil {
				return err
			}
			h := t.Header
			f.seed = h.Seed
			f.options = run.Options{Nodes: h.Nodes, PodsPerNode: h.PodsPerNode, Duration: h.Duration, Probe: h.Probe, Replay: t}
			if h.Scenario != "" {
				if err := f.parse(h.ScenarioName, []byte(h.Scenario)); err != nil {
					return err
				}
			}
			err = f.run(c, t)
			if d, ok := errors.AsType[*trace.Difference](err); ok && h.Program != version.Line() {
				return fmt.Errorf("%w (recorded by %s, this is %s)", d, h.Program, version.Line())
			}
			return err
		},
	}
	f.outputFlags(c)
	return c
}

func (f *simFlags) parse(name string, text []byte) error {
	var err error
	f.options.Scenario, err = scenario.Parse(name, text,
		scenario.Given{Nodes: f.options.Nodes, OwnPods: f.options.PodsPerNode > 0})
	f.options.ScenarioName, f.options.ScenarioText = name, string(text)
	return err
}

// prepare finds out everything that can't be before any work is done.
func (f *simFlags) prepare(c *cobra.Command) error {
	if err := distinct(namedFile{"--scenario", f.scenario}, namedFile{"--report", f.report},
		namedFile{"--record", f.record}); err != nil {
		return err
	}
	if f.scenario != "" {
		text, err := scenario.Read(f.scenario)
		if err != nil {
			return err
		}
		if err := f.parse(f.scenario, text); err != nil {
			return err
		}
		if s := f.options.Scenario.Seed; s != nil && !c.Flags().Changed("seed") {
			f.seed = *s
		}
	}
	f.options.Seed, f.options.Program = f.seed, version.Line()
	if err := f.options.Validate(); err != nil {
		return err
	}
	return nil
}

func (f *simFlags) run(c *cobra.Command, replay *trace.Reader) error {
	if err := f.prepare(c); err != nil {
		return err
	}
	page, err := newOutput("--report", f.report)
	if err != nil {
		return err
	}
	defer page.discard()
	record, err := newOutput("--record", f.record)
	if err != nil {
		return err
	}
	defer record.discard()
	if record.file != nil {
		f.options.Record = record.file
	}
	f.options.Report = page.file != nil
	var bar *simtable.Bar
	if e := c.ErrOrStderr(); isTerminal(e) {
		bar = simtable.NewBar(e, time.Now)
		f.options.Progress = bar.Show
	}
	w, err := sim.New(sim.Config{Seed: f.seed, Log: zerolog.Nop()})
	if err != nil {
		return err
	}
	release := boundHeap(&f.options)
	out, failed := run.Run(c.Context(), w, f.options)
	release()
	if bar != nil {
		bar.Clear()
	}
	if out == nil {
		return failed
	}
	// What there is, is shown, even if the run failed.
	if err := f.show(c.OutOrStdout(), out); err != nil {
		return err
	}
	if page.file != nil {
		out.Report.Command = f.again()
		if err := page.write(func(w io.Writer) error { return report.Write(w, out.Report) }); err != nil {
			return err
		}
	}
	if record.file != nil && failed == nil {
		if err := record.keep(); err != nil {
			return err
		}
	}
	switch n := len(out.Summary.Failures); {
	case failed != nil:
		return failed
	case n > 0:
		return fmt.Errorf("%d of %d expectations were not met", n, out.Summary.Expectations)
	case c.Context().Err() != nil && out.Summary.Interrupted:
		return errInterrupted
	case replay != nil && f.json:
	case replay != nil && out.Summary.Interrupted:
		_, err := fmt.Fprintf(c.OutOrStdout(),
			"the replay is the same as the recording up to %v, where the recording was interrupted\n", replay.Last())
		return err
	case replay != nil:
		_, err := fmt.Fprintln(c.OutOrStdout(), "the replay is the same as the recording")
		return err
	case out.Summary.StepsLeft > 0:
		return fmt.Errorf("--duration %v ended the run before its scenario: %d of %d steps were not done", f.options.Duration,
			out.Summary.StepsLeft, len(f.options.Scenario.Steps))
	}
	return nil
}

// errInterrupted: a signal ended a run, and what it was to show is not known.
var errInterrupted = errors.New("interrupted")

// namedFile is a path that the command line gives, and what it gives it for.
type namedFile struct{ of, path string }

// distinct refuses to write over what is read, or to write two things to one file.
func distinct(files ...namedFile) error {
	for i, a := range files {
		for _, b := range files[:i] {
			if a.path != "" && b.path != "" && sameFile(a.path, b.path) {
				return fmt.Errorf("%s %s: is the same file as %s: choose another", a.of, a.path, b.of)
			}
		}
	}
	return nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if second, err2 := os.Stat(b); err == nil && err2 == nil {
		return os.SameFile(first, second)
	}
	left, err := filepath.Abs(a)
	right, err2 := filepath.Abs(b)
	return err == nil && err2 == nil && left == right
}

// again is the command that makes the same run.
func (f *simFlags) again() []string {
	o := &f.options
	c := []string{"troupe", "sim", fmt.Sprintf("--seed=%d", f.seed)}
	add := func(flag string, given bool, value any) {
		if given {
			c = append(c, fmt.Sprintf("--%s=%v", flag, value))
		}
	}
	add("nodes", o.Nodes > 0, o.Nodes)
	add("pods-per-node", o.PodsPerNode > 0, o.PodsPerNode)
	add("duration", o.Duration > 0, o.Duration)
	add("probe", o.Probe > 0, o.Probe)
	add("scenario", o.ScenarioName != "", o.ScenarioName)
	return c
}

func (f *simFlags) show(w io.Writer, out *run.Outcome) error {
	if !f.json {
		return simtable.Write(w, &out.Summary)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(&out.Summary); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// output is a file that is written aside first, and takes the place of what is
// there in one step.
type output struct {
	path string
	file *os.File
}

// newOutput fails, before any work, if path can't be written; an empty one
// writes nothing.
func newOutput(flag, path string) (*output, error) {
	if path == "" {
		return &output{}, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s %s: the path exists and is not a file", flag, path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // its path is not the one that was given
		}
		return nil, fmt.Errorf("%s %s: %w", flag, path, err)
	}
	return &output{path: path, file: file}, nil
}

func (o *output) write(f func(io.Writer) error) error {
	if err := f(o.file); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return o.keep()
}

func (o *output) keep() error {
	const mode = 0o644
	err := errors.Join(o.file.Chmod(mode), o.file.Close(), os.Rename(o.file.Name(), o.path))
	o.file = nil
	if err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	return nil
}

func (o *output) discard() {
	if o.file != nil {
		_ = o.file.Close()
		_ = os.Remove(o.file.Name()) // it may be there or not
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
