package volumes

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// useCSI asks for the CSI volumes of a pod.
func (a *volumes) useCSI(p *user, env *volumeplan.Env) {
	var out []CSIVolume
	for _, v := range p.AskCSI(env) {
		out = append(out, CSIVolume{v.Name, v.Spec})
	}
	if len(out) > 0 {
		a.deps.UseCSI(UseCSI{Pod: p.Object, Volumes: out})
	}
}

// releaseCSI has the CSI volumes of a pod unpublished.
func (a *volumes) releaseCSI(p *user, uid types.UID) {
	if p.Phase == volumeplan.Releasing {
		a.deps.ReleaseCSI(ReleaseCSI{uid})
	}
}

func (a *volumes) csiAnswer(ctx *kernel.Context[Message], m CSIAnswer) {
	p := a.pods[m.UID]
	if p == nil {
		return
	}
	tells := false
	for _, n := range m.News {
		tells = a.csiNews(ctx, p, n) || tells
	}
	if tells {
		a.tell(p)
	}
}

// csiNews notes how far a volume is, or the release of all, and reports whether the pod is to be told of it.
func (a *volumes) csiNews(ctx *kernel.Context[Message], p *user, n CSINews) bool {
	v := p.Named(n.Volume)
	switch {
	case (n.Volume == "") != p.Down() || v == nil && !p.Down():
		return false
	case v == nil:
		if p.ReleaseWaits(n.Waiting); n.Failure != "" {
			a.event(ctx, p, p.CSIFailed(nil, n.Failure, ctx.Now(), a.deps.Backoff))
		}
		return true
	}
	v.CSIWaits(n.Waiting, n.Unattached)
	switch {
	case n.Failure != "" && n.Path != "":
		a.event(ctx, p, volumeplan.Event{Reason: v.Reason(nil), Message: n.Failure})
		return false
	case n.Failure != "":
		a.event(ctx, p, p.CSIFailed(v, n.Failure, ctx.Now(), a.deps.Backoff))
	case n.Path != "":
		if !v.State.There() {
			a.mapped(ctx, p, v, n.Path)
			a.sized(ctx, p, v, 0)
		}
		p.Published(v, n.Path)
	case n.Walk.Reports > 0 && n.Walk != v.Walk:
		a.walked(ctx, p, v, n.Walk)
		return false
	}
	return true
}

func (a *volumes) csiReleased(ctx *kernel.Context[Message], uid types.UID) {
	if p := a.pods[uid]; p != nil && p.Down() {
		p.Released()
		a.advance(ctx, uid)
	}
}

// csiRestarted asks csi again.
func (a *volumes) csiRestarted() {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		p := a.pods[uid]
		p.AskAgain()
		a.releaseCSI(p, uid)
		a.useCSI(p, a.env(p))
	}
}
