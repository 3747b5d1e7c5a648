package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/observe"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/supervisor/sim/trace"
)

// Outcome is what a run gives.
type Outcome struct {
	Summary Summary
	Report  report.Data
}

// Run makes a run in a world that has nothing yet. When ctx ends it stops and
// gives what there is. An error is one of the run itself, a *trace.Difference
// among them; expectations that were not met are in the outcome.
func Run(ctx context.Context, w *sim.World, o Options) (*Outcome, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	r := &run{ctx: ctx, world: w, options: &o, begin: w.Now(), cp: w.ControlPlane(), pods: w.Pods(),
		draw: w.Rand("run/draw"), wall: o.Wall(), nodeReady: map[string]bool{}, nextBeat: beatEvery,
		published: map[csi.Key]map[string]bool{}}
	err := r.all()
	switch {
	case errors.Is(err, errInterrupted):
		r.interrupted, err = true, nil
		if r.trace != nil {
			err = r.trace.Interrupted()
		}
	case errors.Is(err, errRecordingOver):
		r.interrupted, err = true, nil
	}
	if r.stopNodes == nil {
		return nil, err
	}
	out := r.outcome()
	return out, errors.Join(err, r.close())
}

// How a run ends before its scenario does, without anything being wrong.
var (
	errInterrupted   = errors.New("interrupted")
	errDurationOver  = errors.New("the duration is over")
	errRecordingOver = errors.New("the recording was interrupted here")
)

// endsRun: the error is no step's.
func endsRun(err error) bool {
	return errors.Is(err, errInterrupted) || errors.Is(err, errDurationOver) || errors.Is(err, errRecordingOver)
}

const (
	// beatEvery is the time between beats of a trace, lookEvery that between looks
	// at the world at the begin of a run.
	beatEvery = time.Minute
	lookEvery = 100 * time.Millisecond
	// settleLimit is how long the pods of a run without a scenario may take.
	settleLimit = time.Hour
)

// run is one run under way.
type run struct {
	ctx     context.Context
	world   *sim.World
	options *Options
	begin   time.Time
	wall    time.Time
	cp      *controlplane.ControlPlane
	pods    *observe.Pods
	draw    *rand.Rand

	nodes     []string // all there ever were
	kind      scenario.Nodes
	drawn     []string
	nodeReady map[string]bool
	ready     int
	stopNodes func()

	always   []*always
	failures []report.Failure
	expected int
	steps    int           // that were done
	down     time.Duration // when the last outage of the apiserver ends
	marks    []report.Mark
	samples  samples
	// published are the nodes that each volume was published on.
	published map[csi.Key]map[string]bool

	trace       *trace.Writer
	nextBeat    time.Duration
	doing       string
	interrupted bool
}

// always is a condition that has to hold until it is released.
type always struct {
	condition *scenario.Condition
	tally     *observe.PodCounter
	where     string
	broken    bool
}

func (r *run) all() error {
	o := r.options
	if o.Replay != nil && o.Replay.Interrupted && o.Replay.Over() {
		return fmt.Errorf(
			"the recording was interrupted before %v, the time of its first checkpoint: there is nothing to compare a replay "+
				"with", o.Replay.Header.Every,
		)
	}
	if o.Record != nil {
		var err error
		r.trace, err = trace.NewWriter(o.Record, trace.Header{
			Program: o.Program, Seed: o.Seed, Nodes: o.Nodes, PodsPerNode: o.PodsPerNode, Duration: o.Duration,
			ScenarioName: o.ScenarioName, Scenario: o.ScenarioText, Probe: o.Probe, Every: beatEvery,
		})
		if err != nil {
			return err
		}
	}
	if err := r.happen(); err != nil && !errors.Is(err, errDurationOver) {
		return err
	}
	r.doing = "until the end"
	if rest := o.Duration - r.now(); rest > 0 {
		if err := r.pass(rest); err != nil {
			return err
		}
	}
	return r.lastBeat()
}

// happen is all that the run does, before it lets the rest of its time pass.
func (r *run) happen() error {
	o := r.options
	if err := r.prepare(); err != nil {
		return err
	}
	if o.PodsPerNode > 0 {
		if err := r.own(); err != nil {
			return err
		}
	}
	if o.Scenario == nil {
		return nil
	}
	for i := range o.Scenario.Steps {
		if err := r.step(&o.Scenario.Steps[i]); err != nil {
			return err
		}
	}
	return r.settleVolumes()
}

// prepare makes the world's nodes and what watches it.
func (r *run) prepare() error {
	o := r.options
	count := o.Nodes
	if o.Scenario != nil {
		r.kind = o.Scenario.Nodes
		if count == 0 {
			count = r.kind.Count
		}
		for _, m := range o.Scenario.Images {
			r.world.Registry().Put(m.Name, simcri.RegistryImage{SizeBytes: uint64(m.Size.Value())})
		}
	}
	var err error
	r.stopNodes, err = r.world.API().Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.NodeKind}}, r.seeNode)
	if err != nil {
		return err
	}
	if err := r.serveStorage(); err != nil {
		return err
	}
	if err := r.addNodes(count); err != nil {
		return err
	}
	r.doing = "nodes register"
	// Pods that were there before the nodes would all go to the first few.
	_, err = r.until(time.Minute, func() bool { return r.ready == len(r.nodes) })
	return err
}

func (r *run) addNodes(n int) error {
	for range n {
		name := scenario.NodeName(len(r.nodes))
		s := nodeSpec(name, &r.kind)
		drives(&s, &r.kind, len(r.nodes))
		r.holdDevices(&s)
		node, err := r.world.AddNode(s)
		if err != nil {
			return err
		}
		r.holdVolumes(node)
		r.nodes = append(r.nodes, name)
	}
	return nil
}

func nodeSpec(name string, k *scenario.Nodes) sim.NodeSpec {
	allocatable := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(scenario.DefaultCPUs, resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("128Gi"),
		v1.ResourcePods:   *resource.NewQuantity(scenario.RoomForPods, resource.DecimalSI),
	}
	if k.CPU != nil {
		allocatable[v1.ResourceCPU] = *k.CPU
	}
	if k.Memory != nil {
		allocatable[v1.ResourceMemory] = *k.Memory
	}
	if k.Pods != nil {
		allocatable[v1.ResourcePods] = *resource.NewQuantity(int64(*k.Pods), resource.DecimalSI)
	}
	s := sim.NodeSpec{Name: name, Labels: k.Labels, Allocatable: allocatable}
	if k.Bandwidth != nil {
		s.Bandwidth = uint64(k.Bandwidth.Value())
	}
	assigns(&s, k)
	return s
}

func (r *run) seeNode(e simapi.Event) {
	n := e.Object.(*v1.Node)
	is := false
	for _, c := range n.Status.Conditions {
		is = is || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue && e.Type != simapi.Deleted
	}
	was := r.nodeReady[n.Name]
	r.nodeReady[n.Name] = is
	if was != is {
		if is {
			r.ready++
		} else {
			r.ready--
		}
	}
}

// own makes the pods that the command line asked for and waits until they run.
func (r *run) own() error {
	n := len(r.nodes) * r.options.PodsPerNode
	c := scenario.Create{Workload: scenario.OwnWorkload, Replicas: n, Image: scenario.OwnImage}
	if r.options.Probe > 0 {
		c.Readiness = duration(r.options.Probe)
	}
	r.doing = "pods start"
	r.mark(report.Step, "", fmt.Sprintf("%d pods are created", n))
	if err := r.cp.Apply(workload(&c)); err != nil {
		return err
	}
	limit := settleLimit
	if r.options.Duration > 0 {
		limit = min(limit, max(r.options.Duration-r.now(), 0))
	}
	held, err := r.until(limit, func() bool { return r.pods.Running() >= n })
	if err == nil && !held && r.options.Duration == 0 {
		r.expected++ // with a given duration, the run may end before they all run
		r.failures = append(r.failures, report.Failure{
			At: r.now(), Want: fmt.Sprintf("running %d within %v", n, limit), Got: fmt.Sprintf("running %d", r.pods.Running()),
			Where: "--pods-per-node",
		})
	}
	return err
}

// now is counted from the begin of the run.
func (r *run) now() time.Duration { return r.world.Now().Sub(r.begin) }

func (r *run) pass(d time.Duration) error {
	_, err := r.until(d, func() bool { return false })
	return err
}

// until lets time pass until cond holds, or limit has passed. cond must follow
// from what r.pods and r.ready count. The error is errDurationOver if the run
// ends before either.
func (r *run) until(limit time.Duration, cond func() bool) (bool, error) {
	end, over := r.now()+limit, error(nil)
	if d := r.options.Duration; d > 0 && d < end {
		end, over = max(d, r.now()), errDurationOver
	}
	changes, ready := uint64(0), -1
	check := func() bool {
		if c := r.pods.Changes() + r.cp.StorageChanges(); c == changes && r.ready == ready {
			return false // nothing that a condition could be about
		}
		changes, ready = r.pods.Changes()+r.cp.StorageChanges(), r.ready
		r.checkAlways()
		return cond()
	}
	for {
		next := min(end, r.nextBeat, r.samples.next)
		held := check() || r.world.RunUntil(max(next-r.now(), 0), check)
		if rest := next - r.now(); !held && rest > 0 {
			r.world.Advance(rest) // nothing happens until then
		}
		if r.now() >= r.samples.next {
			r.look()
		}
		if r.now() >= r.nextBeat {
			if err := r.beat(); err != nil {
				return held, err
			}
		}
		switch {
		case r.ctx.Err() != nil:
			return held, errInterrupted
		case held:
			return true, nil
		case r.now() >= end:
			return false, over
		}
	}
}

func (r *run) beat() error {
	r.nextBeat += beatEvery
	return r.note(trace.Beat{At: r.now(), Messages: r.world.Messages(), Hash: r.world.TraceHash()})
}

func (r *run) note(b trace.Beat) error {
	if r.trace != nil {
		if err := r.trace.Beat(b); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
	p := r.options.Replay
	if p == nil {
		return nil
	}
	if err := p.Check(b); err != nil {
		return err
	}
	if p.Interrupted && p.Over() {
		return errRecordingOver
	}
	return nil
}

// lastBeat holds the very end against the recording as well.
func (r *run) lastBeat() error {
	if err := r.note(trace.Beat{At: r.now(), Messages: r.world.Messages(), Hash: r.world.TraceHash()}); err != nil {
		return err
	}
	if r.options.Replay != nil {
		return r.options.Replay.End()
	}
	return nil
}

func (r *run) close() error {
	r.stopNodes()
	if r.trace != nil {
		if err := r.trace.Close(); err != nil {
			return fmt.Errorf("write the recording: %w", err)
		}
	}
	return nil
}

func (r *run) outcome() *Outcome {
	o := r.options
	r.look()
	wall := o.Wall().Sub(r.wall)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	p50, p90, p99 := r.pods.StartPercentile(0.5), r.pods.StartPercentile(0.9), r.pods.StartPercentile(0.99)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	s := Summary{
		Seed: o.Seed, Nodes: len(r.nodes), Pods: r.pods.Len(), PodsRunning: r.pods.Running(),
		SimSeconds: r.now().Seconds(), WallSeconds: wall.Seconds(), Messages: r.world.Messages(), HeapBytes: m.HeapAlloc,
		PeakRSSBytes: peakRSS(),
		Start:        Percentiles{ms(p50), ms(p90), ms(p99)}, Restarts: r.pods.Restarts(),
		TraceHash: fmt.Sprintf("%016x", r.world.TraceHash()), Expectations: r.expected, Failures: []string{},
		Interrupted: r.interrupted,
	}
	if o.Scenario != nil {
		s.StepsLeft = len(o.Scenario.Steps) - r.steps
	}
	title := fmt.Sprintf("%d nodes, %d pods", s.Nodes, s.Pods)
	if o.Scenario != nil {
		s.Scenario, title = o.Scenario.Name, o.Scenario.Name
	}
	for _, f := range r.failures {
		s.Failures = append(s.Failures, fmt.Sprintf("%s: at %v: want %s; got %s", f.Where, f.At, f.Want, f.Got))
	}
	return &Outcome{Summary: s, Report: report.Data{
		Title: title, Scenario: o.ScenarioName, Seed: o.Seed, Version: o.Program, Duration: r.now(),
		Interrupted: r.interrupted,
		Figures: report.Figures{
			Nodes: s.Nodes, Pods: s.Pods, PodsRunning: s.PodsRunning, StartP50: p50, StartP90: p90, StartP99: p99,
			Restarts: s.Restarts, Messages: s.Messages, Wall: wall, HeapBytes: s.HeapBytes, TraceHash: s.TraceHash,
		},
		Phases: r.samples.phases, Starts: r.pods.Starts(), Heat: r.samples.heat(r.nodes), Marks: r.marks,
		Failures: r.failures, Expectations: r.expected,
	}}
}
