package csidrivers

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
)

// Capabilities of drivers that say how their volumes are.
const (
	givesStats     = csi.NodeServiceCapability_RPC_GET_VOLUME_STATS
	givesCondition = csi.NodeServiceCapability_RPC_VOLUME_CONDITION
)

// place is a publication, from the answer of NodePublishVolume until NodeUnpublishVolume is called.
type place struct {
	driver string
	// volumes are its names in the pod, once its driver was asked for figures. said: there are some.
	volumes  []string
	said     bool
	disk     usage.Disk
	abnormal *bool
}

// published notes that there is a publication, whose figures can be asked for.
func (d *Drivers) published(driver string, t decide.Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.places[t] == nil {
		d.places[t] = &place{driver: driver}
	}
}

// unpublishing forgets its figures, and where the pod's volumes are: one that is measured can't be unmounted.
func (d *Drivers) unpublishing(t decide.Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.places, t)
	d.Host.ForgetClaims(string(t.Pod))
}

// Use is the use of a volume of a pod as its driver said last; false: it has said nothing. Plugin is known once it
// has answered.
func (d *Drivers) Use(uid, volume string) (v usage.Volume, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, p := range d.places { // order-free: at most one has the volume
		if string(t.Pod) != uid {
			continue
		}
		if slices.Contains(p.volumes, volume) {
			return usage.Volume{
				Name: volume, Plugin: usage.CSIPlugin(p.driver), Disk: p.disk, Abnormal: p.abnormal,
			}, p.said
		}
	}
	return v, false
}

// VolumeStats implements port.CSI.
func (d *Drivers) VolumeStats(
	ctx context.Context, of port.CSIDriver, r decide.Measure, done func(decide.Usage, error),
) {
	hostcall.Get(ctx, "NodeGetVolumeStats", r.String(), func(ctx context.Context) (decide.Usage, error) {
		began := time.Now()
		d.mu.Lock()
		at := d.places[r.Target]
		d.mu.Unlock()
		path, real, err := d.measuredAt(&r)
		if err != nil {
			return decide.Usage{}, err
		}
		u, err := d.stats(ctx, of, &r, path)
		d.mu.Lock()
		defer d.mu.Unlock()
		if at == nil || d.places[r.Target] != at {
			return u, err // it is not published any more
		}
		*at = place{driver: at.driver, volumes: r.Volumes}
		switch {
		case err == nil:
			at.said, at.disk = true, u.Disk(began)
			if u.Health != nil {
				at.abnormal = &u.Health.Abnormal
			}
			d.Measured(of.Name, time.Since(began))
		case hostcall.KindOf(err) == port.Unsupported && !r.Block && !r.Inline:
			for _, name := range r.Volumes {
				d.Host.NoteClaim(string(r.Pod), name, real)
			}
		}
		return u, err
	}, done)
}

// measuredAt is the path of a publication as its driver knows it, and without symbolic links.
func (d *Drivers) measuredAt(r *decide.Measure) (path, real string, err error) {
	if r.Block {
		b, err := d.block(r.Target)
		return b.publishPath, b.publishPath, err
	}
	dir, err := podDir(r.Target)
	return filepath.Join(d.pods.Path, dir, podMount), filepath.Join(d.pods.Real, dir, podMount), err
}

// stats makes the call. What a driver says is taken as it is: decide.Usage.Disk sees what can't be true.
func (d *Drivers) stats(
	ctx context.Context, of port.CSIDriver, r *decide.Measure, path string,
) (u decide.Usage, err error) {
	n, err := d.reach(ctx, of.Name)
	if err != nil {
		return u, err
	}
	if !n.can(givesStats) {
		return u, hostcall.Failf(port.Unsupported, "CSI driver %s does not say how full its volumes are", of.Name)
	}
	got, err := n.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: r.Handle, VolumePath: path})
	if err != nil {
		return u, n.failure(ctx, "NodeGetVolumeStats", err)
	}
	if r.Health && n.can(givesCondition) {
		c := got.GetVolumeCondition()
		u.Health = &decide.Health{Abnormal: c.GetAbnormal(), Message: registry.Bounded(c.GetMessage())}
	}
	if len(got.GetUsage()) == 0 && u.Health == nil {
		return u, hostcall.Failf(port.Other, "CSI driver %s has answered NodeGetVolumeStats without a usage", of.Name)
	}
	for _, one := range got.GetUsage() {
		amount := decide.Amount{Total: one.GetTotal(), Available: one.GetAvailable(), Used: one.GetUsed()}
		switch one.GetUnit() {
		case csi.VolumeUsage_BYTES:
			u.Bytes = amount
		case csi.VolumeUsage_INODES:
			u.Inodes = amount
		default: // a unit that this version does not know
		}
	}
	return u, nil
}
