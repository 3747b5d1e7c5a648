package run

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
	"github.com/troupe-dev/troupe/supervisor/sim/trace"
)

// Options are what a run is made of.
type Options struct {
	// Seed decides everything that is drawn.
	Seed uint64
	// Nodes is how many machines there are; 0 for as many as the scenario says.
	Nodes int
	// PodsPerNode is how many pods there are for each node, of the run's own; with
	// a scenario that makes pods itself it may be 0.
	PodsPerNode int
	// Duration is how long the run is, of simulated time: it ends then, wherever
	// its scenario is. With 0 it ends when the scenario does, or when all pods run.
	Duration time.Duration
	// Scenario may be nil. ScenarioName and ScenarioText are its file.
	Scenario     *scenario.File
	ScenarioName string
	ScenarioText string
	// Probe is the period of an HTTP readiness probe of the run's own pods; none
	// if 0.
	Probe time.Duration

	// Record is where the trace is written to, Replay one to be held against, as far
	// as it goes; both may be nil.
	Record io.Writer
	Replay *trace.Reader
	// Report: the outcome's report shows each node over time, which takes 4 KB for each.
	Report bool
	// Progress, if not nil, is told from time to time how far the run is.
	Progress func(Progress)
	// Program is the version, for the trace.
	Program string
	// Wall is the wall clock, time.Now if nil.
	Wall func() time.Time
}

// Progress is how far a run is.
type Progress struct {
	// Simulated is how much time has passed in the world, of Of; 0 if unknown.
	Simulated, Of time.Duration
	Pods, Running int
	Doing         string
}

const (
	maxNodes       = scenario.MaxNodes
	maxPodsPerNode = 1000
)

// room is how many pods a node takes.
func (o *Options) room() int {
	if o.Scenario != nil && o.Scenario.Nodes.Pods != nil {
		return *o.Scenario.Nodes.Pods
	}
	return scenario.RoomForPods
}

// Validate says what of the options can't be.
func (o *Options) Validate() error {
	var errs []error
	if o.Scenario == nil && o.Nodes == 0 {
		errs = append(errs, errors.New("--nodes: must be set if there is no scenario"))
	}
	if o.Nodes < 0 || o.Nodes > maxNodes {
		errs = append(errs, fmt.Errorf("--nodes: %d: must be from 1 to %d", o.Nodes, maxNodes))
	}
	if o.PodsPerNode < 0 || o.PodsPerNode > maxPodsPerNode {
		errs = append(errs, fmt.Errorf("--pods-per-node: %d: must be from 0 to %d", o.PodsPerNode, maxPodsPerNode))
	} else if room := o.room(); o.PodsPerNode > room {
		errs = append(errs,
			fmt.Errorf("--pods-per-node: %d: a node has capacity for %d pods: use more nodes, or a scenario with nodes: "+
				"{pods: %d}", o.PodsPerNode, room, o.PodsPerNode))
	}
	if o.Duration < 0 || o.Duration > scenario.MaxTime {
		errs = append(errs, fmt.Errorf("--duration: %v: must be from 0 to %v", o.Duration, scenario.MaxTime))
	}
	if o.Probe != 0 && o.Probe < time.Second {
		errs = append(errs, fmt.Errorf("--probe: %v: must be at least 1s", o.Probe))
	} else if o.Probe != 0 && o.PodsPerNode == 0 {
		errs = append(errs, errors.New("--probe: applies to the pods of --pods-per-node: set that too"))
	}
	return errors.Join(errs...)
}

// Summary is what a run came to.
type Summary struct {
	Scenario    string  `json:"scenario,omitempty"`
	Seed        uint64  `json:"seed"`
	Nodes       int     `json:"nodes"`
	Pods        int     `json:"pods"`
	PodsRunning int     `json:"podsRunning"`
	SimSeconds  float64 `json:"simSeconds"`
	WallSeconds float64 `json:"wallSeconds"`
	Messages    uint64  `json:"messages"`
	HeapBytes   uint64  `json:"heapBytes"`
	// PeakRSSBytes is the most memory that the process had at once; 0 where the
	// system does not say.
	PeakRSSBytes uint64      `json:"peakRSSBytes"`
	Start        Percentiles `json:"startLatencyMs"`
	Restarts     int         `json:"restarts"`
	// TraceHash is over every delivered message and every effect.
	TraceHash string `json:"traceHash"`
	// Expectations is how many were looked at, Failures what was not met.
	Expectations int      `json:"expectations"`
	Failures     []string `json:"failures"`
	Interrupted  bool     `json:"interrupted"`
	// StepsLeft is how many steps of the scenario were not done, because the run
	// was interrupted or its duration was over; their expectations were not checked.
	StepsLeft int `json:"stepsLeft"`
}

// Percentiles are in milliseconds.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}
