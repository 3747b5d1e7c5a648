package volumes

import (
	"fmt"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// tell says how far the pod's volumes are.
func (a *volumes) tell(p *user) {
	v, news := p.Tell()
	if v.State == volumeplan.Up {
		if len(p.Volumes) == 0 {
			p.Object = nil
		}
		p.late.Stop()
	}
	if news {
		p.reply.Tell(pod.VolumesAnswer{Volumes: v, Paths: p.Paths()})
	}
}

// expect has the time counted that something takes from now on.
func (p *user) expect(ctx *kernel.Context[Message], uid types.UID) {
	p.Expect(ctx.Now())
	p.late.SetIn(ctx, volumeplan.Patience, overdue{uid})
}

// overdue says what has been waited for, for so long already.
func (a *volumes) overdue(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	if p.Phase == volumeplan.Complete {
		return
	}
	events, next := p.Overdue()
	for _, e := range events {
		a.event(ctx, p, e)
	}
	p.late.SetIn(ctx, next, overdue{uid})
	a.tell(p)
}

// fail notes why a volume can't be brought up, or, without one, why a call for the pod as a whole has failed. It says
// so to users, and gives when it is tried again.
func (a *volumes) fail(ctx *kernel.Context[Message], p *user, v *volumeplan.Volume, err error) time.Time {
	c := volumeplan.Cause{Err: err, Text: err.Error(), Conflict: port.KindOf(err) == port.StateConflict}
	if e, ok := err.(*port.Error); ok && e.Detail != "" && v != nil {
		c.Text = e.Detail
	}
	e, at := p.Fail(v, c, ctx.Now(), a.deps.Backoff)
	a.event(ctx, p, e)
	return at
}

func (a *volumes) event(ctx *kernel.Context[Message], p *user, e volumeplan.Event) {
	if p.Object != nil {
		a.deps.Events.Record(port.Event{Pod: p.Object, Warning: true, Reason: e.Reason, Message: e.Message, At: ctx.Now()})
	}
}

// mapped says in an event that a device of this machine (volumeMode Block) is there, as a kubelet does. That of a file
// system it does not say.
func (a *volumes) mapped(ctx *kernel.Context[Message], p *user, v *volumeplan.Volume, at string) {
	if p.Object == nil || p.Down() || !podspec.IsDevice(v.Persistent) {
		return
	}
	a.deps.Events.Record(port.Event{Pod: p.Object, Reason: "SuccessfulMountVolume", At: ctx.Now(), Message: fmt.Sprintf(
		"MapVolume.MapPodDevice succeeded for volume %q globalMapPath %q", v.Shown(), path.Dir(at))})
}

// shared warns that a volume is of another group than its pod asks for, in the words of the kubelet.
func (a *volumes) shared(ctx *kernel.Context[Message], m shared) {
	p := a.pods[m.uid]
	if p == nil || p.Down() || p.Object == nil || podspec.FSGroup(p.Object) == nil {
		return
	}
	if v := p.Named(m.volume); v != nil {
		a.event(ctx, p, volumeplan.Event{Reason: "AlreadyMountedVolume", Message: fmt.Sprintf(
			"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.",
			*podspec.FSGroup(p.Object), v.Shown(), m.group)})
	}
}

// hostWalked is told by the host, of a mount that goes on.
func (a *volumes) hostWalked(ctx *kernel.Context[Message], m walked) {
	p := a.pods[m.uid]
	if p == nil {
		return
	}
	if v := p.Named(m.volume); v != nil && v.State.Calls() {
		a.walked(ctx, p, v, csi.Walk{Reports: v.Walk.Reports + 1, Files: m.files})
	}
}

// walked says that the group of a volume's files is being changed, and how far that is, as often as a kubelet does.
func (a *volumes) walked(ctx *kernel.Context[Message], p *user, v *volumeplan.Volume, w csi.Walk) {
	if !p.Walked(v, w) {
		return
	}
	a.event(ctx, p, volumeplan.Event{Reason: "VolumePermissionChangeInProgress", Message: fmt.Sprintf(
		"Setting volume ownership of %q takes long: %s. With fsGroupChangePolicy OnRootMismatch it is done once, and not "+
			"for each pod", v.Name, w.Of(podspec.FSGroup(p.Object)))})
	a.tell(p)
}
