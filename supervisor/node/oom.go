package node

import (
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/supervisor/host/pressure/oomkills"
)

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
