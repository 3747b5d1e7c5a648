package csidrivers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Directories of devices (volumeMode Block), below volumeDevices. A PersistentVolume has a directory in each.
//
//	staging/<pv>            staged
//	publish/<pv>/<uid>      published: the device
//	<pv>/data               notes
//	<pv>/dev/<uid>          of a kubelet: the device once more, held by a loop device
//
// A pod has a link to its device: <root>/pods/<uid>/volumeDevices/kubernetes.io~csi/<pv>. The loop device of a kubelet
// keeps a device from being replaced while a container starts; here the driver keeps it, until it is asked to
// unpublish. No container uses the loop device. So what a kubelet has left is taken away when its pod is taken over:
// it would keep the device of the driver open for good (see kubeletdevice.go).
const (
	stagingDir = devicesDir + "/staging"
	publishDir = devicesDir + "/publish"
	dataName   = "data"
	devName    = "dev"
	linksDir   = "volumeDevices/kubernetes.io~csi"
)

// block are the places of a device, below plugins/kubernetes.io/csi; link is below the directory of pods.
type block struct {
	staging, publish, data, dev, link string
	stagingPath, publishPath          string
}

func (d *Drivers) block(t decide.Target) (b block, err error) {
	if err := agentdir.Element("volume name", t.Name); err != nil {
		return b, err
	}
	if t.Name == filepath.Base(stagingDir) || t.Name == filepath.Base(publishDir) {
		return b, fmt.Errorf("a device can't have the name %s", t.Name)
	}
	home := filepath.Join(devicesDir, t.Name)
	b = block{
		staging: filepath.Join(stagingDir, t.Name), publish: filepath.Join(publishDir, t.Name),
		data: filepath.Join(home, dataName), dev: filepath.Join(home, devName),
	}
	b.stagingPath = filepath.Join(d.staged.Path, b.staging)
	if t.Pod == "" {
		return b, nil
	}
	uid, err := agentdir.PodDir(string(t.Pod))
	b.link = filepath.Join(uid, linksDir, t.Name)
	b.publishPath = filepath.Join(d.staged.Path, b.publish, uid)
	return b, err
}

// stageBlock notes what a device is of, also if the driver stages nothing, and has it staged.
func (d *Drivers) stageBlock(ctx context.Context, n *node, r *decide.Stage) error {
	if r.NoSecret != "" && n.can(stages) {
		return hostcall.Failf(port.NotCalled, "%s", r.NoSecret)
	}
	b, err := d.block(decide.Target{Name: r.Name})
	if err != nil {
		return err
	}
	clean := func() error { return d.removeBlock(ctx, b) }
	err = errors.Join(d.staged.Root.MkdirAll(b.data, dirMode), d.staged.Root.MkdirAll(b.staging, dirMode))
	if err == nil {
		err = writeNotes(d.staged, b.data, map[string]string{noteName: r.Name, noteHandle: r.Handle, noteDriver: r.Driver})
	}
	if err != nil {
		return n.refused("NodeStageVolume", err, r.Fresh, clean)
	}
	if !n.can(stages) {
		return nil
	}
	_, err = n.NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{
		VolumeId: r.Handle, PublishContext: r.Context, StagingTargetPath: b.stagingPath, Secrets: r.Secrets,
		VolumeCapability: n.capability(true, "", nil, r.Access, nil), VolumeContext: r.Attributes,
	})
	if err == nil {
		return nil
	}
	return n.refused("NodeStageVolume", n.failure(ctx, "NodeStageVolume", err), r.Fresh, clean)
}

// removeBlock removes what was made for a device that is not staged any more, and what its driver left there, as a
// kubelet does. The notes go last.
func (d *Drivers) removeBlock(ctx context.Context, b block) error {
	if err := d.staged.Remove(ctx, filepath.Dir(b.staging), filepath.Base(b.staging)); err != nil {
		return err
	}
	return d.removeMade(b)
}

// removeMade removes what was made for a device, and no more.
func (d *Drivers) removeMade(b block) error {
	return removeAll(d.staged, b.staging, b.publish, b.dev, durable.Temporary(filepath.Join(b.data, notesName)),
		filepath.Join(b.data, notesName), b.data, filepath.Dir(b.data))
}

// removeAll removes files and empty directories that are there.
func removeAll(a *agentdir.Dir, paths ...string) error {
	for _, path := range paths {
		if err := a.Root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *Drivers) unstageBlock(ctx context.Context, n *node, r *decide.Found) error {
	b, err := d.block(decide.Target{Name: r.Target.Name})
	if err != nil {
		return err
	}
	// A kubelet that was killed may have left some of pods that it has unpublished.
	left, err := d.staged.Names(b.dev, nil)
	for _, uid := range left {
		err = errors.Join(err, d.releaseDevice(b, uid))
	}
	if err != nil {
		return err
	}
	if n.can(stages) {
		_, err := n.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{
			VolumeId: r.Handle, StagingTargetPath: b.stagingPath,
		})
		if err != nil {
			return n.failure(ctx, "NodeUnstageVolume", err)
		}
	}
	return d.removeBlock(ctx, b)
}

// publishBlock has a device published. The path is that of the device.
func (d *Drivers) publishBlock(ctx context.Context, n *node, r *decide.Publish) (string, error) {
	b, err := d.block(r.Target)
	if err != nil {
		return "", err
	}
	clean := func() error { return d.removePublished(b) }
	err = errors.Join(d.staged.Root.MkdirAll(b.publish, dirMode), d.pods.Root.MkdirAll(filepath.Dir(b.link), dirMode))
	if err == nil { // before the call: by the link the publication is found
		if err = d.pods.Root.Symlink(b.publishPath, b.link); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return "", n.refused("NodePublishVolume", err, r.Fresh, clean)
	}
	request := &csi.NodePublishVolumeRequest{
		VolumeId: r.Handle, PublishContext: r.Context, TargetPath: b.publishPath, Readonly: r.ReadOnly, Secrets: r.Secrets,
		VolumeCapability: n.capability(true, "", nil, r.Access, nil), VolumeContext: r.Attributes,
	}
	if n.can(stages) {
		request.StagingTargetPath = b.stagingPath
	}
	if _, err := n.NodePublishVolume(ctx, request); err != nil {
		return "", n.refused("NodePublishVolume", n.failure(ctx, "NodePublishVolume", err), r.Fresh, clean)
	}
	d.published(r.Driver, r.Target)
	if err := d.releaseDevice(b, string(r.Pod)); err != nil { // tried again when it is unpublished
		d.Log.Warn().Str("volume", r.String()).Str("error", err.Error()).
			Msg("cannot remove the kubelet's loop device of a CSI block volume")
	}
	return b.publishPath, nil
}

func (d *Drivers) unpublishBlock(ctx context.Context, n *node, r *decide.Found) error {
	b, err := d.block(r.Target)
	if err != nil {
		return err
	}
	if err := d.releaseDevice(b, string(r.Target.Pod)); err != nil {
		return err
	}
	_, err = n.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: r.Handle, TargetPath: b.publishPath})
	if err != nil {
		return n.failure(ctx, "NodeUnpublishVolume", err)
	}
	return d.removePublished(b)
}

// removePublished removes what was made for a device of a pod that is not published any more. The link goes last.
func (d *Drivers) removePublished(b block) error {
	device := filepath.Join(b.publish, filepath.Base(b.publishPath))
	m, err := d.mounted(d.staged, device)
	if err != nil {
		return err
	}
	if m != nil {
		return hostcall.Failf(port.StateConflict, "the CSI driver has answered, but left its device at %s", b.publishPath)
	}
	if err := removeAll(d.staged, device); err != nil {
		return err
	}
	if err := removeAll(d.pods, b.link); err != nil {
		return err
	}
	d.pods.Root.Remove(filepath.Dir(b.link)) //nolint:errcheck // other devices may be there
	return nil
}

// scanBlock finds devices. A publication is found by the link of its pod, and by what the driver has published: a
// kubelet removes the link before it has the driver unpublish.
func (d *Drivers) scanBlock(ctx context.Context, s *scan) error {
	of, known := map[string]decide.Key{}, map[string]bool{}
	for _, v := range s.sub(d.staged, devicesDir) {
		b, err := d.block(decide.Target{Name: v})
		if err != nil {
			continue // staging, publish
		}
		notes, err := readNotes(d.staged, b.data)
		if errors.Is(err, fs.ErrNotExist) && d.removeMade(b) == nil {
			continue // nothing was staged there
		}
		if err != nil {
			s.bad(d.staged, filepath.Join(b.data, notesName), err)
			continue
		}
		of[v] = decide.Key{Driver: notes[noteDriver], Handle: notes[noteHandle]}
		s.found = append(s.found, decide.Found{Key: of[v], Target: decide.Target{Name: v}, Block: true})
		published, err := d.staged.Names(b.publish, nil)
		if err != nil {
			s.bad(d.staged, b.publish, err)
		}
		for _, uid := range published {
			known[filepath.Join(uid, v)] = true
			s.found = append(s.found, decide.Found{
				Key: of[v], Target: decide.Target{Pod: types.UID(uid), Name: v}, Block: true,
			})
		}
	}
	if len(of) == 0 {
		return nil
	}
	pods, err := dirs(d.pods, ".")
	for _, uid := range pods {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		links, err := fs.ReadDir(d.pods.Root.FS(), filepath.Join(uid, linksDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.bad(d.pods, filepath.Join(uid, linksDir), err)
		}
		for _, l := range links {
			if k, is := of[l.Name()]; is && !known[filepath.Join(uid, l.Name())] {
				s.found = append(s.found, decide.Found{
					Key: k, Target: decide.Target{Pod: types.UID(uid), Name: l.Name()}, Block: true,
				})
			}
		}
	}
	return err
}
