package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Node is one simulated machine and its agent.
//
//	on, agent runs ──KillAgent──► on, agent dead ──StartAgent──► on, agent runs
//	     │ PowerOff                    │ PowerOff
//	     └────────────► off ◄──────────┘      off ──PowerOn──► on, agent runs
//	any ──Remove──► removed, for good
type Node struct {
	world *World
	spec  NodeSpec

	// The machine.
	clock   *kernel.NodeClock
	runtime *simcri.Runtime
	machine *machine.Machine
	off     bool
	removed bool

	// rules are how containers get exclusive CPUs and devices; nil: none does.
	rules *cpus.Rules

	agent *agent.Agent // nil while it is dead
	// paused is when the last pause of an agent ends.
	paused time.Time
	// starting: it waits until what is left of its predecessor is gone.
	starting bool
}

func newNode(w *World, s NodeSpec, index int) (*Node, error) {
	n := &Node{world: w, spec: s, clock: w.clock.NodeClock()}
	allocatable := s.Allocatable
	if allocatable == nil {
		allocatable = defaultAllocatable
	}
	n.machine = machine.New(n.clock, machine.FactsOf(s.Name, index, allocatable))
	if hook := w.config.Hooks.Host; hook != nil {
		n.machine.SetFault(func(c machine.Call) machine.Fault { return hook(s.Name, c) })
	}
	c := simcri.Config{
		Clock: n.clock, Rand: w.streams("node/" + s.Name + "/"), Registry: w.registry,
		Bandwidth: s.Bandwidth, PodCIDR: machine.PodCIDR(index), Latencies: s.Latencies,
		Events: s.Events, LateEffect: s.LateEffect, Script: s.Script,
	}
	if c.Events.Delay.IsZero() {
		c.Events.Delay = simcri.DefaultEventDelay()
	}
	if hook := w.config.Hooks.Event; hook != nil {
		c.Events.Fate = func(e port.RuntimeEvent) simcri.EventFate { return hook(s.Name, e) }
	}
	c.Observe = s.Transition
	if hook := w.config.Hooks.Transition; hook != nil {
		c.Observe = func(t simcri.Transition) {
			hook(s.Name, t)
			if s.Transition != nil {
				s.Transition(t)
			}
		}
	}
	if hook := w.config.Hooks.Runtime; hook != nil {
		c.Fault = func(call simcri.Call) simcri.Fault { return hook(s.Name, call) }
	}
	var err error
	if n.rules, err = s.rules(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Devices)) {
		n.machine.Plugins.Serve(name, s.Devices[name])
	}
	n.machine.Credentials.Add(s.CredentialPlugins...)
	for _, name := range slices.Sorted(maps.Keys(s.CSI)) {
		n.machine.CSI.Serve(name, s.CSI[name])
	}
	n.runtime, err = simcri.New(c)
	n.machine.Pressure.Mounted = n.machine.Host.Holds
	n.machine.Pressure.Truth = func() (observed.Runtime, []observed.Image) {
		t := n.runtime.Truth()
		return t.Runtime, t.Images
	}
	if s.Pressure != nil {
		n.machine.Pressure.SetCapacity(*s.Pressure)
	}
	return n, err
}

// pullDeadline is when a pull without progress ends: a real runtime ends it itself, the simulated one does not.
const pullDeadline = time.Hour

// Name of the node.
func (n *Node) Name() string { return n.spec.Name }

// Runtime is the machine's container runtime: to look at, and to break.
func (n *Node) Runtime() *simcri.Runtime { return n.runtime }

// Runner runs the agent's effects; nil while the agent is dead.
func (n *Node) Runner() *kernel.Runner {
	if n.agent == nil {
		return nil
	}
	return n.agent.Runner
}

// Agent is the running agent; nil while it is dead.
func (n *Node) Agent() *agent.Agent { return n.agent }

// Running reports whether the agent runs, or is about to.
func (n *Node) Running() bool { return n.agent != nil || n.starting }

// On reports whether the machine runs.
func (n *Node) On() bool { return !n.off && !n.removed }

// StartAgent starts the agent, on a machine that is on and has none.
func (n *Node) StartAgent() {
	if !n.On() || n.Running() {
		return
	}
	n.starting = true
	n.tryStart()
}

// tryStart starts the agent as soon as the actors of its predecessor are gone:
// that takes them a message each.
func (n *Node) tryStart() {
	if !n.starting {
		return
	}
	a, err := agent.Start(n.world.system, n.agentConfig())
	if err != nil {
		n.world.clock.AfterFunc(time.Millisecond, n.tryStart)
		return
	}
	n.starting, n.agent = false, a
}

// agentConfig is the daemon's default configuration on this machine. It differs in
// what no simulated machine has (services, unless the world has them) and in what
// the spec asks for.
func (n *Node) agentConfig() agent.Config {
	name, m := n.spec.Name, n.machine
	c := m.Agent(nodeobject.Own{Name: name, Labels: n.spec.labels(), Taints: n.spec.Taints}, n.runtime, recorder{n})
	if n.spec.Starts > 0 {
		c.Starts = n.spec.Starts
	}
	c.Clock, c.PullDeadline, c.Cluster.Objects.NoServices = n.clock, pullDeadline, !n.world.config.Services
	if !n.spec.Standalone {
		c.Ports.API = n.world.api.Client(name)
	}
	if n.spec.Files {
		c.Ports.Files = m.Files
	}
	if n.spec.Cgroups {
		c.Ports.Cgroups, c.Cgroups = m.Cgroups, podcgroup.Settings{Capacity: m.Facts.Get().Capacity}
	}
	if n.spec.PullRecords {
		c.Ports.PullRecords = m.PullRecords
	}
	if len(n.spec.CredentialPlugins) > 0 {
		c.Ports.CredentialPlugins, c.Providers = m.Credentials, m.Credentials.Providers()
	}
	if n.spec.Pressure != nil {
		c.Ports.Pressure, c.Ports.OOM = m.Pressure, m.OOM
	}
	if n.rules != nil {
		n.assigns(&c)
	}
	if len(n.spec.CSI) > 0 {
		c.Ports.CSI = m.CSI
	}
	if n.spec.Manifests {
		c.Sources.Path = "/etc/kubernetes/manifests"
	}
	if hook := n.world.config.Hooks.Around; hook != nil {
		around := func(actor string, m any, handled bool) { hook(name, actor, m, handled) }
		c.Around = around
		c.Wrap = func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
			return node.Wrapped(around, string(p.UID), construct)
		}
	}
	if n.spec.Configure != nil {
		n.spec.Configure(&c)
	}
	return c
}

// assigns has containers get exclusive CPUs and devices, as the state files on the disk continue.
func (n *Node) assigns(c *agent.Config) {
	disk := n.machine.Checkpoints
	c.Assign, c.Ports.States = n.rules, disk
	if len(n.spec.Devices) == 0 {
		return
	}
	c.Ports.DevicePlugins, c.Ports.DeviceStates, c.DeviceHealth = n.machine.Plugins, disk, true
	if data := disk.Get(devicestate.Name); data != nil {
		given, err := devicestate.Parse(data)
		if err != nil {
			given = devicestate.Unknown(err.Error())
		}
		c.Devices = given
	}
}

// KillAgent ends the agent as kill -9 does. Its pods run on.
func (n *Node) KillAgent() {
	n.starting = false
	if n.agent == nil {
		return
	}
	n.agent.Kill()
	n.agent, n.paused = nil, time.Time{}
}

// RestartAgent kills the agent and starts another.
func (n *Node) RestartAgent() {
	n.KillAgent()
	n.StartAgent()
}

// PowerOff ends the machine as the loss of its power does: the agent, the
// runtime, all containers, mounts and files in memory are gone, without notice.
func (n *Node) PowerOff() {
	if !n.On() {
		return
	}
	n.off = true
	n.KillAgent()
	n.world.api.SetLink(n.spec.Name, simapi.Silent)
	n.runtime.Kill()
	for _, p := range n.runtime.Truth().Runtime.Pods {
		n.endPod(&p)
	}
	n.machine.LosePower()
}

// endPod ends all that runs of a pod.
func (n *Node) endPod(p *observed.RuntimePod) {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.State == observed.ContainerRunning {
			if err := n.runtime.EndContainer(c.ID, simcri.Exit{Code: 137}); err != nil {
				panic(err) // it runs
			}
		}
	}
	for i := range p.Sandboxes {
		if s := &p.Sandboxes[i]; s.State == observed.SandboxReady {
			if err := n.runtime.EndSandbox(s.ID); err != nil {
				panic(err) // it is ready
			}
		}
	}
}

// PowerOn brings a machine back, which starts its runtime and its agent. What was
// on its disk is still there.
func (n *Node) PowerOn() {
	if !n.off || n.removed {
		return
	}
	n.off = false
	facts := *n.machine.Facts.Get()
	facts.Info.BootID = fmt.Sprint(n.world.clock.Now().Unix())
	n.machine.Facts.Set(&facts)
	n.world.api.SetLink(n.spec.Name, simapi.Up)
	n.runtime.Restart()
	n.machine.Boot()
	n.StartAgent()
}

// Remove takes the machine away for good, and the node's object from the API.
// Its pods there go with the next look of the control plane.
func (n *Node) Remove() {
	if n.removed {
		return
	}
	n.PowerOff()
	n.removed = true
	delete(n.world.nodes, n.spec.Name)
	n.world.api.Forget(n.spec.Name)
	// It may not have been registered yet.
	_ = n.world.api.Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: n.spec.Name}})
}

// WriteManifest puts a file into the node's manifest directory, or replaces it;
// no data removes it. The spec must have Manifests.
func (n *Node) WriteManifest(name string, data []byte) {
	if !n.spec.Manifests {
		panic("sim: node " + n.spec.Name + " reads no manifests: set NodeSpec.Manifests")
	}
	n.machine.Manifests.Write(name, data)
}

// Cgroups are the limits of the cgroups above those of containers, by path:
// /kubepods/burstable/pod<UID>. Nil if the node's spec has no Cgroups.
func (n *Node) Cgroups() map[string]podcgroup.Values {
	if !n.spec.Cgroups {
		return nil
	}
	return n.machine.Cgroups.Values()
}

// Machine is what the agent runs on, apart from the runtime: to look at, and to break.
func (n *Node) Machine() *machine.Machine { return n.machine }

// recorder takes the events of a node's pods.
type recorder struct{ n *Node }

// Record implements port.Recorder.
func (r recorder) Record(e port.Event) { r.n.world.recorded(r.n, e) }
