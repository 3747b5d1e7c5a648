package pod

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// writeAgain has volumes with the pod's own fields (downward API) rewritten when those fields
// changed. A volume that an ephemeral container is the first to use is asked for, and containers wait for it.
func (p *pod) writeAgain(ctx *kernel.Context[Message], old *v1.Pod) {
	v := &p.facts.Volumes
	if old == nil || old == p.want || v.State == volumeplan.Down || v.Going || v.Unmounted {
		return
	}
	if podspec.UsesMore(&old.Spec, &p.want.Spec) {
		v.State = volumeplan.Down // the plan asks
		return
	}
	if !slices.ContainsFunc(p.want.Spec.Volumes, ofThePod) {
		return
	}
	if madeOtherwise(old, p.want) {
		p.mountVolumes(ctx)
	}
}

// madeOtherwise reports whether a pod has changed in what its containers and its volumes are made of.
func madeOtherwise(old, now *v1.Pod) bool {
	return !maps.Equal(old.Labels, now.Labels) || !maps.Equal(old.Annotations, now.Annotations) ||
		!equality.Semantic.DeepEqual(old.Spec.Containers, now.Spec.Containers)
}

// mountVolumes requests the pod's volumes, with what is known of their objects and of where they are.
func (p *pod) mountVolumes(ctx *kernel.Context[Message]) {
	p.deps.Mount(MountVolumes{
		Pod: p.want, Objects: p.objects, Later: p.foundRunning(), Paths: p.paths, ReplyTo: ctx.Self(),
	})
}

// foundRunning reports whether all containers already ran before this incarnation began, and
// still run: nothing has to be made for them.
func (p *pod) foundRunning() bool {
	s, ready := p.facts.View.ReadySandbox()
	if p.stop != nil || !ready || !p.facts.Found(s.ID) {
		return false
	}
	for i := range p.want.Spec.Containers {
		if c, there := p.facts.View.Newest(p.want.Spec.Containers[i].Name); !there || c.State != observed.ContainerRunning ||
			!p.facts.Found(c.ID) {
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
