package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/eventlog"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/iptables"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/csidrivers"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/pressure"
	"github.com/troupe-dev/troupe/supervisor/host/pressure/oomkills"
	"github.com/troupe-dev/troupe/supervisor/host/probe/network"
	"github.com/troupe-dev/troupe/supervisor/host/shutdown/logind"
	"github.com/troupe-dev/troupe/supervisor/host/volume"
	"github.com/troupe-dev/troupe/supervisor/podresources"
	"github.com/troupe-dev/troupe/supervisor/timeline"
)

// listen opens the servers' sockets and ports.
func (l *launch) listen(context.Context) error {
	recorded, err := timeline.New(timeline.Default(l.name))
	if err != nil {
		return err
	}
	d := &nodeDaemon{
		started: time.Now(), log: l.options.Log, name: l.name, counters: l.counters, traces: l.traces, recorder: recorded,
		watchdog: l.watchdog, fatal: make(chan *kernel.CrashReport, 1), contended: l.contended,
	}
	d.live.ask = d.askActors
	l.daemon, l.events = d, eventlog.New(l.options.Log, keptEvents)
	if l.serve, err = d.listen(l.options, l.root.Path(), l.events); err != nil {
		return err
	}
	others, err := d.listenHTTP(serving{
		options: l.options, machine: &l.machine, runtime: l.runtime.Runtime, client: l.client,
		rootDir: l.root.Path(), host: l.host,
	})
	if err != nil {
		return err
	}
	l.serve = append(l.serve, others...)
	monitors, err := d.listenPodResources(podresources.Config{
		Socket: podresources.SocketIn(l.root.Path()), Devices: l.givenDevices, Inventory: l.machine.inventory.of,
		CPUs: l.ownCPUs, Allocatable: l.allocatableCPUs(), Claims: l.preparedClaims,
		Memory: l.ownMemory, AllocatableMemory: l.machine.inMemory.Allocatable(),
		Ended: !l.config.Gates().Enabled("KubeletPodResourcesListUseActivePods"), Asked: l.counters.PodResourcesAsked,
	})
	if err != nil {
		return err
	}
	l.serve = append(l.serve, monitors)
	c := l.config
	rotation, err := d.rotateCertificates(c, l.apiserver, l.client)
	if err != nil {
		return err
	}
	l.serve = append(l.serve, rotation)
	if k := c.Kubelet(); k.KubeletCgroups != "" || k.SystemCgroups != "" {
		l.serve = append(l.serve, l.keepCgroups)
	}
	if l.onRealMachine() && *c.Kubelet().MakeIPTablesUtilChains {
		l.serve = append(l.serve, func(ctx context.Context) error {
			iptables.New(iptables.Config{Log: l.options.Log}).Run(ctx)
			return nil
		})
	}
	return nil
}

// measurePressure connects what measures this machine, and what sees its OOM killer. A simulated runtime says nothing
// of it.
func (l *launch) measurePressure() error {
	if _, is := l.runtime.Runtime.(*simcri.Runtime); is {
		return nil
	}
	c := pressure.Config{
		Meter: resourceuse.New(), Ephemeral: l.host.EphemeralUse, Files: l.host.FilesInMemory, Root: l.root.Path(),
		Logs: l.config.PodLogsDir(),
	}
	if l.machine.own != nil {
		c.Cgroups = l.machine.own.settings
		l.host.UseProcesses(l.machine.own.processes(c.Meter))
	}
	c.Runtime, _ = l.runtime.Runtime.(port.Usage)
	p, err := pressure.New(c)
	if err != nil {
		return err
	}
	l.ports.Pressure = p
	kills, err := oomkills.New(oomkills.Config{Meter: c.Meter, Cgroups: c.Cgroups})
	if err != nil {
		return err
	}
	l.closing(kills.Close)
	l.ports.OOM = kills
	return nil
}

// connectPlugins puts the plugins of this machine behind ports: device plugins and, in a cluster, DRA and CSI drivers.
func (l *launch) connectPlugins() error {
	var found func(port.DRADriver)
	if l.client != nil {
		drivers := dradrivers.New(l.options.Log, l.counters.DriverCalled)
		l.closers = append(l.closers, drivers.Close)
		l.ports.DRADrivers, l.ports.ResourceSlices = drivers, l.client.Slices(l.name)
		found = warnOnce(l.options.Log, l.runtime.version, drivers.Found)
	}
	plugins := deviceplugins.New(l.plugins, l.root.Path(), l.options.Log, found)
	l.ports.DevicePlugins = plugins
	if l.client == nil {
		return nil
	}
	drivers, err := csidrivers.New(csidrivers.Config{
		Root: l.root.Path(), Host: l.host, Log: l.options.Log, Patience: csi.CallDeadline, Called: l.counters.CSICalled,
		Measured: l.counters.VolumeMeasured,
	})
	if err != nil {
		return err
	}
	l.closers = append(l.closers, drivers.Close)
	l.host.UseCSI(drivers)
	plugins.ServeCSI(drivers.Found)
	l.ports.CSI = l.counters.CSIMounts(drivers)
	return nil
}

// connectPorts puts this machine, the runtime and the apiserver behind the ports of the actors.
func (l *launch) connectPorts(context.Context) error {
	rt, log := l.runtime, l.options.Log
	net := port.Network(network.New())
	if sim, is := rt.Runtime.(*simcri.Runtime); is {
		net = sim.Network() // the addresses of its pods are nowhere else
	}
	l.ports = node.Ports{
		Runtime: l.counters.Starts(rt.Runtime), Host: l.counters.Mounts(l.host), Files: l.host, Network: net,
		Events: l.events,
		Manifests: &manifests{
			path: l.static.Path, period: l.static.PathPeriod, url: l.fetcher, noURL: l.noFetcher, log: log,
		},
		Checkpoints: checkpoints.New(filepath.Join(l.root.Path(), checkpointsDir)),
		States:      l.states, DeviceStates: l.deviceStates,
		Facts: l.machine.facts,
	}
	if err := l.connectPlugins(); err != nil {
		return err
	}
	l.connectCredentials()
	if l.machine.own != nil {
		l.ports.Cgroups = l.machine.own.port
	}
	if net, ok := rt.Runtime.(port.PodNetwork); ok {
		l.ports.PodNetwork = net
	}
	if reopener, ok := rt.Runtime.(port.LogReopener); ok {
		l.ports.LogReopener, l.ports.Logs = reopener, l.host
		if dir := l.config.Options().ContainerLogLinks; dir != "" {
			l.ports.LogLinks = podlogs.NewLinks(dir, l.config.PodLogsDir())
		}
	}
	if err := l.measurePressure(); err != nil {
		return err
	}
	if len(l.config.Shutdown()) > 0 {
		locks := logind.New(logind.Config{})
		l.closing(locks.Close)
		l.ports.Inhibitor = locks
	}
	if l.client != nil {
		told, end, err := recorder(l.client, l.name, l.events,
			&lostEvents{log: log, clock: kernel.WallClock{}, count: l.counters.EventDropped})
		if err != nil {
			return err
		}
		l.closers = append(l.closers, end)
		l.ports.API, l.ports.Events, l.ports.Load = l.counters.API(l.client), told, l.client.Load
	}
	l.ports.Events = l.daemon.recorder.Events(l.counters.Events(l.ports.Events))
	l.late.to(l.ports.Events)
	var told []port.Event
	if text := rt.resolvConfTrouble(l.config); text != "" {
		told = append(told, port.Event{Reason: "CheckLimitsForResolvConf", Message: text})
	}
	if l.onRealMachine() {
		told = append(told, l.machine.nodeEvents(swapOn(), volume.KeepsMemory)...)
	}
	for _, e := range told {
		e.Node, e.Warning, e.At = l.name, true, time.Now()
		l.ports.Events.Record(e)
	}
	return nil
}
