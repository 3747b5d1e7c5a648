package csidriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/tests/check"
)

// NodeGetCapabilities is a node call.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	types := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS, csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_VOLUME_CONDITION, csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if !d.config.NoStage {
		types = append(types, csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	}
	if d.config.MountGroup {
		types = append(types, csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP)
	}
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range types {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// NodeGetInfo is a node call.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	out := &csi.NodeGetInfoResponse{NodeId: d.config.Node, MaxVolumesPerNode: d.config.MaxVolumes}
	if all := d.topologies(); all != nil {
		out.AccessibleTopology = all[0]
	}
	return out, nil
}

// how says how a volume is staged, to compare two calls.
func how(c *csi.VolumeCapability) string {
	if c.GetBlock() != nil {
		return "device"
	}
	m := c.GetMount()
	return strings.TrimSpace(strings.Join(append([]string{m.GetFsType(), m.GetVolumeMountGroup()}, m.GetMountFlags()...), " "))
}

// NodeStageVolume is a node call.
func (d *Driver) NodeStageVolume(
	_ context.Context, r *csi.NodeStageVolumeRequest,
) (_ *csi.NodeStageVolumeResponse, err error) {
	defer check.Return(&err)
	path, c := r.GetStagingTargetPath(), r.GetVolumeCapability()
	if path == "" || c == nil || r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no volume, no staging path or no capability")
	}
	v := check.Must(d.volume(r.GetVolumeId()))
	check.OK(d.attached(v, r.GetPublishContext()))
	if was, is := v.Staged[path]; is && was != how(c) {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s is staged as %q, not %q", v.ID, was, how(c))
	}
	for other := range v.Staged {
		if other != path {
			return nil, wrong("volume %s is staged at %s already", v.ID, other)
		}
	}
	check.OK(d.stage(v, path, c))
	return &csi.NodeStageVolumeResponse{}, d.withVolume(v.ID, func(v *Volume) error {
		set(&v.Staged, path, how(c))
		return nil
	})
}

// attached is an error if a volume is not attached to this node, or the call does not know.
func (d *Driver) attached(v Volume, context map[string]string) error {
	if d.config.NoAttach {
		return nil
	}
	if _, is := v.Attached[d.config.Node]; !is {
		return wrong("volume %s is not attached to %s", v.ID, d.config.Node)
	}
	if !maps.Equal(context, attachment(v.ID, d.config.Node)) {
		return wrong("the publish context of volume %s is %v", v.ID, context)
	}
	return nil
}

// stage mounts a volume at a path. A device is only made; it is published itself.
func (d *Driver) stage(v Volume, path string, c *csi.VolumeCapability) (err error) {
	defer check.Return(&err)
	m := c.GetMount()
	if !v.Image {
		if c.GetBlock() != nil {
			return status.Error(codes.InvalidArgument, "a directory is no device")
		}
		check.OK(bind(d.volumeData(v.ID), path, false))
		return giveTo(path, m.GetVolumeMountGroup())
	}
	device, err := attachLoop(d.volumeData(v.ID))
	if err != nil || c.GetBlock() != nil {
		return err
	}
	kind := m.GetFsType()
	if kind == "" {
		kind = "ext4"
	}
	check.OK(mountDevice(device, path, kind, m.GetMountFlags()))
	return giveTo(path, m.GetVolumeMountGroup())
}

// giveTo lets a group have what is in a volume.
func giveTo(path, group string) error {
	if group == "" {
		return nil
	}
	gid, err := strconv.Atoi(group)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "the group is no number: %s", group)
	}
	return errors.Join(os.Chown(path, -1, gid), os.Chmod(path, 0o2770))
}

// NodeUnstageVolume is a node call.
func (d *Driver) NodeUnstageVolume(
	_ context.Context, r *csi.NodeUnstageVolumeRequest,
) (_ *csi.NodeUnstageVolumeResponse, err error) {
	defer check.Return(&err)
	path := r.GetStagingTargetPath()
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no staging path")
	}
	v, err := d.volume(r.GetVolumeId())
	if status.Code(err) == codes.NotFound {
		return &csi.NodeUnstageVolumeResponse{}, unmount(path)
	}
	if err != nil {
		return nil, err
	}
	if len(v.Published) > 0 {
		return nil, wrong("volume %s is unstaged, and published at %v", v.ID, v.Published)
	}
	if v.Image {
		// A container that starts has a copy of the mount for a moment: then unmounting writes nothing.
		check.OK(flush(path))
	}
	check.OK(unmount(path))
	if v.Image {
		check.OK(detachLoop(d.volumeData(v.ID)))
	}
	return &csi.NodeUnstageVolumeResponse{}, d.withVolume(v.ID, func(v *Volume) error {
		delete(v.Staged, path)
		return nil
	})
}

// NodePublishVolume is a node call.
func (d *Driver) NodePublishVolume(
	_ context.Context, r *csi.NodePublishVolumeRequest,
) (_ *csi.NodePublishVolumeResponse, err error) {
	defer check.Return(&err)
	path, c := r.GetTargetPath(), r.GetVolumeCapability()
	if path == "" || c == nil || r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no volume, no target path or no capability")
	}
	if r.GetVolumeContext()["csi.storage.k8s.io/ephemeral"] == "true" {
		check.OK(d.makeEphemeral(r.GetVolumeId()))
	}
	v := check.Must(d.volume(r.GetVolumeId()))
	from := check.Must(d.staged(v, r))
	as := "rw"
	if r.GetReadonly() {
		as = "ro"
	}
	if was, is := v.Published[path]; is && was != as {
		return nil, status.Errorf(codes.AlreadyExists, "volume %s is published %s at %s", v.ID, was, path)
	}
	alone := c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	for other := range v.Published {
		if alone && other != path {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is published at %s, and for one only", v.ID, other)
		}
	}
	check.OK(publish(from, path, r))
	return &csi.NodePublishVolumeResponse{}, d.withVolume(v.ID, func(v *Volume) error {
		set(&v.Published, path, as)
		return nil
	})
}

// makeEphemeral makes a volume that is there only for a pod.
func (d *Driver) makeEphemeral(id string) error {
	return d.store.change(func(k *known) error {
		if k.Volumes[id] != nil {
			return nil
		}
		k.Volumes[id] = &Volume{ID: id, Name: id, Ephemeral: true, Size: defaultSize}
		return d.fill(k.Volumes[id], "")
	})
}

// staged is what is to be published.
func (d *Driver) staged(v Volume, r *csi.NodePublishVolumeRequest) (string, error) {
	block := r.GetVolumeCapability().GetBlock() != nil
	switch {
	case v.Ephemeral:
		return d.volumeData(v.ID), nil
	case d.config.NoStage:
		if v.Image || block {
			return "", status.Error(codes.InvalidArgument, "a driver that does not stage has only directories")
		}
		return d.volumeData(v.ID), d.attached(v, r.GetPublishContext())
	}
	if was, is := v.Staged[r.GetStagingTargetPath()]; !is || was != how(r.GetVolumeCapability()) {
		return "", wrong("volume %s is published from %s as %q, and staged at %v", v.ID, r.GetStagingTargetPath(), how(r.GetVolumeCapability()), v.Staged)
	}
	if block {
		device, err := loopOf(d.volumeData(v.ID))
		if err == nil && device == "" {
			err = wrong("volume %s is published, and its device is gone: stage it", v.ID)
		}
		return device, err
	}
	if is, err := mounted(r.GetStagingTargetPath()); err != nil || !is {
		return "", errors.Join(err, wrong("volume %s is published, and is not mounted at %s: stage it", v.ID, r.GetStagingTargetPath()))
	}
	return r.GetStagingTargetPath(), nil
}

// publish shows at a path, which it makes, what is at another.
func publish(from, path string, r *csi.NodePublishVolumeRequest) error {
	var err error
	if r.GetVolumeCapability().GetBlock() != nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE, 0o600); err == nil {
			err = f.Close()
		}
	} else {
		err = os.Mkdir(path, 0o750)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return bind(from, path, r.GetReadonly())
}

// NodeUnpublishVolume is a node call.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	path := r.GetTargetPath()
	if path == "" || r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no volume or no target path")
	}
	if err := unmount(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, d.store.change(func(k *known) error {
		v := k.Volumes[r.GetVolumeId()]
		if v == nil {
			return nil
		}
		delete(v.Published, path)
		if v.Ephemeral && len(v.Published) == 0 {
			delete(k.Volumes, v.ID)
			return os.RemoveAll(d.volumeData(v.ID))
		}
		return nil
	})
}

// NodeGetVolumeStats is a node call.
func (d *Driver) NodeGetVolumeStats(
	_ context.Context, r *csi.NodeGetVolumeStatsRequest,
) (_ *csi.NodeGetVolumeStatsResponse, err error) {
	defer check.Return(&err)
	path := r.GetVolumePath()
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no path")
	}
	v := check.Must(d.volume(r.GetVolumeId()))
	if is, err := mounted(path); err != nil || !is {
		return nil, errors.Join(err, status.Errorf(codes.NotFound, "volume %s is not at %s", v.ID, path))
	}
	out := &csi.NodeGetVolumeStatsResponse{VolumeCondition: condition(&v)}
	info := check.Must(os.Stat(path))
	if !info.IsDir() {
		out.Usage = []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: v.Size}}
		return out, nil
	}
	var fs unix.Statfs_t
	check.OK(unix.Statfs(path, &fs))
	block := fs.Bsize
	out.Usage = []*csi.VolumeUsage{
		{
			Unit: csi.VolumeUsage_BYTES, Total: int64(fs.Blocks) * block, Available: int64(fs.Bavail) * block,
			Used: int64(fs.Blocks-fs.Bfree) * block,
		},
		{Unit: csi.VolumeUsage_INODES, Total: int64(fs.Files), Available: int64(fs.Ffree), Used: int64(fs.Files - fs.Ffree)},
	}
	return out, nil
}

// NodeExpandVolume is a node call.
func (d *Driver) NodeExpandVolume(
	ctx context.Context, r *csi.NodeExpandVolumeRequest,
) (_ *csi.NodeExpandVolumeResponse, err error) {
	defer check.Return(&err)
	path := r.GetVolumePath()
	if path == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no path")
	}
	v := check.Must(d.volume(r.GetVolumeId()))
	if is, err := mounted(path); (err != nil || !is) && r.GetVolumeCapability().GetBlock() == nil {
		return nil, errors.Join(err, status.Errorf(codes.NotFound, "volume %s is not at %s", v.ID, path))
	}
	if info := check.Must(os.Stat(path)); info.IsDir() && r.GetVolumeCapability().GetBlock() != nil {
		return nil, status.Errorf(codes.InvalidArgument, "volume %s is a device, and %s is a directory", v.ID, path)
	}
	if d.config.NodeExpands {
		v = check.Must(d.enlarge(v.ID, r.GetCapacityRange()))
	}
	if v.Image {
		check.OK(growLoop(d.volumeData(v.ID)))
		midway(ctx)
		info, err := os.Stat(path)
		if err == nil && info.IsDir() && r.GetVolumeCapability().GetBlock() == nil {
			var device string
			if device, err = loopOf(d.volumeData(v.ID)); err == nil {
				err = growFileSystem(device, path)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("grow volume %s: %w", v.ID, err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: v.Size}, nil
}
