package containerplan

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// Mount is one resolved mount of a container.
type Mount struct {
	// Name is the volume's name in the pod, for messages.
	Name          string
	ContainerPath string
	HostPath      string
	ReadOnly      bool
	Propagation   v1.MountPropagationMode
	// RecursiveReadOnly is the mount's own; empty is Disabled (KEP-3857).
	RecursiveReadOnly v1.RecursiveReadOnlyMode
	// Relabel: the files of the volume are the pods' that use it, so on a host with SELinux they get the label of the
	// pod's containers, if they have labels of their own.
	Relabel bool
	// Image, if not empty, is mounted instead of HostPath: the runtime's reference for UserImage.
	// ImageSubPath is the part of it to mount; empty for all.
	Image, UserImage, ImageSubPath string
}

// SubPath is a subpath of a volume.
type SubPath struct {
	// Index of the mount in the container.
	Index int
	// Volume is the name of its directory: that of the PersistentVolume if it has one, and otherwise its own. A kubelet
	// looks for what is mounted of a volume by this name, also after a changeover. Root is its path on the host.
	Volume, Root string
	// SubPath is relative, and has no "..".
	SubPath string
}

// mounts resolves the container's volumeMounts to paths on the host, without their subPaths: these
// may depend on variables.
func mounts(in *Input) ([]Mount, error) {
	out := make([]Mount, 0, len(in.Container.VolumeMounts))
	place, volume, image := in.Paths.Index(), podspec.VolumesOf(&in.Pod.Spec), in.Images.Index()
	for i := range in.Container.VolumeMounts {
		m := &in.Container.VolumeMounts[i]
		root, ok := place(m.Name)
		v := volume(m.Name)
		if !ok || v == nil {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, in.Container.Name)
		}
		to := Mount{Name: m.Name, ContainerPath: inContainer(m.MountPath), HostPath: root,
			ReadOnly: m.ReadOnly || readOnly(v), Relabel: owns(in, v)}
		if m.MountPropagation != nil {
			to.Propagation = *m.MountPropagation
		}
		if r := m.RecursiveReadOnly; r != nil {
			to.RecursiveReadOnly = *r
		}
		if v.Image != nil {
			pulled, _ := image(imagepull.VolumeImage(v.Name))
			to.ReadOnly, to.Image, to.UserImage = true, pulled.Ref, v.Image.Reference
		}
		out = append(out, to)
	}
	return out, nil
}

// inContainer is where a mount is: a path without a slash begins at the root (API VolumeMount.mountPath).
func inContainer(mountPath string) string {
	if path.IsAbs(mountPath) {
		return mountPath
	}
	return path.Join("/", mountPath)
}

// readOnly reports whether a volume can only be read. Its content is not the pod's own.
func readOnly(v *v1.Volume) bool {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ReadOnly
	case v.CSI != nil:
		return ptr.Deref(v.CSI.ReadOnly, false)
	case v.NFS != nil:
		return v.NFS.ReadOnly
	case v.ISCSI != nil:
		return v.ISCSI.ReadOnly
	case v.FC != nil:
		return v.FC.ReadOnly
	}
	return volumefiles.Holds(v)
}

// dirOf is the name of the directory of a volume.
func (p *Plan) dirOf(volume string) string {
	pod := p.from.Pod
	if p.volume == nil {
		p.volume = podspec.VolumesOf(&pod.Spec)
	}
	v := p.volume(volume)
	if v == nil {
		return volume
	}
	if name := podobjects.ClaimName(pod, v); name != "" {
		if claim, err := p.objects.Claim(pod.Namespace, name); err == nil && claim.Spec.VolumeName != "" {
			return claim.Spec.VolumeName
		}
	}
	return volume
}

// owns reports whether a volume's content is the pods' that use it: files made for one, or a disk given to them for
// writing. Volumes of the node, or from another machine as files, keep their SELinux labels. As with a kubelet, so do
// those that are read-only.
func owns(in *Input, v *v1.Volume) bool {
	if v.EmptyDir != nil || volumefiles.Holds(v) {
		return true
	}
	switch {
	case readOnly(v):
		return false
	case v.CSI != nil, v.ISCSI != nil, v.FC != nil:
		return true
	case v.PersistentVolumeClaim == nil && v.Ephemeral == nil:
		return false
	}
	claim, err := in.Objects.Claim(in.Pod.Namespace, podobjects.ClaimName(in.Pod, v))
	if err != nil {
		return false
	}
	pv, err := in.Objects.Volume(claim.Spec.VolumeName)
	if err != nil {
		return false
	}
	if pv, err = csi.Migrated(pv); err != nil {
		return false
	}
	s := &pv.Spec
	return s.Local != nil || s.CSI != nil || s.ISCSI != nil || s.FC != nil
}

// subPath is the part of a volume that is mounted, empty for all of it.
func subPath(m *v1.VolumeMount, env Environment) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var err error
		if sub, err = expand(m.SubPathExpr, env); err != nil {
			return "", err
		}
	}
	switch {
	case path.IsAbs(sub):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", sub)
	}
	return sub, nil
}

// longestPath is how long a path may be in Linux, in bytes (PATH_MAX without its end).
const longestPath = 4095

// expand substitutes variables in a subPathExpr. Unlike in a command, a name that is unknown or has an empty value is
// an error (API VolumeMount.subPathExpr): all of the volume, or another part of it, would be mounted.
func expand(expr string, env Environment) (string, error) {
	var missing []string
	room := Expansion{Left: SmallExpansion}
	out, err := room.Expand(expr, func(name string) (string, bool) {
		v, ok := env.Lookup(name)
		if v == "" {
			missing = append(missing, name)
		}
		return v, ok
	})
	if len(out) > longestPath && err == nil {
		out = strings.Clone(path.Clean(out))
	}
	if err != nil || len(out) > longestPath {
		return "", fmt.Errorf(
			"subPathExpr %.40q has more than %d bytes with all variables expanded, and no path may be longer", expr, longestPath)
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
	}
	return out, nil
}
