package metrics

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
)

// storage begins an operation, which counts when it has ended.
func (m *Metrics) storage(plugin, operation string) (ended func(error)) {
	begun := time.Now()
	return func(err error) {
		status := "success"
		if err != nil {
			status = "fail-unknown"
		}
		m.storageTimes.WithLabelValues(plugin, operation, status, "false").Observe(time.Since(begun).Seconds())
	}
}

// both calls ended, and then done.
func both(ended, done func(error)) func(error) {
	return func(err error) {
		ended(err)
		done(err)
	}
}

// Mounts is h with its mounts and unmounts of volumes counted.
func (m *Metrics) Mounts(h port.Host) port.Host { return &hostMounts{Host: h, metrics: m} }

// hostMounts counts. All else is the host's.
type hostMounts struct {
	port.Host
	metrics *Metrics
}

// MountVolume implements port.Host.
func (h *hostMounts) MountVolume(ctx context.Context, r port.MountVolume, done func(string, error)) {
	ended := h.metrics.storage(pluginToMount(&r), "volume_mount")
	h.Host.MountVolume(ctx, r, func(path string, err error) {
		ended(err)
		done(path, err)
	})
}

// pluginToMount is a kubelet's name of the plugin that mounts a volume.
func pluginToMount(r *port.MountVolume) string {
	plugin := pluginOf(r.Volume)
	if r.Persistent != nil {
		plugin = pluginOfPersistent(&r.Persistent.Spec.PersistentVolumeSource)
	}
	return cmp.Or(plugin, "UnknownVolumePlugin")
}

// UnmountPod implements port.Host. It is for all volumes of a pod, whatever their plugins.
func (h *hostMounts) UnmountPod(ctx context.Context, uid types.UID, done func(error)) {
	h.Host.UnmountPod(ctx, uid, both(h.metrics.storage("<n/a>", "volume_unmount"), done))
}

// CSIMounts is c with its mounts and unmounts of volumes counted.
func (m *Metrics) CSIMounts(c port.CSI) port.CSI { return &csiMounts{CSI: c, metrics: m} }

// csiMounts counts. All else is that of the drivers.
type csiMounts struct {
	port.CSI
	metrics *Metrics
}

// storage begins an operation with a volume of a driver: as a device, it has another name.
func (c *csiMounts) storage(of port.CSIDriver, block bool, operation, ofDevice string) (ended func(error)) {
	if block {
		operation = ofDevice
	}
	return c.metrics.storage(usage.CSIPlugin(of.Name), operation)
}

// StageVolume implements port.CSI. With a kubelet it is the first part of a mount: what comes after it tells whether
// that works.
func (c *csiMounts) StageVolume(ctx context.Context, of port.CSIDriver, r csi.Stage, done func(error)) {
	ended := c.storage(of, r.Block, "volume_mount", "map_volume")
	c.CSI.StageVolume(ctx, of, r, func(err error) {
		if err != nil {
			ended(err)
		}
		done(err)
	})
}

// PublishVolume implements port.CSI.
func (c *csiMounts) PublishVolume(
	ctx context.Context, of port.CSIDriver, r csi.Publish, walked port.Walked, done func(string, error),
) {
	ended := c.storage(of, r.Block, "volume_mount", "map_volume")
	c.CSI.PublishVolume(ctx, of, r, walked, func(path string, err error) {
		ended(err)
		done(path, err)
	})
}

// UnpublishVolume implements port.CSI.
func (c *csiMounts) UnpublishVolume(ctx context.Context, of port.CSIDriver, r csi.Found, done func(error)) {
	c.CSI.UnpublishVolume(ctx, of, r, both(c.storage(of, r.Block, "volume_unmount", "unmap_volume"), done))
}

// UnstageVolume implements port.CSI.
func (c *csiMounts) UnstageVolume(ctx context.Context, of port.CSIDriver, r csi.Found, done func(error)) {
	c.CSI.UnstageVolume(ctx, of, r, both(c.storage(of, r.Block, "unmount_device", "unmap_device"), done))
}
