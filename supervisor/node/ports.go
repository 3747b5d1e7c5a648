package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/disk/pullrecords"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/credentialplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/csidrivers"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/pressure"
	"github.com/troupe-dev/troupe/supervisor/host/pressure/oomkills"
	"github.com/troupe-dev/troupe/supervisor/host/probe/network"
	"github.com/troupe-dev/troupe/supervisor/host/shutdown/logind"
	"github.com/troupe-dev/troupe/supervisor/host/volume/tmpfs"
)

// optional are the ports that a node can do without, in the order in which they are connected. Each function has all
// that is of a port: whether this node has it, what it is made of, the settings of its actor, what others ask it for,
// and what is closed when the agent ends. It is below, or in a file of its own if there is more than that. Cgroups are
// made earlier (makeCgroups): what the runtime is told of pods names them.
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
		told = append(told, d.machine.nodeEvents(swapOn(), tmpfs.KeepsMemory)...)
	}
	for _, e := range told {
		e.Node, e.Warning, e.At = d.name, true, time.Now()
		p.Events.Record(e)
	}
	return nil
}

// rootDir is the root directory of the agent.
func (d *nodeDaemon) rootDir() string { return d.Config.Options().RootDir }

// connectCSI puts the CSI drivers of this machine behind their port, on a node with an apiserver.
func (d *nodeDaemon) connectCSI() error {
	if d.client == nil {
		return nil
	}
	drivers, err := csidrivers.New(csidrivers.Config{
		Root: d.rootDir(), Host: d.host, Log: d.Log, Patience: csi.CallDeadline, Called: d.counters.CSICalled,
		Measured: d.counters.VolumeMeasured,
	})
	if err != nil {
		return err
	}
	d.closers = append(d.closers, drivers.Close)
	d.host.UseCSI(drivers)
	d.plugins.ServeCSI(drivers.Found)
	d.settings.Ports.CSI = d.counters.CSIMounts(drivers)
	return nil
}

// connectCredentials puts behind ports what images are pulled with on this machine, and the records of that.
func (d *nodeDaemon) connectCredentials() error {
	providers, hash := d.Config.CredentialProviders()
	if hash != "" {
		d.counters.ProvidersConfigured(hash)
	}
	plugins := credentialplugins.New(credentialplugins.Config{
		Dir: d.Config.Options().CredentialProviderBinDir, Root: d.rootDir(), Log: d.Log, Ran: d.counters.CredentialPluginRan,
	})
	d.closers = append(d.closers, plugins.Close)
	d.settings.Providers = providers
	d.settings.Ports.CredentialPlugins, d.settings.Ports.PullRecords = plugins, pullrecords.New(d.rootDir())
	return nil
}

// connectLogs puts the logs of containers behind their ports, if the runtime writes logs.
func (d *nodeDaemon) connectLogs() error {
	reopener, ok := d.runtime.Runtime.(port.LogReopener)
	if !ok {
		return nil
	}
	d.settings.Ports.LogReopener, d.settings.Ports.Logs = reopener, d.host
	if dir := d.Config.Options().ContainerLogLinks; dir != "" {
		d.settings.Ports.LogLinks = podlogs.NewLinks(dir, d.Config.PodLogsDir())
	}
	return nil
}

// connectPressure puts what measures this machine behind its port. A simulated runtime says nothing of it.
func (d *nodeDaemon) connectPressure() (err error) {
	if !d.onRealMachine() {
		return nil
	}
	c := pressure.Config{
		Meter: resourceuse.New(), Ephemeral: d.host.EphemeralUse, Files: d.host.FilesInMemory, Root: d.rootDir(),
		Logs: d.Config.PodLogsDir(), Cgroups: d.own.config(),
	}
	if d.own != nil {
		d.host.UseProcesses(d.own.processes(c.Meter))
	}
	c.Runtime, _ = d.runtime.Runtime.(port.Usage)
	p, err := pressure.New(c)
	if err != nil {
		return err
	}
	d.settings.Ports.Pressure = p
	return nil
}

// connectOOM puts what sees the OOM killer of this machine behind its port. It kills nothing of a simulated runtime.
func (d *nodeDaemon) connectOOM() error {
	if !d.onRealMachine() {
		return nil
	}
	kills, err := oomkills.New(oomkills.Config{Meter: resourceuse.New(), Cgroups: d.own.config()})
	if err != nil {
		return err
	}
	d.closing(kills.Close)
	d.settings.Ports.OOM = kills
	return nil
}

// connectInhibitor puts what delays the shutdown of this machine behind its port, if pods are to end before.
func (d *nodeDaemon) connectInhibitor() error {
	if len(d.settings.Shutdown) == 0 {
		return nil
	}
	locks := logind.New(logind.Config{})
	d.closing(locks.Close)
	d.settings.Ports.Inhibitor = locks
	return nil
}
