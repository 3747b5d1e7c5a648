package csidriver

import (
	"context"
	"os"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/troupe-dev/troupe/tests/check"
)

// CreateSnapshot is a controller call. The snapshot is a copy, ready at once.
func (d *Driver) CreateSnapshot(
	_ context.Context, r *csi.CreateSnapshotRequest,
) (_ *csi.CreateSnapshotResponse, err error) {
	defer check.Return(&err)
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no name or no volume")
	}
	defer d.alone(r.GetSourceVolumeId())()
	k := check.Must(d.store.read())
	if was := k.Snapshots[id(r.GetName())]; was != nil {
		if was.Volume != r.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "%s is there, and of another volume", r.GetName())
		}
		return &csi.CreateSnapshotResponse{Snapshot: was.listed()}, nil
	}
	v := k.Volumes[r.GetSourceVolumeId()]
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "no volume %s", r.GetSourceVolumeId())
	}
	s := &Snapshot{ID: id(r.GetName()), Name: r.GetName(), Volume: v.ID, Size: v.Size, Image: v.Image, Made: time.Now()}
	check.OK(os.RemoveAll(d.snapshotData(s.ID)))
	check.OK(duplicate(d.volumeData(v.ID), d.snapshotData(s.ID)))
	return &csi.CreateSnapshotResponse{Snapshot: s.listed()}, d.store.change(func(k *known) error { k.Snapshots[s.ID] = s; return nil })
}

func (s *Snapshot) listed() *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: s.ID, SourceVolumeId: s.Volume, SizeBytes: s.Size, CreationTime: timestamppb.New(s.Made), ReadyToUse: true,
	}
}

// DeleteSnapshot is a controller call.
func (d *Driver) DeleteSnapshot(_ context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the call has no snapshot ID")
	}
	return &csi.DeleteSnapshotResponse{}, d.store.change(func(k *known) error {
		if k.Snapshots[r.GetSnapshotId()] == nil { // what it has otherwise may be anywhere
			return nil
		}
		delete(k.Snapshots, r.GetSnapshotId())
		return os.RemoveAll(d.snapshotData(r.GetSnapshotId()))
	})
}

// ListSnapshots is a controller call.
func (d *Driver) ListSnapshots(
	_ context.Context, r *csi.ListSnapshotsRequest,
) (_ *csi.ListSnapshotsResponse, err error) {
	defer check.Return(&err)
	k := check.Must(d.store.read())
	all, next := check.Must2(page(k.Snapshots, func(s *Snapshot) bool {
		return (r.GetSnapshotId() == "" || r.GetSnapshotId() == s.ID) && (r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.Volume)
	}, r.GetStartingToken(), r.GetMaxEntries()))
	out := &csi.ListSnapshotsResponse{NextToken: next}
	for _, s := range all {
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s.listed()})
	}
	return out, nil
}
