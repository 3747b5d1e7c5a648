package node

import (
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/host/pressure"
)

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
