package pod

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/decide/downward"
	"github.com/troupe-dev/troupe/actors/decide/expansion"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// mountPlan holds a container's mounts before subPaths are resolved. A subPathExpr may use
// variables, and some variables come from files. It holds only values, so any goroutine may use
// it.
type mountPlan struct {
	from      downward.Source
	objects   podobjects.Set
	container *v1.Container
	mounts    []port.Mount
	parts     []partOf
}

// partOf is the subPath of a mount, by the mount's index.
type partOf struct {
	index      int
	path, expr string // one of the two
}

// mounts resolves the container's mounts to paths on the host.
func (p *pod) mounts(c *v1.Container, podIPs []string) (*mountPlan, error) {
	w := &mountPlan{
		from: downward.Source{Pod: p.want, NodeName: p.want.Spec.NodeName, PodIPs: podIPs, HostIPs: p.deps.HostIPs,
			Allocatable: p.deps.Allocatable},
		objects: p.objects, container: c, mounts: make([]port.Mount, 0, len(c.VolumeMounts)),
	}
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		root, ok := p.paths.Get(m.Name)
		v := p.volumeSpec(m.Name)
		if !ok || v == nil {
			return nil, w.refuse("volume %q of mount %s is not there", m.Name, m.MountPath)
		}
		pm := port.Mount{Name: m.Name, ContainerPath: m.MountPath, HostPath: root, ReadOnly: m.ReadOnly ||
			readOnly(v), Relabel: p.owns(v)}
		if m.MountPropagation != nil {
			pm.Propagation = *m.MountPropagation
		}
		if r := m.RecursiveReadOnly; r != nil {
			pm.RecursiveReadOnly = *r
		}
		if v.Image != nil {
			pm.ReadOnly, pm.Image, pm.UserImage = true, p.facts.Images.At(imagepull.VolumeImage(v.Name)).Ref, v.Image.Reference
		}
		w.mounts = append(w.mounts, pm)
		if m.SubPath != "" || m.SubPathExpr != "" {
			w.parts = append(w.parts, partOf{i, m.SubPath, m.SubPathExpr})
		}
	}
	return w, nil
}

// settle returns the mounts, with subPath mounts listed in parts: the host mounts those and so
// learns their paths, which belong to the mounts by Index. files hold variables of the container.
func (w *mountPlan) settle(files containerenv.Files) (out []port.Mount, parts port.MountSubPaths, err error) {
	out, parts = slices.Clone(w.mounts), port.MountSubPaths{Pod: w.from.Pod, Container: w.container.Name}
	for _, part := range w.parts {
		sub, m := part.path, &out[part.index]
		if part.expr != "" {
			if sub, err = w.expand(part.expr, files); err != nil {
				return nil, parts, w.refuse("%s", err.Error())
			}
		}
		switch {
		case sub == "":
			continue
		case path.IsAbs(sub):
			return nil, parts, w.refuse("error SubPath `%s` must not be an absolute path", sub)
		case slices.Contains(strings.Split(sub, "/"), ".."):
			return nil, parts, w.refuse("unable to provision SubPath `%s`: must not contain '..'", sub)
		case m.Image != "":
			m.ImageSubPath = sub // the runtime looks it up
		default:
			parts.Parts = append(parts.Parts, port.SubPath{Index: part.index, Volume: m.Name, Root: m.HostPath, SubPath: sub})
		}
	}
	return out, parts, nil
}

func (w *mountPlan) refuse(format string, args ...any) error {
	return &port.Error{Kind: port.InvalidConfig, Verb: "mount", Detail: fmt.Sprintf(format, args...),
		Object: w.from.Pod.Namespace + "/" + w.from.Pod.Name + "/" + w.container.Name}
}

// expand substitutes a container's variables in a subPathExpr. Unlike in a command, an unknown
// name is an error (API VolumeMount.subPathExpr).
func (w *mountPlan) expand(expr string, files containerenv.Files) (string, error) {
	env, err := containerenv.Of(&w.from, w.objects, files, w.container)
	if err != nil {
		return "", err
	}
	missing := ""
	out := expansion.Expand(expr, func(name string) (string, bool) {
		v, ok := env.Lookup(name)
		if !ok && missing == "" {
			missing = name
		}
		return v, ok
	})
	if missing != "" {
		return "", fmt.Errorf("failed to expand subPathExpr `%s`: missing value for %q", expr, missing)
	}
	return out, nil
}

// envFiles lists the files that hold variables of the container.
func (p *pod) envFiles(c *v1.Container) (port.ReadEnvFiles, error) {
	r := port.ReadEnvFiles{Pod: p.want, Container: c.Name}
	for _, f := range containerenv.FilesOf(c) {
		v := p.volumeSpec(f.Volume)
		root, ok := p.paths.Get(f.Volume)
		if !ok || v == nil || v.EmptyDir == nil {
			return r, &port.Error{Kind: port.InvalidConfig, Verb: "ReadEnvFiles", Object: p.name() + "/" + c.Name,
				Detail: fmt.Sprintf("cannot find the volume %q referenced by FileKeyRef", f.Volume)}
		}
		r.Files = append(r.Files, port.EnvFile{Volume: f.Volume, Root: root, Path: f.Path})
	}
	return r, nil
}

// writeAgain has volumes with the pod's own fields (downward API) rewritten when those fields
// changed.
func (p *pod) writeAgain(ctx *kernel.Context[Message], old *v1.Pod) {
	v := &p.facts.Volumes
	if old == nil || old == p.want || v.State == volumeplan.Down || v.Going || v.Unmounted ||
		!slices.ContainsFunc(p.want.Spec.Volumes, ofThePod) {
		return
	}
	if !maps.Equal(old.Labels, p.want.Labels) || !maps.Equal(old.Annotations, p.want.Annotations) ||
		!equality.Semantic.DeepEqual(old.Spec.Containers, p.want.Spec.Containers) {
		p.mountVolumes(ctx)
	}
}

// mountVolumes requests the pod's volumes, with what is known of their objects.
func (p *pod) mountVolumes(ctx *kernel.Context[Message]) {
	p.deps.Mount(MountVolumes{Pod: p.want, Objects: p.objects, Later: p.foundRunning(), ReplyTo: ctx.Self()})
}

// foundRunning reports whether all containers already ran before this incarnation began, and
// still run: nothing has to be made for them.
func (p *pod) foundRunning() bool {
	s, ready := p.facts.View.ReadySandbox()
	if p.stop != nil || !ready || !s.CreatedAt.Before(p.born) {
		return false
	}
	for i := range p.want.Spec.Containers {
		if c, there := p.facts.View.Newest(p.want.Spec.Containers[i].Name); !there || c.State != observed.ContainerRunning ||
			!c.CreatedAt.Before(p.born) {
			return false
		}
	}
	return true
}

// ofThePod reports whether a volume holds fields of its own pod (downward API).
func ofThePod(v v1.Volume) bool {
	return v.DownwardAPI != nil || v.Projected != nil &&
		slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.DownwardAPI != nil })
}

// readOnly reports whether a volume can only be read. Its content is not the pod's own.
func readOnly(v *v1.Volume) bool {
	c := v.PersistentVolumeClaim
	return volumefiles.Holds(v) || c != nil && c.ReadOnly || v.NFS != nil && v.NFS.ReadOnly
}

// owns reports whether a volume's content is the pod's: files made for it, or a part of this
// machine's disk given to it for writing. Volumes of the node or of another machine keep their
// SELinux labels.
func (p *pod) owns(v *v1.Volume) bool {
	if v.EmptyDir != nil || volumefiles.Holds(v) {
		return true
	}
	if v.PersistentVolumeClaim == nil && v.Ephemeral == nil || readOnly(v) {
		return false
	}
	claim, err := p.objects.Claim(p.want.Namespace, podobjects.ClaimName(p.want, v))
	if err != nil {
		return false
	}
	pv, err := p.objects.Volume(claim.Spec.VolumeName)
	return err == nil && pv.Spec.Local != nil
}

func (p *pod) volumeSpec(name string) *v1.Volume {
	for i := range p.want.Spec.Volumes {
		if v := &p.want.Spec.Volumes[i]; v.Name == name {
			return v
		}
	}
	return nil
}

// subPathError is an error that users know from the kubelet, unless the host did not answer.
func subPathError(r *port.MountSubPaths, err error) error {
	if !answered(port.KindOf(err)) {
		return err
	}
	detail := err.Error()
	if e, ok := err.(*port.Error); ok && e.Detail != "" {
		detail = e.Detail
	}
	names := make([]string, len(r.Parts))
	for i := range r.Parts {
		names[i] = fmt.Sprintf("%q", r.Parts[i].Volume)
	}
	slices.Sort(names)
	return &port.Error{Kind: port.InvalidConfig, Verb: "MountSubPaths", Object: objectName(r),
		Detail: fmt.Sprintf("failed to prepare subPath for volumeMount %s of container %q: %s",
			strings.Join(slices.Compact(names), ", "), r.Container, detail)}
}

func objectName(r *port.MountSubPaths) string {
	return r.Pod.Namespace + "/" + r.Pod.Name + "/" + r.Container
}
