package node

import (
	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/csidrivers"
)

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
