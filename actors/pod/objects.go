package pod

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// nothingKnown is the set of a pod's objects before the first answer.
func nothingKnown(d *Deps) podobjects.Set {
	switch {
	case d.NeedObjects == nil:
		return podobjects.Standalone()
	case d.NoServices:
		return podobjects.Set{}.WithoutServices()
	default:
		return podobjects.Set{}
	}
}

// usesObjects reports whether a pod uses objects of the API. Most simulated pods do not, which
// saves a message per pod.
func (p *pod) usesObjects(of *v1.Pod) bool {
	return p.deps.NeedObjects != nil && len(podobjects.Refs(of, nothingKnown(p.deps))) > 0
}

// needObjects sends this pod to the objects actor. A pod that is stopping or has ended needs no
// objects.
func (p *pod) needObjects(ctx *kernel.Context[Message]) {
	if p.want == nil || p.stop != nil || p.life != podlife.Syncing || !p.usesObjects(p.want) ||
		podspec.Finished(p.want) {
		return
	}
	p.deps.NeedObjects(NeedObjects{Pod: p.want, Known: p.objects, ReplyTo: ctx.Self()})
}

// otherObjects reports whether a newer version of the pod may use other objects.
func (p *pod) otherObjects(old *v1.Pod) bool {
	return old == nil || old != p.want && p.deps.NeedObjects != nil &&
		!slices.Equal(podobjects.Refs(old, p.objects), podobjects.Refs(p.want, p.objects))
}

// objectsSeen applies the objects' current state. A running container keeps what it was made
// with; the next one is made with this.
func (p *pod) objectsSeen(ctx *kernel.Context[Message], m ObjectsAnswer) {
	old := p.objects
	p.objects = m.Objects
	if p.want == nil {
		return
	}
	p.configAgain() // the missing object may exist now
	if v := &p.facts.Volumes; v.State != volumeplan.Down && !v.Going && !v.Unmounted &&
		p.changed(old, podobjects.VolumeRefs(p.want, p.objects)) {
		p.mountVolumes(ctx)
	}
	if p.changed(old, podobjects.PullSecrets(p.want)) {
		p.imagesAgain(ctx)
	}
}

// configAgain has what could not be made as its spec asks tried again at once.
func (p *pod) configAgain() {
	for lane, f := range p.facts.Failures { // order-free: each on its own
		if f.Reason == podplan.ConfigError || lane.Kind == podplan.LaneSandbox && p.want.Spec.RuntimeClassName != nil {
			f.Count = 0
			p.facts.Failures[lane] = f
		}
	}
}

// changed reports whether one of refs has a new state.
func (p *pod) changed(old podobjects.Set, refs []podobjects.Ref) bool {
	return slices.ContainsFunc(refs, func(r podobjects.Ref) bool { return !old.Get(r).Same(p.objects.Get(r)) })
}

// imagesAgain requests again the images that are not there yet.
func (p *pod) imagesAgain(ctx *kernel.Context[Message]) {
	containers, volumes := podspec.Containers(&p.want.Spec), podspec.VolumesOf(&p.want.Spec)
	for _, e := range p.facts.Images {
		if e.Value.State == imagepull.Ready || e.Value.State == imagepull.Unknown {
			continue
		}
		if c, _ := containers(e.Key); c != nil && c.Image == e.Value.Image {
			p.ensureImage(ctx, imagepull.Request{Container: c.Name, Image: c.Image, Policy: c.ImagePullPolicy,
				Attempt: e.Value.Attempt, Ahead: e.Value.Ahead})
		} else if name, ok := imagepull.OfVolume(e.Key); ok {
			if v := volumes(name); v != nil && v.Image != nil {
				p.ensureImage(ctx, imagepull.Request{Container: e.Key, Image: v.Image.Reference, Policy: v.Image.PullPolicy,
					Attempt: e.Value.Attempt})
			}
		}
	}
}

func (p *pod) ensureImage(ctx *kernel.Context[Message], r imagepull.Request) {
	if p.pullSecrets == nil {
		p.pullSecrets = podobjects.ReadPullSecrets(p.want, p.objects)
	}
	p.deps.EnsureImage(EnsureImage{Pod: p.want, Ask: r, Secrets: p.pullSecrets.Fit(r.Image), ReplyTo: ctx.Self()})
}
