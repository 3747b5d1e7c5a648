package run

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/supervisor/sim/trace"
	"github.com/troupe-dev/troupe/tests/check"
)

func runIt(ctx context.Context, t *testing.T, o Options) (*Outcome, error) {
	t.Helper()
	w := check.Value(sim.New(sim.Config{Seed: o.Seed}))(t)
	return Run(ctx, w, o)
}

func TestOwnPods(t *testing.T) {
	out, err := runIt(t.Context(), t, Options{Seed: 1, Nodes: 4, PodsPerNode: 5, Duration: 5 * time.Minute, Probe: 10 * time.Second, Report: true})
	if err != nil {
		t.Fatal(err)
	}
	s := out.Summary
	if s.Nodes != 4 || s.Pods != 20 || s.PodsRunning != 20 || s.SimSeconds != 300 || s.Messages == 0 || s.HeapBytes == 0 || s.WallSeconds <= 0 ||
		s.Start.P50 <= 0 || s.Start.P50 > s.Start.P90 || s.Start.P90 > s.Start.P99 || s.Restarts != 0 || len(s.TraceHash) != 16 || s.Interrupted {
		t.Errorf("%+v", s)
	}
	starts := 0
	for _, l := range out.Report.Starts {
		starts += l.Pods
	}
	last := out.Report.Phases[len(out.Report.Phases)-1]
	if starts != 20 || last.At != 5*time.Minute || last.Pods[report.Ready] != 20 || len(out.Report.Heat.Nodes) != 4 {
		t.Errorf("%d starts, last picture %+v, %d nodes", starts, last, len(out.Report.Heat.Nodes))
	}
}

func parse(t *testing.T, text string) *scenario.File {
	t.Helper()
	return check.Value(scenario.Parse("f.yaml", []byte(text), scenario.Given{}))(t)
}

const steps = `name: x
nodes: {count: 3}
steps:
- create: {workload: web, replicas: 6, image: web:v1}
- always: {workload: web, pods: ">=6"}
- wait: {workload: web, ready: 6, within: 1m}
- at: 3m
  scale: {workload: web, replicas: 2}
- wait: {workload: web, pods: 3, within: 1m}
- expect: {workload: web, ready: 2}
- release: {}
- scale: {workload: web, replicas: 0}
- delete: {workload: web}
`

func TestUnmet(t *testing.T) {
	out := check.Value(runIt(t.Context(), t, Options{Seed: 1, Scenario: parse(t, steps), ScenarioName: "f.yaml"}))(t)
	s := out.Summary
	check.Fatal(t, check.Is(len(s.Failures), 2, "%q", s.Failures))
	for i, want := range []string{`^f.yaml:5: at 3m0\.\d+s: want always web: pods >=6; got web: pods \d$`, `^f.yaml:9: at 4m0\.\d+s: want web: pods 3 within 1m0s; got web: pods 2$`} {
		if !regexp.MustCompile(want).MatchString(s.Failures[i]) {
			t.Errorf("%s; want %s", s.Failures[i], want)
		}
	}
	if s.Expectations != 4 || len(out.Report.Marks) != 4 || out.Report.Marks[1].Where != "f.yaml:7" {
		t.Errorf("%d expectations, marks %+v", s.Expectations, out.Report.Marks)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, err := runIt(ctx, t, Options{Seed: 1, Nodes: 2, PodsPerNode: 2, Duration: 24 * time.Hour, Progress: func(p Progress) {
		if p.Simulated >= time.Minute {
			cancel()
		}
	}})
	if err != nil || !out.Summary.Interrupted || out.Summary.SimSeconds < 60 || out.Summary.SimSeconds > 62 || out.Summary.PodsRunning != 4 || !out.Report.Interrupted {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestReplay(t *testing.T) {
	o := Options{Seed: 3, Scenario: parse(t, steps), ScenarioName: "f.yaml", ScenarioText: steps, Program: "test"}
	var file bytes.Buffer
	o.Record = &file
	recorded := check.Value(runIt(t.Context(), t, o))(t)
	replay := func(change func(*Options)) (*Outcome, error) {
		r := check.Value(trace.NewReader(bytes.NewReader(file.Bytes())))(t)
		o := Options{Seed: r.Header.Seed, Scenario: parse(t, r.Header.Scenario), ScenarioName: r.Header.ScenarioName, Replay: r}
		change(&o)
		return runIt(t.Context(), t, o)
	}
	same, err := replay(func(*Options) {})
	if err != nil || same.Summary.TraceHash != recorded.Summary.TraceHash {
		t.Errorf("replay: %v, %+v", err, same)
	}
	_, err = replay(func(o *Options) { o.Seed++ })
	if _, ok := errors.AsType[*trace.Difference](err); !ok {
		t.Errorf("replay of another seed: %v", err)
	}
	if _, err = replay(func(o *Options) { o.Duration = time.Hour }); err == nil {
		t.Error("a longer replay is the same")
	}
}

// What was recorded of a run that was interrupted can be replayed, and no more.
func TestReplayOfInterrupted(t *testing.T) {
	for after, want := range map[time.Duration]string{30 * time.Second: "the recording was interrupted before 1m0s", 150 * time.Second: ""} {
		ctx, cancel := context.WithCancel(t.Context())
		var file bytes.Buffer
		o := Options{Seed: 1, Nodes: 2, PodsPerNode: 2, Duration: time.Hour, Record: &file, Progress: func(p Progress) {
			if p.Simulated >= after {
				cancel()
			}
		}}
		check.Value(runIt(ctx, t, o))(t)
		r := check.Value(trace.NewReader(&file))(t)
		o.Record, o.Progress, o.Replay = nil, nil, r
		out, err := runIt(t.Context(), t, o)
		switch {
		case want != "":
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v; want %s", err, want)
			}
		case err != nil || !out.Summary.Interrupted || out.Summary.SimSeconds != 120 || r.Last() != 2*time.Minute:
			t.Errorf("%v, %+v", err, out)
		}
	}
}

// A run of a given duration is no longer than that, and tells what it did not do.
func TestDurationEndsScenario(t *testing.T) {
	for d, left := range map[time.Duration]int{time.Second: 7, 2 * time.Minute: 6, 3 * time.Minute: 6, time.Hour: 0} {
		out, err := runIt(t.Context(), t, Options{Seed: 1, Scenario: parse(t, steps), ScenarioName: "f.yaml", Duration: d})
		if err != nil {
			t.Fatal(err)
		}
		if s := out.Summary; s.SimSeconds != d.Seconds() || s.StepsLeft != left || s.Interrupted {
			t.Errorf("%v: %+v; want %d steps left", d, s, left)
		}
	}
}

// Pods of the run's own that never run are a failure, if nobody said how long
// they have.
func TestOwnPodsDoNotRun(t *testing.T) {
	const slow = `name: slow
nodes: {count: 1}
images: [{name: registry.test/app:v1, size: 100Ti}]
steps: [{advance: 1s}]
`
	for d, want := range map[time.Duration]string{0: "--pods-per-node: at 1h0m0", 5 * time.Minute: ""} {
		out, err := runIt(t.Context(), t, Options{Seed: 1, PodsPerNode: 2, Scenario: parse(t, slow), ScenarioName: "f.yaml", Duration: d})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(out.Summary.Failures, "; ")
		if !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("duration %v: got %q; want %q", d, got, want)
		}
	}
}

// The apiserver is back when the last of its outages ends.
func TestOutagesOverlap(t *testing.T) {
	const text = `name: x
nodes: {count: 2}
steps:
- apiserver: {outage: 10m}
- apiserver: {outage: 1m}
- create: {workload: web, replicas: 2, image: web:v1}
- at: 9m
  expect: {ready: 0}
- wait: {ready: 2, within: 5m}
`
	out, err := runIt(t.Context(), t, Options{Seed: 1, Scenario: parse(t, text), ScenarioName: "f.yaml"})
	if err != nil || len(out.Summary.Failures) != 0 {
		t.Errorf("%v, %+v", err, out)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestTraceCannotBeWritten(t *testing.T) {
	_, err := runIt(t.Context(), t, Options{Nodes: 1, Record: fullDisk{}})
	check.Says(t, err, "no space left", "got")
}

func TestOptions(t *testing.T) {
	five := 5
	small := &scenario.File{Nodes: scenario.Nodes{Count: 1, Pods: &five}}
	check.Error(t, (&Options{PodsPerNode: five, Scenario: small}).Validate())
	for want, o := range map[string]Options{
		"--nodes: must be set if there is no scenario":                                                                  {},
		"--nodes: -1: must be from 1 to 100000":                                                                         {Nodes: -1},
		"--pods-per-node: 1001: must be from 0 to 1000":                                                                 {Nodes: 1, PodsPerNode: 1001},
		"--duration: -1s: must be from 0 to 8784h0m0s":                                                                  {Nodes: 1, Duration: -time.Second},
		"--probe: 1ms: must be at least 1s":                                                                             {Nodes: 1, PodsPerNode: 1, Probe: time.Millisecond},
		"--probe: applies to the pods of --pods-per-node: set that too":                                                 {Nodes: 1, Probe: time.Second},
		"--pods-per-node: 111: a node has capacity for 110 pods: use more nodes, or a scenario with nodes: {pods: 111}": {Nodes: 10, PodsPerNode: 111},
		"--pods-per-node: 6: a node has capacity for 5 pods: use more nodes, or a scenario with nodes: {pods: 6}":       {PodsPerNode: 6, Scenario: small},
	} {
		if err := o.Validate(); err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// However long a run is, its samples stay few, and nothing is lost of its sums.
func TestFilm(t *testing.T) {
	w := check.Value(sim.New(sim.Config{Seed: 1}))(t)
	r := &run{world: w, options: &Options{Report: true}, begin: w.Now(), pods: w.Pods(), nodes: []string{"a"}, nodeReady: map[string]bool{"a": true}}
	looks := 0
	for r.now() < 3*24*time.Hour {
		r.look()
		looks++
		w.Advance(r.samples.next - r.now())
	}
	h := r.samples.heat(r.nodes)
	seen := 0
	for _, c := range h.Nodes[0].Cells {
		seen += int(c.Looks)
	}
	if len(r.samples.phases) > maxSamples || len(h.Nodes[0].Cells) > maxColumns || seen != looks || time.Duration(len(h.Nodes[0].Cells))*h.Column < 2*24*time.Hour {
		t.Errorf("%d samples, %d columns of %v, %d of %d looks", len(r.samples.phases), len(h.Nodes[0].Cells), h.Column, seen, looks)
	}
	for i := 1; i < len(r.samples.phases); i++ {
		if r.samples.phases[i].At <= r.samples.phases[i-1].At {
			t.Fatalf("sample %d is of %v, the one before of %v", i, r.samples.phases[i].At, r.samples.phases[i-1].At)
		}
	}
}
