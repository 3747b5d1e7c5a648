package csidriver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/troupe-dev/troupe/tests/check"
)

// defaultSize of volumes for which nobody says one.
const defaultSize = 16 << 20

// imageParameter, if "true" among the parameters of a StorageClass, has volumes be image files, which are as large as they
// should be and not larger. Those for devices always are.
const imageParameter = "image"

// ControllerGetCapabilities is a controller call.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_VOLUME, csi.ControllerServiceCapability_RPC_VOLUME_CONDITION,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if !d.config.NodeExpands {
		types = append(types, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	}
	if !d.config.NoAttach {
		types = append(types, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csi.ControllerServiceCapability_RPC_PUBLISH_READONLY, csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES)
	}
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range types {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return out, nil
}

// id is the same for the same name, so that a second try finds what the first one has begun.
func id(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:20] }

// data is where a volume's or a snapshot's bytes are.
func (d *Driver) volumeData(id string) string   { return filepath.Join(d.config.Dir, "volumes", id) }
func (d *Driver) snapshotData(id string) string { return filepath.Join(d.config.Dir, "snapshots", id) }

// withVolume has f change a volume that is there.
func (d *Driver) withVolume(id string, f func(*Volume) error) error {
	if id == "" {
		return status.Error(codes.InvalidArgument, "the call has no volume ID")
	}
	return d.store.change(func(k *known) error {
		v := k.Volumes[id]
		if v == nil {
			return status.Errorf(codes.NotFound, "no volume %s", id)
		}
		return f(v)
	})
}

// volume is what is known of one that is there.
func (d *Driver) volume(id string) (out Volume, err error) {
	err = d.withVolume(id, func(v *Volume) error {
		out = *v
		return nil
	})
	return out, err
}

// CreateVolume is a controller call.
func (d *Driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (_ *csi.CreateVolumeResponse, err error) {
	defer check.Return(&err)
	if r.GetName() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the call has no name or no capabilities")
	}
	defer d.alone("name " + r.GetName())()
	v := &Volume{
		ID: id(r.GetName()), Name: r.GetName(), Image: r.GetParameters()[imageParameter] == "true",
		Size: max(r.GetCapacityRange().GetRequiredBytes(), min(defaultSize, uint63(r.GetCapacityRange().GetLimitBytes()))),
	}
	for _, c := range r.GetVolumeCapabilities() {
		v.Image = v.Image || c.GetBlock() != nil
	}
	if why := refused(v, r.GetVolumeCapabilities()); why != "" {
		return nil, status.Error(codes.InvalidArgument, why)
	}
	if !d.here(r.GetAccessibilityRequirements()) {
		return nil, status.Errorf(codes.ResourceExhausted, "this driver has volumes only in %v", d.config.Segments)
	}
	k := check.Must(d.store.read())
	from := check.Must(d.source(k, v, r.GetVolumeContentSource()))
	if was := k.Volumes[v.ID]; was != nil {
		limit := r.GetCapacityRange().GetLimitBytes()
		if was.Size < v.Size || limit > 0 && was.Size > limit || was.From != v.From || was.Image != v.Image {
			return nil, status.Errorf(codes.AlreadyExists, "%s is there, and is another volume", r.GetName())
		}
		return d.created(was, r), nil
	}
	if left := d.left(k); v.Size > left {
		return nil, status.Errorf(codes.OutOfRange, "%d bytes are left", left)
	}
	check.OK(d.fill(v, from))
	check.OK(d.store.change(func(k *known) error { k.Volumes[v.ID] = v; return nil }))
	return d.created(v, r), nil
}

// uint63 is a limit, or the largest number if there is none.
func uint63(limit int64) int64 {
	if limit == 0 {
		return 1<<63 - 1
	}
	return limit
}

func (d *Driver) created(v *Volume, r *csi.CreateVolumeRequest) *csi.CreateVolumeResponse {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: v.ID, CapacityBytes: v.Size, ContentSource: r.GetVolumeContentSource(), AccessibleTopology: d.topologies(),
		VolumeContext: map[string]string{"name": v.Name},
	}}
}

// refused says why a volume can't be used so.
func refused(v *Volume, all []*csi.VolumeCapability) string {
	for _, c := range all {
		switch kind := c.GetMount().GetFsType(); {
		case c.GetBlock() == nil && c.GetMount() == nil || c.GetAccessMode() == nil:
			return "a capability has no access type or no mode"
		case c.GetBlock() != nil && !v.Image:
			return "a directory is no device"
		case kind != "" && kind != "ext4" && kind != "xfs":
			return "no such file system: " + kind
		case v.Image && several(c):
			return "a file system on one device can't be mounted on several nodes"
		}
	}
	return ""
}

// several: more than one node may have the volume.
func several(c *csi.VolumeCapability) bool {
	return slices.Contains([]csi.VolumeCapability_AccessMode_Mode{
		csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
	}, c.GetAccessMode().GetMode())
}

func (d *Driver) topologies() []*csi.Topology {
	if len(d.config.Segments) == 0 {
		return nil
	}
	return []*csi.Topology{{Segments: d.config.Segments}}
}

// here says whether a requirement allows where this driver is.
func (d *Driver) here(r *csi.TopologyRequirement) bool {
	return len(r.GetRequisite()) == 0 || slices.ContainsFunc(r.GetRequisite(), func(t *csi.Topology) bool {
		return maps.Equal(t.GetSegments(), d.config.Segments)
	})
}

// source finds what a volume shall be made of, and has the volume be of that kind.
func (d *Driver) source(k known, v *Volume, s *csi.VolumeContentSource) (data string, err error) {
	var size int64
	switch {
	case s.GetSnapshot() != nil:
		v.From = s.GetSnapshot().GetSnapshotId()
		from := k.Snapshots[v.From]
		if from == nil {
			return "", status.Errorf(codes.NotFound, "no snapshot %s", v.From)
		}
		data, size, v.Image = d.snapshotData(from.ID), from.Size, from.Image
	case s.GetVolume() != nil:
		v.From = s.GetVolume().GetVolumeId()
		from := k.Volumes[v.From]
		if from == nil {
			return "", status.Errorf(codes.NotFound, "no volume %s", v.From)
		}
		data, size, v.Image = d.volumeData(from.ID), from.Size, from.Image
	}
	if size > v.Size {
		return "", status.Errorf(codes.OutOfRange, "%s has %d bytes", v.From, size)
	}
	return data, nil
}

// fill makes a volume's bytes, of nothing or of others.
func (d *Driver) fill(v *Volume, from string) (err error) {
	defer check.Return(&err)
	at := d.volumeData(v.ID)
	check.OK(os.RemoveAll(at))
	if from != "" {
		check.OK(duplicate(from, at))
	}
	if v.Image {
		f := check.Must(os.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o600))
		return errors.Join(f.Truncate(v.Size), f.Close())
	}
	if from != "" {
		return nil
	}
	// Anybody may write, as on a disk that has just been formatted for somebody.
	return errors.Join(os.Mkdir(at, 0o777), os.Chmod(at, 0o777))
}

// duplicate copies a directory or a file, which shows only once it is whole.
func duplicate(from, to string) (err error) {
	defer check.Return(&err)
	fresh := to + ".fresh"
	check.OK(os.RemoveAll(fresh))
	check.Must(run("cp", "--archive", "--sparse=always", from, fresh))
	return os.Rename(fresh, to)
}

// DeleteVolume is a controller call.
func (d *Driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (_ *csi.DeleteVolumeResponse, err error) {
	defer check.Return(&err)
	v, err := d.volume(r.GetVolumeId())
	if status.Code(err) == codes.NotFound {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if v.used() {
		return nil, wrong("volume %s is in use: attached to %v, staged at %v, published at %v", v.ID, v.Attached, v.Staged, v.Published)
	}
	if v.Image {
		check.OK(detachLoop(d.volumeData(v.ID)))
	}
	check.OK(os.RemoveAll(d.volumeData(v.ID)))
	return &csi.DeleteVolumeResponse{}, d.store.change(func(k *known) error { delete(k.Volumes, v.ID); return nil })
}

// ControllerPublishVolume is a controller call.
func (d *Driver) ControllerPublishVolume(_ context.Context, r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if r.GetVolumeId() == "" || r.GetNodeId() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "the call has no volume, no node or no capability")
	}
	how := "rw"
	if r.GetReadonly() {
		how = "ro"
	}
	err := d.store.change(func(k *known) error {
		v, most := k.Volumes[r.GetVolumeId()], k.Nodes[r.GetNodeId()]
		if _, is := k.Nodes[r.GetNodeId()]; v == nil || !is {
			return status.Errorf(codes.NotFound, "no volume %s or no node %s", r.GetVolumeId(), r.GetNodeId())
		}
		if was, is := v.Attached[r.GetNodeId()]; is {
			if was != how {
				return status.Errorf(codes.AlreadyExists, "volume %s is attached to %s already: %s", v.ID, r.GetNodeId(), was)
			}
			return nil
		}
		if len(v.Attached) > 0 && !several(r.GetVolumeCapability()) {
			return status.Errorf(codes.FailedPrecondition, "volume %s is attached to another node: %v", v.ID, v.Attached)
		}
		has := int64(0)
		for _, v := range k.Volumes {
			if _, is := v.Attached[r.GetNodeId()]; is {
				has++
			}
		}
		if most > 0 && has >= most {
			return status.Errorf(codes.ResourceExhausted, "node %s has %d volumes, and takes no more", r.GetNodeId(), has)
		}
		set(&v.Attached, r.GetNodeId(), how)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: attachment(r.GetVolumeId(), r.GetNodeId())}, nil
}

// attachment is what the node's calls have to bring along.
func attachment(volume, node string) map[string]string {
	return map[string]string{"attachment": volume + " to " + node}
}

func set(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// ControllerUnpublishVolume is a controller call. Without a node it is for all.
func (d *Driver) ControllerUnpublishVolume(_ context.Context, r *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	err := d.withVolume(r.GetVolumeId(), func(v *Volume) error {
		// A node that is lost says nothing. This one does.
		if len(v.Staged) > 0 && (r.GetNodeId() == d.config.Node || r.GetNodeId() == "") {
			return wrong("volume %s is detached from %s, where it is staged at %v", v.ID, r.GetNodeId(), v.Staged)
		}
		delete(v.Attached, r.GetNodeId())
		if r.GetNodeId() == "" {
			v.Attached = nil
		}
		return nil
	})
	if status.Code(err) == codes.NotFound {
		err = nil
	}
	return &csi.ControllerUnpublishVolumeResponse{}, err
}

// ValidateVolumeCapabilities is a controller call.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, r *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the call has no capabilities")
	}
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if why := refused(&v, r.GetVolumeCapabilities()); why != "" {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: why}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
	}}, nil
}

// page is the part of a sorted list that a call asks for. Tokens are indices.
func page[T any](all map[string]T, keep func(T) bool, token string, most int32) (out []T, next string, err error) {
	from := 0
	if token != "" {
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(all) {
			return nil, "", status.Errorf(codes.Aborted, "no such token: %s", token)
		}
	}
	var kept []T
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if keep(all[id]) {
			kept = append(kept, all[id])
		}
	}
	out = kept[min(from, len(kept)):]
	if most > 0 && len(out) > int(most) {
		out, next = out[:most], strconv.Itoa(from+int(most))
	}
	return out, next, nil
}

// ListVolumes is a controller call.
func (d *Driver) ListVolumes(_ context.Context, r *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	k, err := d.store.read()
	if err != nil {
		return nil, err
	}
	all, next, err := page(k.Volumes, func(v *Volume) bool { return !v.Ephemeral }, r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &csi.ListVolumesResponse{NextToken: next}
	for _, v := range all {
		out.Entries = append(out.Entries, &csi.ListVolumesResponse_Entry{Volume: d.listed(v), Status: &csi.ListVolumesResponse_VolumeStatus{
			PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached)), VolumeCondition: condition(v),
		}})
	}
	return out, nil
}

func (d *Driver) listed(v *Volume) *csi.Volume {
	return &csi.Volume{VolumeId: v.ID, CapacityBytes: v.Size, AccessibleTopology: d.topologies()}
}

func condition(v *Volume) *csi.VolumeCondition {
	if v.Abnormal == "" {
		return &csi.VolumeCondition{Message: "all is well"}
	}
	return &csi.VolumeCondition{Abnormal: true, Message: v.Abnormal}
}

// ControllerGetVolume is a controller call.
func (d *Driver) ControllerGetVolume(_ context.Context, r *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{Volume: d.listed(&v), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{
		PublishedNodeIds: slices.Sorted(maps.Keys(v.Attached)), VolumeCondition: condition(&v),
	}}, nil
}

// left is how many bytes are free.
func (d *Driver) left(k known) int64 {
	left := d.config.capacity()
	for _, v := range k.Volumes {
		left -= v.Size
	}
	return max(0, left)
}

// GetCapacity is a controller call.
func (d *Driver) GetCapacity(_ context.Context, r *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	k, err := d.store.read()
	if err != nil {
		return nil, err
	}
	t := r.GetAccessibleTopology()
	if t != nil && !d.here(&csi.TopologyRequirement{Requisite: []*csi.Topology{t}}) {
		return &csi.GetCapacityResponse{}, nil
	}
	return &csi.GetCapacityResponse{AvailableCapacity: d.left(k)}, nil
}

// ControllerExpandVolume is a controller call.
func (d *Driver) ControllerExpandVolume(_ context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	switch {
	case d.config.NodeExpands:
		return nil, status.Error(codes.Unimplemented, "nodes expand the volumes of this driver")
	case r.GetCapacityRange() == nil:
		return nil, status.Error(codes.InvalidArgument, "the call has no capacity")
	}
	v, err := d.enlarge(r.GetVolumeId(), r.GetCapacityRange())
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: v.Image}, err
}

// enlarge makes a volume as large as wanted, if the driver can give as much. It returns what the volume is then.
func (d *Driver) enlarge(id string, to *csi.CapacityRange) (now Volume, err error) {
	err = d.withVolume(id, func(v *Volume) error {
		size := max(v.Size, to.GetRequiredBytes())
		if size > d.config.capacity() || size > uint63(to.GetLimitBytes()) {
			return status.Errorf(codes.OutOfRange, "volume %s can't have %d bytes", v.ID, size)
		}
		if v.Image {
			if err := os.Truncate(d.volumeData(v.ID), size); err != nil {
				return err
			}
		}
		v.Size = size
		now = *v
		return nil
	})
	return now, err
}
