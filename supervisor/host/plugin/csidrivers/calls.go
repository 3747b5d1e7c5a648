package csidrivers

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/internal/csicode"
)

// Capabilities of drivers.
const (
	expands     = csi.NodeServiceCapability_RPC_EXPAND_VOLUME
	stages      = csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	setsGroup   = csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP
	manyWriters = csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
)

// capability is how a volume is used.
func (n *node) capability(
	block bool, fsType string, options []string, access v1.PersistentVolumeAccessMode, group *int64,
) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: n.mode(access)}}
	if block {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c
	}
	m := &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: options}
	if group != nil && n.can(setsGroup) {
		m.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	c.AccessType = &csi.VolumeCapability_Mount{Mount: m}
	return c
}

// mode is the access mode of CSI. Drivers that do not know SINGLE_NODE_MULTI_WRITER take SINGLE_NODE_WRITER for both of
// the two that it was split into.
func (n *node) mode(m v1.PersistentVolumeAccessMode) csi.VolumeCapability_AccessMode_Mode {
	switch m {
	case v1.ReadWriteOnce:
		if n.can(manyWriters) {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case v1.ReadWriteOncePod:
		if n.can(manyWriters) {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case v1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case v1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	default:
		return csi.VolumeCapability_AccessMode_UNKNOWN
	}
}

// StageVolume implements port.CSI.
func (d *Drivers) StageVolume(ctx context.Context, of port.CSIDriver, r decide.Stage, done func(error)) {
	hostcall.Do(ctx, "NodeStageVolume", r.String(), func(ctx context.Context) error {
		n, err := d.reach(ctx, of.Name)
		if err != nil {
			return err
		}
		if r.Block {
			return d.stageBlock(ctx, n, &r)
		}
		if !n.can(stages) {
			return nil
		}
		if r.NoSecret != "" {
			return hostcall.Failf(port.NotCalled, "%s", r.NoSecret)
		}
		dir, err := stageDir(r.Key)
		if err != nil {
			return err
		}
		clean := func() error { return d.removeMount(d.staged, dir, globalMount) }
		err = d.makeMount(d.staged, dir, globalMount)
		if err == nil {
			notes := map[string]string{noteHandle: r.Handle, noteDriver: r.Driver}
			err = writeNotes(d.staged, dir, labeled(r.Label, notes))
		}
		if err != nil {
			return n.refused("NodeStageVolume", err, r.Fresh, clean)
		}
		_, err = n.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
			VolumeId: r.Handle, PublishContext: r.Context, StagingTargetPath: filepath.Join(d.staged.Path, dir, globalMount),
			VolumeCapability: n.capability(
				r.Block, r.FSType, isolation.SELinuxOptions(r.MountOptions, r.Label), r.Access, r.Group),
			Secrets: r.Secrets, VolumeContext: r.Attributes,
		})
		if err == nil {
			return nil
		}
		return n.refused("NodeStageVolume", n.failure(ctx, "NodeStageVolume", err), r.Fresh, clean)
	}, done)
}

// UnstageVolume implements port.CSI.
func (d *Drivers) UnstageVolume(ctx context.Context, of port.CSIDriver, r decide.Found, done func(error)) {
	hostcall.Do(ctx, "NodeUnstageVolume", r.String(), func(ctx context.Context) error {
		n, err := d.reach(ctx, of.Name)
		if err != nil {
			return err
		}
		if r.Block {
			return d.unstageBlock(ctx, n, &r)
		}
		dir, err := stageDir(r.Key)
		if err != nil {
			return err
		}
		if n.can(stages) {
			if err := d.elsewhere(filepath.Join(dir, globalMount)); err != nil {
				return err
			}
			_, err = n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{
				VolumeId: r.Handle, StagingTargetPath: filepath.Join(d.staged.Path, dir, globalMount),
			})
			if err != nil {
				return n.failure(ctx, "NodeUnstageVolume", err)
			}
		}
		return d.removeMount(d.staged, dir, globalMount)
	}, done)
}

// PublishVolume implements port.CSI.
func (d *Drivers) PublishVolume(
	ctx context.Context, of port.CSIDriver, r decide.Publish, walked port.Walked, done func(string, error),
) {
	hostcall.Get(ctx, "NodePublishVolume", r.String(), func(ctx context.Context) (string, error) {
		n, err := d.reach(ctx, of.Name)
		if err != nil {
			return "", err
		}
		if r.Block {
			return d.publishBlock(ctx, n, &r)
		}
		dir, err := podDir(r.Target)
		if err != nil {
			return "", err
		}
		path := filepath.Join(d.pods.Path, dir, podMount)
		request := &csi.NodePublishVolumeRequest{
			VolumeId: r.Handle, PublishContext: r.Context, TargetPath: path, Readonly: r.ReadOnly,
			VolumeCapability: n.capability(
				r.Block, r.FSType, isolation.SELinuxOptions(r.MountOptions, r.Label), r.Access, r.Group),
			Secrets: r.Secrets, VolumeContext: r.Attributes,
		}
		if !r.Inline && n.can(stages) {
			staged, err := stageDir(r.Key)
			if err != nil {
				return "", err
			}
			request.StagingTargetPath = filepath.Join(d.staged.Path, staged, globalMount)
		}
		clean := func() error { return d.removeMount(d.pods, dir, podMount) }
		err = d.pods.Root.MkdirAll(dir, dirMode)
		if err == nil {
			err = writeNotes(d.pods, dir, notesOf(&r))
		}
		if err != nil {
			return "", n.refused("NodePublishVolume", err, r.Fresh, clean)
		}
		if _, err := n.NodePublishVolume(ctx, request); err != nil {
			return "", n.refused("NodePublishVolume", n.failure(ctx, "NodePublishVolume", err), r.Fresh, clean)
		}
		if r.OwnGroup && !n.can(setsGroup) {
			at := filepath.Join(d.pods.Real, dir, podMount)
			if err := d.Host.GiveToGroup(ctx, at, *r.Group, r.OnMismatch, walked); err != nil {
				// It is published, so this must not count as if it were not.
				return "", &port.Error{Kind: port.Unavailable, Verb: "NodePublishVolume", Object: r.String(),
					Detail: "it is published, but its files can't be given to the group of the pod: " + err.Error()}
			}
		}
		d.published(r.Driver, r.Target)
		return path, nil
	}, done)
}

// UnpublishVolume implements port.CSI.
func (d *Drivers) UnpublishVolume(ctx context.Context, of port.CSIDriver, r decide.Found, done func(error)) {
	hostcall.Do(ctx, "NodeUnpublishVolume", r.String(), func(ctx context.Context) error {
		n, err := d.reach(ctx, of.Name)
		if err != nil {
			return err
		}
		d.unpublishing(r.Target)
		if r.Block {
			return d.unpublishBlock(ctx, n, &r)
		}
		dir, err := podDir(r.Target)
		if err != nil {
			return err
		}
		if err := d.Host.UnmountSubPaths(ctx, string(r.Target.Pod)); err != nil {
			return err
		}
		_, err = n.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{
			VolumeId: r.Handle, TargetPath: filepath.Join(d.pods.Path, dir, podMount),
		})
		if err != nil {
			return n.failure(ctx, "NodeUnpublishVolume", err)
		}
		return d.removeMount(d.pods, dir, podMount)
	}, done)
}

// ExpandVolume implements port.CSI.
func (d *Drivers) ExpandVolume(ctx context.Context, of port.CSIDriver, r decide.Expand, done func(error)) {
	hostcall.Do(ctx, "NodeExpandVolume", r.String(), func(ctx context.Context) error {
		n, err := d.reach(ctx, of.Name)
		if err != nil {
			return err
		}
		if !n.can(expands) {
			return hostcall.Failf(port.Unsupported, "CSI driver %s does not expand volumes on nodes", of.Name)
		}
		staged, published, err := d.paths(&r)
		if err != nil {
			return err
		}
		request := &csi.NodeExpandVolumeRequest{
			VolumeId: r.Handle, VolumePath: published, CapacityRange: &csi.CapacityRange{RequiredBytes: r.Size},
			VolumeCapability: n.capability(r.Block, r.FSType, r.MountOptions, r.Access, nil), Secrets: r.Secrets,
		}
		if n.can(stages) {
			request.StagingTargetPath = staged
		}
		_, err = n.NodeExpandVolume(ctx, request)
		if err == nil {
			return nil
		}
		failed := n.failure(ctx, "NodeExpandVolume", err)
		if s, is := status.FromError(err); is && ctx.Err() == nil {
			failed.Kind = csicode.Expansion(s.Code())
		}
		return failed
	}, done)
}

// paths are where a volume is staged, and published for a pod.
func (d *Drivers) paths(r *decide.Expand) (staged, published string, err error) {
	t := decide.Target{Pod: r.Pod, Name: r.Name}
	if r.Block {
		b, err := d.block(t)
		return b.stagingPath, b.publishPath, err
	}
	dir, err := stageDir(r.Key)
	if err != nil {
		return "", "", err
	}
	of, err := podDir(t)
	return filepath.Join(d.staged.Path, dir, globalMount), filepath.Join(d.pods.Path, of, podMount), err
}
