package csidrivers

import (
	"path/filepath"

	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// releaseDevice takes away what a kubelet made of a device of a pod: a loop device on volumeDevices/<pv>/dev/<uid>, and
// the mount of the device at that file. The published device is the same.
func (d *Drivers) releaseDevice(b block, uid string) error {
	all, err := d.Host.Mounts()
	if err != nil {
		return err
	}
	return blockmap.Clear(all, filepath.Join(d.staged.Real, b.dev, uid), filepath.Join(d.staged.Real, b.publish, uid))
}
