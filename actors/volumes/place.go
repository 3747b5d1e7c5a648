package volumes

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/flat"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// NodeSeen is the Node of this machine, when its labels may have changed. From nodestatus. Lost: asked for again. Until
// it comes, PersistentVolumes with a nodeAffinity wait.
type NodeSeen struct{ Node *v1.Node }

func (NodeSeen) isVolumesMessage() {}

// obstacle is why a volume can't be brought up; nil if it can. Where a pod already runs with a volume, its nodeAffinity
// does not matter any more.
func (a *volumes) obstacle(p *volumed, m *volumeplan.Mount) error {
	if m.Err != nil || p.later || p.paths.Has(m.Name) {
		return m.Err
	}
	if err := volumeplan.Barred(m.Persistent, a.node); err != nil {
		return err
	}
	if name := m.Alone(); name != "" && a.taken(p, name) {
		return volumeplan.ErrTaken
	}
	return nil
}

// taken reports whether another pod has a volume, or is being given it.
func (a *volumes) taken(p *volumed, name string) bool {
	for _, o := range a.pods { // order-free: any
		if o != p && slices.ContainsFunc(o.plan, func(m volumeplan.Mount) bool {
			return m.Alone() == name && (o.paths.Has(m.Name) || o.running.Has(call{mount, m.Name}))
		}) {
			return true
		}
	}
	return false
}

// stand counts what a pod knows to be there as mounted: it stays, whatever became of the labels of the Node or of its
// claim. An earlier incarnation has mounted it. What is in it is written again.
func (p *volumed) stand(paths flat.Map[string, string]) {
	for _, e := range paths {
		if !p.paths.Has(e.Key) {
			p.stands(e.Key, e.Value)
		}
	}
}

// mounted remembers what stands, and lets go of what was written.
func (p *volumed) mounted(m done) {
	p.stands(m.volume, m.path)
	p.versions.Set(m.volume, m.version)
	if of := p.named(m.volume); of != nil && of.Version == m.version {
		of.Content = nil
	}
}

// nodeSeen tries volumes again that the labels of the Node kept away.
func (a *volumes) nodeSeen(ctx *kernel.Context[Message], m NodeSeen) {
	before := a.node
	a.node = m.Node
	if before != nil && maps.Equal(before.Labels, m.Node.Labels) {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p, other := a.pods[uid], false
		for i := range p.plan {
			m := &p.plan[i]
			if p.paths.Has(m.Name) || volumeplan.Barred(m.Persistent, before) == volumeplan.Barred(m.Persistent, a.node) {
				continue
			}
			other = true
			p.failures.Delete(call{mount, m.Name})
		}
		if other && !p.down {
			a.advance(ctx, uid)
		}
	}
}
