package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Config is what a world is made of. The zero value is a good one.
type Config struct {
	// Seed decides everything that is drawn, and the order of what happens at
	// one instant.
	Seed uint64
	// Start is the time that the clock begins at; 2030-01-01 UTC if zero.
	Start time.Time

	// API is how the apiserver is; its Clock, Rand and Fault are the world's.
	API simapi.Config
	// Bare leaves out the control plane, for a scheduler and controllers of the
	// caller's own, and counts pods only from when Pods is first called.
	Bare bool
	// NodeGrace is how long a node may be silent before the control plane counts
	// it as lost; 50 s if zero.
	NodeGrace time.Duration

	// Services: pods are told of services, for which every node watches them.
	// Without it they are told of none, whatever the apiserver has.
	Services bool

	// Registry is where images come from; nil is one that has every image.
	Registry *simcri.Registry
	// RestartDelay is how long after its end an agent is started again by whatever
	// watches over it (systemd RestartSec); 100 ms if zero.
	RestartDelay time.Duration
	// Hooks are where faults come from.
	Hooks Hooks
	// Schedule is in what order actors handle messages, and what time that takes; by default any
	// order, and none.
	Schedule kernel.Schedule
	// Tracer is told of everything that actors do, besides the hash of the run; nil for none.
	Tracer kernel.Tracer
	// History is how many handled messages a crash report of an actor shows; none
	// if zero.
	History int
	// MailboxLimit bounds each mailbox; the kernel's default if zero.
	MailboxLimit int
	// Log gets what the kernel says of crashes and restarts, and what the agents log.
	// The zero value says nothing.
	Log zerolog.Logger
}

// Hooks are asked, or told, of what happens in a world, and may make it go wrong.
// Each may be nil. They are called on the world's goroutine, and must not call
// the world unless they say so.
type Hooks struct {
	// Runtime says what goes wrong with a call of a node's runtime.
	Runtime func(node string, c simcri.Call) simcri.Fault
	// Transition is told of each change of a sandbox or container of a node's runtime.
	Transition func(node string, t simcri.Transition)
	// Event says what becomes of an event of a node's runtime, beside NodeSpec.Events.
	Event func(node string, e port.RuntimeEvent) simcri.EventFate
	// API says what goes wrong with a call of the apiserver by a node.
	API func(simapi.Call) simapi.Fault
	// Host says what goes wrong with a call of a node's machine: its file systems,
	// cgroups, checkpoints, manifests and the files of containers.
	Host func(node string, c HostCall) HostFault
	// Around is called before (handled is false) and after an actor of a node
	// handles a message: actor is pods, images, pleg, … or the UID of a pod. It may
	// panic there, as the actor itself might: before, the message is lost; after,
	// what the actor knew is. It costs a little for every message.
	Around func(node, actor string, m any, handled bool)
	// Within is called before each message that an actor sends and each effect that it begins: the
	// k-th (from 1) while it handles m, which is nil at its start and end. It may panic there, as the
	// actor might: what was sent before is sent. The actor is named as for Around; "" is the topmost.
	Within func(node, actor string, m any, k int)
	// Message decides on each message between two actors of a node, by their paths.
	Message func(node, from, to string, m any) kernel.Fate
	// Crashed is told of each crash of an actor, GaveUp of an agent that ended because
	// its topmost actor was restarted too often. It is started again as systemd would.
	Crashed func(*kernel.CrashReport)
	GaveUp  func(node string, r *kernel.CrashReport)
	// Violated is told of each invariant of an actor that does not hold after a message (kernel.Config.Violated). With
	// it each message costs a walk over what its actor knows, so that large worlds go without.
	Violated func(*kernel.Violation)
}

// HostCall is one call of a machine, HostFault what goes wrong with it.
type (
	HostCall  = machine.Call
	HostFault = machine.Fault
)

// Validate says what of the configuration can't be.
func (c *Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name string
		is   time.Duration
	}{{"NodeGrace", c.NodeGrace}, {"RestartDelay", c.RestartDelay}, {"History", time.Duration(c.History)},
		{"MailboxLimit", time.Duration(c.MailboxLimit)}, {"Schedule.Cost", c.Schedule.Cost},
		{"Schedule.Changes", time.Duration(c.Schedule.Changes)}} {
		if d.is < 0 {
			errs = append(errs, fmt.Errorf("sim: Config.%s is %d: it can't be negative", d.name, d.is))
		}
	}
	if c.API.Clock != nil || c.API.Rand != nil || c.API.Fault != nil {
		errs = append(errs,
			errors.New("sim: Config.API: leave Clock, Rand and Fault to the world; faults come from Hooks.API"))
	}
	return errors.Join(errs...)
}

// NodeSpec is what a node is. The zero value of each field is a good one.
type NodeSpec struct {
	// Name of the node, as in the API; the next free one of n00000, n00001, … if
	// empty.
	Name string
	// Labels come on top of those that every node has (hostname, os, arch).
	Labels map[string]string
	Taints []v1.Taint
	// Allocatable is what pods may ask for: 32 CPUs, 128 GiB and 110 pods if nil.
	Allocatable v1.ResourceList
	// Starts is how many starts the agent has under way at once; 8 if zero, which
	// is what it has on a machine of four cores.
	Starts int
	// Latencies, Bandwidth (bytes per second), Events, LateEffect and Script are
	// the runtime's; see simcri.Config. Events that say nothing of their delay come
	// as late as a real runtime's, simcri.DefaultEventDelay.
	Latencies  *simcri.Latencies
	Bandwidth  uint64
	Events     simcri.EventPolicy
	LateEffect float64
	Script     func(simcri.Starting) *simcri.Script
	// Manifests has static pods read from the node's manifest directory; see
	// Node.WriteManifest.
	Manifests bool
	// Cgroups gives pods cgroups of their own; see Node.Cgroups. It costs an actor
	// a node and some messages a pod, so that large worlds go without.
	Cgroups bool
	// Files gives containers an /etc/hosts and termination messages; see Node.Machine.
	// It costs some calls for each container.
	Files bool
	// PullRecords has the agent note how images were pulled, so that a pod needs credentials for an image that another
	// has pulled; see Machine().PullRecords. It costs some calls for each pull.
	PullRecords bool
	// CredentialPlugins are what the agent asks for credentials of registries, in their order. Nil: the agent pulls with
	// pull secrets only.
	CredentialPlugins []machine.CredentialPlugin
	// Pressure is what there is of memory and disks: the agent evicts pods when it runs short. Nil: nothing runs
	// short. What containers use is set by Machine().Pressure.SetUse, what the OOM killer does by Machine().OOM.Kill.
	Pressure *machine.Capacity
	// Transition is told of each change of a sandbox or container of its runtime; nil for nobody.
	Transition func(simcri.Transition)
	// Devices are device plugins, which register before the agent starts. Machine().Plugins stops them, starts them and
	// changes the health of devices.
	Devices map[v1.ResourceName]machine.DevicePlugin
	// CSI are CSI drivers by their names, which register before the agent starts. Machine().CSI stops them and starts
	// them. Nil: the agent has none, and counts their volumes as mounted.
	CSI map[string]machine.CSIDriver
	// Assign is how containers get exclusive CPUs, and where from; nil: none does. Nodes with Devices and without
	// Assign have one NUMA node.
	Assign *cpus.Config
	// Standalone leaves out the apiserver: the agent has static pods only.
	Standalone bool
	// Stopped leaves the agent to be started by StartAgent.
	Stopped bool
	// Configure may change the agent's configuration before each of its starts; nil
	// for no change. It may put other ports in the place of the machine's.
	Configure func(*agent.Config)
}

// Validate says what of the spec can't be.
func (s *NodeSpec) Validate() error {
	var errs []error
	if s.Name != "" {
		if why := validation.IsDNS1123Subdomain(s.Name); len(why) > 0 {
			errs = append(errs, fmt.Errorf("sim: node name %q: %s", s.Name, strings.Join(why, ", ")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Devices)) {
		if !podspec.IsExtended(name) {
			errs = append(errs, fmt.Errorf("sim: node %q: Devices: %q is no extended resource: take a name such as "+
				"example.com/gpu", s.Name, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.CSI)) {
		if why := validation.IsDNS1123Subdomain(name); len(why) > 0 {
			errs = append(errs, fmt.Errorf("sim: node %q: CSI driver %q: %s", s.Name, name, strings.Join(why, ", ")))
		}
	}
	if _, err := s.rules(); err != nil {
		errs = append(errs, fmt.Errorf("sim: node %q: Assign: %w", s.Name, err))
	}
	if s.Starts < 0 {
		errs = append(errs, fmt.Errorf("sim: node %q: Starts is %d: it can't be negative", s.Name, s.Starts))
	}
	return errors.Join(errs...)
}

// Topology is that of a machine with CPUs of one thread each, spread over NUMA nodes, each of which is a socket.
func Topology(cpus, nodes int) *topology.Machine {
	m := &topology.Machine{}
	for i := range nodes {
		m.Nodes = append(m.Nodes, topology.Node{ID: i})
	}
	for i := range cpus {
		at := i * nodes / cpus
		m.CPUs = append(m.CPUs, topology.CPU{ID: i, Core: i, Cache: at, Socket: at, Node: at})
	}
	return m
}

// SpreadDevices are healthy devices 0, 1, …, spread over NUMA nodes.
func SpreadDevices(count, nodes int) (out []devices.Device) {
	for i := range count {
		out = append(out, devices.Device{ID: strconv.Itoa(i), Healthy: true, Nodes: []int64{int64(i * nodes / count)}})
	}
	return out
}

// rules are how containers get exclusive CPUs and devices; nil: none does.
func (s *NodeSpec) rules() (*cpus.Rules, error) {
	switch {
	case s.Assign != nil:
		return cpus.New(*s.Assign)
	case len(s.Devices) > 0:
		return cpus.New(cpus.Config{Machine: Topology(1, 1), Topology: kubelet.NoneTopologyManagerPolicy})
	default:
		return nil, nil
	}
}

var defaultAllocatable = v1.ResourceList{
	v1.ResourceCPU: resource.MustParse("32"), v1.ResourceMemory: resource.MustParse("128Gi"),
	v1.ResourcePods: resource.MustParse("110"),
}

// labels are those that the node is registered with.
func (s *NodeSpec) labels() map[string]string {
	l := map[string]string{v1.LabelHostname: s.Name, v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64"}
	maps.Copy(l, s.Labels)
	return l
}

const defaultRestartDelay = 100 * time.Millisecond
