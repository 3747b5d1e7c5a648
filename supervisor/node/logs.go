package node

import (
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
)

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
