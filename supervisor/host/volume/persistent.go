package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	mountutils "k8s.io/mount-utils"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/bindmount"
)

// Directories of kinds of volumes, as the kubelet has them.
const (
	localPlugin = "kubernetes.io~local-volume"
	nfsPlugin   = "kubernetes.io~nfs"
)

// persistent brings up what a claim is bound to. Its directory has the name of
// the PersistentVolume.
func (h *Volumes) persistent(ctx context.Context, r *port.MountVolume) (string, error) {
	pv := r.Persistent
	switch s := &pv.Spec.PersistentVolumeSource; {
	case s.Local != nil:
		return h.local(ctx, r, pv)
	case s.NFS != nil:
		return h.nfs(ctx, r, pv.Name, s.NFS, mountOptions(pv))
	case s.HostPath != nil:
		return h.hostPath(ctx, r.Pod, s.HostPath)
	case s.ISCSI != nil:
		return h.iscsi(ctx, r, pv.Name)
	case s.FC != nil:
		return h.fc(ctx, r, pv.Name)
	case s.FlexVolume != nil:
		return "", flexVolume("PersistentVolume "+pv.Name, s.FlexVolume.Driver)
	default:
		return "", unsupported(r.Volume, volumeType(s)+" (of PersistentVolume "+pv.Name+")")
	}
}

// local binds a directory of this machine (API LocalVolumeSource), which may lie
// on a file system that does not answer, or what is on a device.
func (h *Volumes) local(ctx context.Context, r *port.MountVolume, pv *v1.PersistentVolume) (string, error) {
	name, source := pv.Name, pv.Spec.Local.Path
	if !filepath.IsAbs(source) {
		return "", hostcall.Failf(port.InvalidConfig, "PersistentVolume %s: local.path %q must be an absolute path", name,
			source)
	}
	if podspec.IsDevice(pv) {
		return h.mapLocal(ctx, r, pv)
	}
	return h.bindOnce(ctx, r, localPlugin, name, func(_ context.Context, ask *request) error {
		ask.Source, ask.Global, ask.Options = source, h.globalMount(name), mountOptions(pv)
		ask.Device = &blockdevice.MountWant{Device: source, ReadOnly: r.ReadOnly, Options: ask.Options}
		if t := pv.Spec.Local.FSType; t != nil {
			ask.Device.Type = *t
		}
		return nil
	})
}

// bindOnce binds a directory into a pod, and gives it to the pod's group. source says which, unless all is done.
func (h *Volumes) bindOnce(
	ctx context.Context, r *port.MountVolume, plugin, name string, source func(context.Context, *request) error,
) (string, error) {
	uid, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return "", err
	}
	ready := filepath.Join(uid, pluginsDir, plugin, name, readyFile)
	dir, mounted, err := h.mountPoint(r, plugin, name)
	path := filepath.Join(h.pods.Path, dir)
	if err != nil || mounted && h.exists(ready) {
		return path, err
	}
	if !mounted {
		if err := h.alone(r, plugin, name); err != nil {
			return "", err
		}
	}
	ask := request{Op: opBind, Path: filepath.Join(h.pods.Real, dir), Mounted: mounted}
	err = bounded(ctx, r.Patience, func(ctx context.Context) error {
		if err := source(ctx, &ask); err != nil {
			return err
		}
		if ask.Mounted && len(ask.Options) == 0 {
			return nil
		}
		return h.children.call(ctx, ask)
	})
	if err != nil {
		return "", err
	}
	if group := podspec.FSGroup(r.Pod); group != nil {
		g := grouping{r: r, plugin: plugin, name: name, dir: dir, group: *group}
		g.readOnly = r.ReadOnly || slices.Contains(ask.Options, "ro")
		release, err := h.settle(ctx, &g)
		defer release()
		if err != nil {
			return "", err
		}
	}
	if err := h.pods.Root.MkdirAll(filepath.Dir(ready), agentdir.Mode); err != nil {
		return "", err
	}
	return path, h.pods.Root.WriteFile(ready, nil, readyFileMode)
}

// alone fails for a volume that only one pod at a time may have (access mode ReadWriteOncePod) while another pod has
// it, also one that nobody has asked for since the agent started.
func (h *Volumes) alone(r *port.MountVolume, plugin, name string) error {
	if m := (volumeplan.Mount{Persistent: r.Persistent}); m.Alone() == "" {
		return nil
	}
	has, err := h.having(r.Persistent, plugin, name)
	if err == nil && slices.ContainsFunc(has, func(uid string) bool { return uid != string(r.Pod.UID) }) {
		err = hostcall.Failf(port.StateConflict, "%v", volumeplan.ErrTaken)
	}
	return err
}

// having are the pods that have a PersistentVolume.
func (h *Volumes) having(pv *v1.PersistentVolume, plugin, name string) (uids []string, err error) {
	if podspec.IsDevice(pv) {
		links, err := dirsOf(h.pods.Root.FS(), "*/"+volumeDevicesDir+"/"+plugin+"/*")
		for _, link := range links {
			if uid, rest, _ := strings.Cut(link, "/"); filepath.Base(rest) == name {
				uids = append(uids, uid)
			}
		}
		return uids, err
	}
	all, err := h.mounts()
	for _, m := range mounts.Below(all, h.pods.Real) {
		if uid, rest, _ := strings.Cut(strings.TrimPrefix(m.Point, h.pods.Real+"/"), "/"); rest ==
			filepath.Join(volumesDir, plugin, name) {
			uids = append(uids, uid)
		}
	}
	return uids, err
}

// bounded runs what may take so long; 0: as long as ctx.
func bounded(ctx context.Context, patience time.Duration, run func(context.Context) error) error {
	if patience <= 0 {
		return run(ctx)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := run(within)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return hostcall.Failf(port.Deadline, "no answer within %v", patience)
	}
	return err
}

// nfs mounts an export with the machine's mount program.
func (h *Volumes) nfs(
	ctx context.Context, r *port.MountVolume, name string, s *v1.NFSVolumeSource, options []string,
) (string, error) {
	if s.Server == "" || !filepath.IsAbs(s.Path) || strings.HasPrefix(s.Server, "-") {
		return "", hostcall.Failf(port.InvalidConfig,
			"volume %q: nfs needs a server, and an absolute path on it", r.Volume.Name)
	}
	// Two volumes of a pod may have one claim.
	release, err := h.disks.held.take(ctx, filepath.Join(nfsPlugin, string(r.Pod.UID), name))
	if err != nil {
		return "", err
	}
	defer release()
	dir, mounted, err := h.mountPoint(r, nfsPlugin, name)
	path := filepath.Join(h.pods.Path, dir)
	if err != nil || mounted {
		return path, err
	}
	server := s.Server
	if strings.Contains(server, ":") && !strings.HasPrefix(server, "[") {
		server = "[" + server + "]" // an IPv6 address
	}
	ask := request{Op: opNFS, Path: filepath.Join(h.pods.Real, dir), Source: server + ":" + s.Path, Options: options}
	if s.ReadOnly && r.Persistent == nil || r.ReadOnly { // of a claim, what the pod says of it
		ask.Options = append([]string{"ro"}, options...)
	}
	return path, h.children.call(ctx, ask)
}

// mountPoint makes the directory that a volume is mounted at, and reports whether
// something is. It asks the mounted file system for nothing.
func (h *Volumes) mountPoint(r *port.MountVolume, plugin, name string) (dir string, mounted bool, err error) {
	uid, err := agentdir.PodDir(string(r.Pod.UID))
	if err == nil {
		err = agentdir.Element("volume name", name)
	}
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(uid, volumesDir, plugin, name)
	all, err := h.mounts()
	if err != nil {
		return "", false, err
	}
	if mounts.At(all, filepath.Join(h.pods.Real, dir)) != nil {
		return dir, true, nil
	}
	return dir, false, h.pods.Root.MkdirAll(dir, agentdir.Mode)
}

// bindLocal binds Source to Path and sets its group.
func bindLocal(r *request) error {
	if !r.Mounted {
		source, err := mountedDevice(r)
		if err == nil {
			err = bindmount.Dir(source, r.Path, source == r.Global)
		}
		if err != nil {
			return err
		}
	}
	if err := bindmount.Restrict(r.Path, r.Options); err != nil {
		return err
	}
	if r.Group == nil {
		return nil
	}
	return r.given.Give(r.Path, int(*r.Group), r.OnMismatch, r.Taken)
}

// mountNFS runs the machine's mount program, as for any type it has a helper for, and not in a scope of systemd's: its
// name would be another one in each error.
func mountNFS(r *request) error {
	if err := mountutils.NewWithoutSystemd("").Mount(r.Source, r.Path, "nfs", r.Options); err != nil {
		return fmt.Errorf("mount %s: %w", r.Source, err)
	}
	return nil
}

// mountOptions are those of a PersistentVolume. Its older annotation comes first, as with a kubelet.
func mountOptions(pv *v1.PersistentVolume) []string {
	if text, is := pv.Annotations[v1.MountOptionAnnotation]; is {
		return slices.DeleteFunc(strings.Split(text, ","), func(s string) bool { return s == "" })
	}
	return pv.Spec.MountOptions
}
