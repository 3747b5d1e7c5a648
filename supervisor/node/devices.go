package node

import (
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	policy "github.com/troupe-dev/troupe/supervisor/host/kernel/selinux"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
)

// connectDevices puts the device plugins of this machine behind their port. A checkpoint that can't be read keeps no
// pod from running that runs already.
func (d *nodeDaemon) connectDevices() (err error) {
	dir := pluginDir(d.Config.Options(), config.DefaultDevicePlugins, d.Log)
	if d.settings.Devices, err = checkpoints.Devices(dir); err != nil {
		d.Log.Error().Str("directory", dir).Str("error", err.Error()).
			Msg("cannot read the device plugin checkpoint: " +
				"extended resources are not advertised until their device plugins register or the status of the Node is patched")
	}
	if d.onRealMachine() {
		d.labelPlugins(dir)
	}
	d.plugins, d.deviceStates = deviceplugins.New(dir, d.rootDir(), d.Log), checkpoints.NewStates(dir)
	d.settings.Ports.DevicePlugins, d.settings.Ports.DeviceStates = d.plugins, d.deviceStates
	d.settings.DeviceHealth = d.Config.Gates().Enabled("ResourceHealthStatus")
	d.settings.HealthMessages = d.Config.Gates().Enabled("ResourceHealthStatusMessage")
	return nil
}

// pluginDir is the directory of device plugins of an agent with these options: the kubelet's, where plugins look for
// it. An agent beside another one, and one without a real runtime, have their own: each agent removes the sockets that
// it finds there, and forgets the devices of pods that it does not know.
func pluginDir(o config.Options, kubelets string, log zerolog.Logger) string {
	own := filepath.Join(o.RootDir, filepath.Base(kubelets))
	switch {
	case o.DevicePlugins != "":
		return o.DevicePlugins
	case own == kubelets:
		return own
	case o.Runtime == config.RuntimeSim:
		return own
	}
	conn, err := net.DialTimeout("unix", filepath.Join(kubelets, "kubelet.sock"), time.Second)
	if err != nil {
		return kubelets
	}
	conn.Close() //nolint:errcheck // nothing was said
	log.Warn().Str("directory", own).Msg("another agent serves device plugins in " + kubelets +
		": plugins of this one have to register in its own directory; --device-plugins-dir sets another one")
	return own
}

// labelPlugins lets plugins in containers without privileges make their sockets on a host with SELinux.
func (d *nodeDaemon) labelPlugins(devicePlugins string) {
	for _, err := range policy.Machine().LabelPlugins(
		filepath.Join(d.rootDir(), "plugins"), filepath.Join(d.rootDir(), "plugins_registry"), devicePlugins) {
		d.Log.Warn().Str("error", err.Error()).
			Msg("cannot set the SELinux label of a plugin directory: unprivileged plugins may not work")
	}
}

// givenDevices is which devices containers have, as of the state file. A damaged file says so of none.
func (d *nodeDaemon) givenDevices() (*devicestate.State, error) {
	data, err := d.deviceStates.Read(devicestate.Name)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := devicestate.Parse(data)
	if err != nil {
		return devicestate.Unknown(err.Error()), nil
	}
	return s, nil
}

// inventory is what device plugins offer, for those who ask from outside of the actors.
type inventory struct {
	now atomic.Pointer[devices.Inventory]
}

func (i *inventory) set(now devices.Inventory) { i.now.Store(&now) }

func (i *inventory) of() devices.Inventory {
	if now := i.now.Load(); now != nil {
		return *now
	}
	return nil
}
