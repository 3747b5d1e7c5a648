package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/probe/network"
	"github.com/troupe-dev/troupe/supervisor/host/volume"
)

// optional are the ports that a node can do without, in the order in which they are connected. Each is in a file of its
// own, with all that is of it: whether this node has it, what it is made of, the settings of its actor, what others ask
// it for, and what is closed when the agent ends. Cgroups are made earlier (makeCgroups): what the runtime is told
// of pods names them.
var optional = []func(*nodeDaemon) error{
	(*nodeDaemon).connectDevices, // first: DRA and CSI drivers register with device plugins
	(*nodeDaemon).connectClaims,
	(*nodeDaemon).connectCSI,
	(*nodeDaemon).connectCredentials,
	(*nodeDaemon).connectLogs,
	(*nodeDaemon).connectPressure,
	(*nodeDaemon).connectOOM,
	(*nodeDaemon).connectInhibitor,
	(*nodeDaemon).connectAPI,
}

// connectPorts puts this machine, the runtime and the apiserver behind the ports of the actors.
func (d *nodeDaemon) connectPorts(context.Context) error {
	p, rt := &d.settings.Ports, d.runtime.Runtime
	p.Runtime, p.Host, p.Files, p.Network = d.counters.Starts(rt), d.counters.Mounts(d.host), d.host, network.New()
	if sim, is := rt.(*simcri.Runtime); is {
		p.Network = sim.Network() // the addresses of its pods are nowhere else
	}
	p.PodNetwork, _ = rt.(port.PodNetwork)
	p.Manifests = newManifests(d.settings.Sources, d.Config.Kubelet().StaticPodURLHeader, d.Log)
	p.Checkpoints, p.States = checkpoints.New(filepath.Join(d.rootDir(), checkpointsDir)), d.states
	p.Facts, p.Events = d.machine.facts, d.events
	for _, connect := range optional {
		if err := connect(d); err != nil {
			return err
		}
	}
	p.Events = d.recorder.Events(d.counters.Events(p.Events))
	d.late.to(p.Events)
	var told []port.Event
	if text := d.runtime.resolvConfTrouble(d.Config); text != "" {
		told = append(told, port.Event{Reason: "CheckLimitsForResolvConf", Message: text})
	}
	if d.onRealMachine() {
		told = append(told, d.machine.nodeEvents(swapOn(), volume.KeepsMemory)...)
	}
	for _, e := range told {
		e.Node, e.Warning, e.At = d.name, true, time.Now()
		p.Events.Record(e)
	}
	return nil
}

// rootDir is the root directory of the agent.
func (d *nodeDaemon) rootDir() string { return d.Config.Options().RootDir }
