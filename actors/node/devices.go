package node

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// unserved are the devices of device plugins if no plugin can ever serve them: a pod that needs one is refused.
func (c *Config) unserved() *devicestate.State {
	if c.Ports.DevicePlugins != nil {
		return nil // assignments decides
	}
	return c.Devices
}

// spawnDevices spawns the actor of device plugins, when those are there that it tells.
func (b *nodeActors) spawnDevices(ctx *kernel.Context[Message], c *Config) {
	if c.Ports.DevicePlugins == nil {
		return
	}
	b.devices = spawn(ctx, c.Around, "devices", devices.New(&devices.Deps{
		Plugins: c.Ports.DevicePlugins, Known: c.Devices.Resources(),
		Tell: func(s devices.Snapshot) {
			b.plugins.Publish(s)
			if c.Observer != nil {
				c.Observer.DevicesChanged(s.Inventory)
			}
		},
		Counts:  c.Observer,
		Backoff: backoff.Policy{Base: time.Second, Max: time.Minute},
	}))
}
