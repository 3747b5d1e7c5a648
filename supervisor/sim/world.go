package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/observe"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// World is a simulated cluster.
type World struct {
	config   Config
	clock    *kernel.Virtual
	system   *kernel.System
	tracer   *kernel.HashTracer
	api      *simapi.Server
	plane    *controlplane.ControlPlane // nil if it is left out
	pods     *observe.Pods
	registry *simcri.Registry

	nodes map[string]*Node
	// added is how many nodes there ever were.
	added   int
	crashes int
	follow  map[string]*Timeline // by namespace/name
}

// New makes a world with no nodes.
func New(c Config) (*World, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Start.IsZero() {
		c.Start = epoch
	}
	if c.RestartDelay == 0 {
		c.RestartDelay = defaultRestartDelay
	}
	w := &World{
		config: c, clock: kernel.NewVirtual(c.Seed, c.Start), tracer: kernel.NewHashTracer(),
		registry: c.Registry, nodes: map[string]*Node{}, follow: map[string]*Timeline{},
	}
	if w.registry == nil {
		w.registry = simcri.NewRegistry()
	}
	history := c.History
	if history == 0 {
		history = -1 // which is none to the kernel
	}
	var err error
	w.clock.SetSchedule(c.Schedule, c.Seed)
	w.system, err = kernel.NewSystem(kernel.Config{
		Clock: w.clock, Seed: c.Seed, Tracer: traced(w.tracer, c.Tracer), History: history, MailboxLimit: c.MailboxLimit,
		Log:     c.Log,
		OnCrash: w.crashed, OnFatal: w.fatal, Intercept: c.Hooks.intercept(), Within: c.Hooks.within(),
		Violated: c.Hooks.Violated,
	})
	if err != nil {
		return nil, err
	}
	api := c.API
	api.Clock, api.Rand, api.Fault = w.clock, w.streams("api/"), c.Hooks.API
	if w.api, err = simapi.New(api); err != nil {
		return nil, err
	}
	if !c.Bare {
		w.Pods()
		w.plane, err = controlplane.New(controlplane.Config{
			Server: w.api, Clock: w.clock, NodeGrace: c.NodeGrace, Rand: w.streams("controlplane/"),
		})
	}
	return w, err
}

// Now is the time in the world, Elapsed how much of it has passed since New.
func (w *World) Now() time.Time         { return w.clock.Now() }
func (w *World) Elapsed() time.Duration { return w.clock.Now().Sub(w.config.Start) }

// Clock is the world's, for what the caller adds to it: a callback of AfterFunc
// may do anything but let time pass. Its Step handles one message.
func (w *World) Clock() *kernel.Virtual { return w.clock }

// Advance lets d pass.
func (w *World) Advance(d time.Duration) { w.clock.Advance(d) }

// RunUntil lets time pass until cond holds (true), or until limit has passed
// (false). cond is asked after everything that happens, so it has to be cheap.
func (w *World) RunUntil(limit time.Duration, cond func() bool) bool {
	return w.clock.RunUntil(w.clock.Now().Add(limit), cond)
}

// API is the apiserver, as its owner has it: it takes no time and shows
// everything, and what the caller creates, changes and deletes there the nodes
// see as they would a real one's.
func (w *World) API() *simapi.Server { return w.api }

// ControlPlane schedules pods and has workloads; nil in a world that is Bare.
func (w *World) ControlPlane() *controlplane.ControlPlane { return w.plane }

// Pods counts the pods of the world, as its API shows them.
func (w *World) Pods() *observe.Pods {
	if w.pods == nil {
		var err error
		if w.pods, err = observe.New(w.api, w.clock); err != nil {
			panic(err) // it watches all pods, which can't be wrong
		}
	}
	return w.pods
}

// Ready is how many pods are.
func (w *World) Ready() int { return w.Pods().Counts()[report.Ready] }

// Registry is where the nodes get their images from.
func (w *World) Registry() *simcri.Registry { return w.registry }

// System has the actors of all nodes: that of node n is at the path n, its pods
// at n/pods/<UID>.
func (w *World) System() *kernel.System { return w.system }

// AddNode adds a machine, which starts its agent at once.
func (w *World) AddNode(s NodeSpec) (*Node, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Name == "" {
		s.Name = fmt.Sprintf("n%05d", w.added)
	}
	if w.nodes[s.Name] != nil {
		return nil, fmt.Errorf("sim: there is a node %q already", s.Name)
	}
	n, err := newNode(w, s, w.added)
	if err != nil {
		return nil, err
	}
	w.added++
	w.nodes[s.Name] = n
	w.api.SetLink(s.Name, simapi.Up) // another of its name may have been cut off
	if !s.Stopped {
		n.StartAgent()
	}
	return n, nil
}

// AddNodes adds count machines that are alike. A name is a prefix of theirs.
func (w *World) AddNodes(count int, s NodeSpec) ([]*Node, error) {
	if count < 0 {
		return nil, fmt.Errorf("sim: add %d nodes: can't be negative", count)
	}
	prefix := s.Name
	out := make([]*Node, 0, count)
	for range count {
		if prefix != "" {
			s.Name = fmt.Sprintf("%s%05d", prefix, w.added)
		}
		n, err := w.AddNode(s)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	return out, nil
}

// Node gives a machine by its name, nil if there is none.
func (w *World) Node(name string) *Node { return w.nodes[name] }

// Nodes are all machines, in order of their names.
func (w *World) Nodes() []*Node {
	out := make([]*Node, 0, len(w.nodes))
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		out = append(out, w.nodes[name])
	}
	return out
}

// Deploy makes a workload of pods that have one container each, of image, and
// nothing special about them. See ControlPlane.Apply for others. It is an error in
// a world that is Bare.
func (w *World) Deploy(name string, replicas int, image string) error {
	switch {
	case w.plane == nil:
		return fmt.Errorf("sim: deploy %s: a bare world has no control plane", name)
	case image == "":
		return fmt.Errorf("sim: deploy %s: no image is given", name)
	}
	return w.plane.Apply(controlplane.Workload{
		Name: name, Replicas: replicas,
		Template: v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: name, Image: image}}}},
	})
}

func (w *World) crashed(r *kernel.CrashReport) {
	w.crashes++
	agent.Crashed(w.system, r)
	if w.config.Hooks.Crashed != nil {
		w.config.Hooks.Crashed(r)
	}
}

// fatal: an agent has given up. Its process ends, and is started again.
func (w *World) fatal(r *kernel.CrashReport) {
	name := agent.NodeOf(r.Path)
	if w.config.Hooks.GaveUp != nil {
		w.config.Hooks.GaveUp(name, r)
	}
	w.clock.AfterFunc(0, func() {
		if n := w.nodes[name]; n != nil && n.Running() {
			n.KillAgent()
			w.clock.AfterFunc(w.config.RestartDelay, n.StartAgent)
		}
	})
}
