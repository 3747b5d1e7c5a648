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
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// mounts resolves the container's mounts to paths on the host. Those of which it
// wants a part only are in parts: their paths are known when the host has mounted
// them, by their Index in the mounts.
func (p *pod) mounts(c *v1.Container, podIPs []string) (out []port.Mount, parts port.MountSubPaths, err error) {
	parts = port.MountSubPaths{Pod: p.want, Container: c.Name}
	refuse := func(format string, args ...any) ([]port.Mount, port.MountSubPaths, error) {
		return nil, parts, &port.Error{Kind: port.InvalidConfig, Verb: "mount", Object: p.name() + "/" + c.Name, Detail: fmt.Sprintf(format, args...)}
	}
	out = make([]port.Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		root, ok := p.paths.Get(m.Name)
		v := p.volumeSpec(m.Name)
		if !ok || v == nil {
			return refuse("volume %q of mount %s is not there", m.Name, m.MountPath)
		}
		pm := port.Mount{Name: m.Name, ContainerPath: m.MountPath, HostPath: root, ReadOnly: m.ReadOnly || readOnly(v)}
		if m.MountPropagation != nil {
			pm.Propagation = *m.MountPropagation
		}
		if r := m.RecursiveReadOnly; r != nil {
			pm.RecursiveReadOnly = *r
		}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			if sub, err = p.expand(c, m.SubPathExpr, podIPs); err != nil {
				return refuse("%s", err.Error())
			}
		}
		if v.Image != nil {
			pm.ReadOnly, pm.Image, pm.UserImage = true, p.facts.images.At(podplan.VolumeImage(v.Name)).Ref, v.Image.Reference
			pm.ImageSubPath = sub // the runtime looks it up
		}
		out = append(out, pm)
		if sub == "" {
			continue
		}
		if path.IsAbs(sub) {
			return refuse("error SubPath `%s` must not be an absolute path", sub)
		}
		if slices.Contains(strings.Split(sub, "/"), "..") {
			return refuse("unable to provision SubPath `%s`: must not contain '..'", sub)
		}
		if v.Image != nil {
			continue
		}
		parts.Parts = append(parts.Parts, port.SubPath{Index: i, Volume: m.Name, Root: root, SubPath: sub})
	}
	return out, parts, nil
}

// expand puts the variables of a container into a subPathExpr. Other than in a
// command, a name that is not known is an error (API VolumeMount.subPathExpr).
func (p *pod) expand(c *v1.Container, expr string, podIPs []string) (string, error) {
	from := downward.Source{Pod: p.want, NodeName: p.want.Spec.NodeName, PodIPs: podIPs, HostIPs: p.deps.HostIPs, Allocatable: p.deps.Allocatable}
	env, err := containerenv.Of(&from, p.objects, c)
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

// writeAgain has the volumes written that hold what the pod says of itself, when
// that has changed.
func (p *pod) writeAgain(ctx *kernel.Context[Message], old *v1.Pod) {
	v := &p.facts.volumes
	if old == nil || old == p.want || v.State == podplan.VolumesDown || v.Going || v.Unmounted || !slices.ContainsFunc(p.want.Spec.Volumes, ofThePod) {
		return
	}
	if !maps.Equal(old.Labels, p.want.Labels) || !maps.Equal(old.Annotations, p.want.Annotations) ||
		!equality.Semantic.DeepEqual(old.Spec.Containers, p.want.Spec.Containers) {
		p.deps.Mount(MountVolumes{Pod: p.want, Objects: p.objects, ReplyTo: ctx.Self()})
	}
}

// ofThePod says whether a volume holds what its pod says of itself.
func ofThePod(v v1.Volume) bool {
	return v.DownwardAPI != nil || v.Projected != nil &&
		slices.ContainsFunc(v.Projected.Sources, func(s v1.VolumeProjection) bool { return s.DownwardAPI != nil })
}

// readOnly says whether nobody may write to a volume: what is in it is not the
// pod's own.
func readOnly(v *v1.Volume) bool {
	c := v.PersistentVolumeClaim
	return volumefiles.Holds(v) || c != nil && c.ReadOnly || v.NFS != nil && v.NFS.ReadOnly
}

func (p *pod) volumeSpec(name string) *v1.Volume {
	for i := range p.want.Spec.Volumes {
		if v := &p.want.Spec.Volumes[i]; v.Name == name {
			return v
		}
	}
	return nil
}

// subPathError is one that users know, for all but a host that does not answer.
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
		Detail: fmt.Sprintf("failed to prepare subPath for volumeMount %s of container %q: %s", strings.Join(slices.Compact(names), ", "), r.Container, detail)}
}

func objectName(r *port.MountSubPaths) string {
	return r.Pod.Namespace + "/" + r.Pod.Name + "/" + r.Container
}
