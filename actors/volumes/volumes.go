package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/isolation"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/expand"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// Host is what the actor uses of port.Host.
type Host interface {
	PreparePod(ctx context.Context, pod *v1.Pod, done func(error))
	MountVolume(ctx context.Context, r port.MountVolume, done func(path string, err error))
	GrowVolume(ctx context.Context, r port.GrowVolume, done func(error))
	UnmountPod(ctx context.Context, uid types.UID, done func(error))
}

// Deps are what the actor is connected to.
type Deps struct {
	Host   Host
	Events port.Recorder
	// UseCSI and ReleaseCSI are to the actor csi, which brings up the volumes of CSI drivers. Nil: they are the host's,
	// which refuses them.
	UseCSI     func(UseCSI)
	ReleaseCSI func(ReleaseCSI)
	// API has the claims of local volumes; nil without an apiserver.
	API expand.API
	// Restarted has pods send their requests again.
	Restarted func()
	Backoff   backoff.Policy
	// Deadline bounds one call, but not a change of the group of all files. A mount that takes longer continues being
	// waited for.
	Deadline time.Duration
	// Allocatable is what the node has for pods.
	Allocatable v1.ResourceList
	// SELinux is nil on a host without it.
	SELinux *isolation.SELinuxHost
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &volumes{deps: deps, pods: map[types.UID]*user{}, growing: map[string]kernel.EffectID{}}
	}
}

type volumes struct {
	deps *Deps
	pods map[types.UID]*user
	node *v1.Node // nil: not known yet
	// growing are the local volumes in use that are being grown, by their PersistentVolumes; looking: the timer of looks.
	growing map[string]kernel.EffectID
	looking bool
}

// Check implements kernel.Checked.
func (a *volumes) Check() error {
	for _, p := range a.pods { // order-free: any of them is told
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}

// user is a pod with its volumes.
type user struct {
	volumeplan.Pod
	// objects are what the plan of its volumes was made with.
	objects podobjects.Set
	reply   kernel.Ref[pod.Message]
	// retry is the one timer of this pod for calls. late is the timer that says what takes long.
	retry kernel.Soonest[Message]
	late  kernel.Alarm[Message]
}

// Start implements kernel.Behavior.
func (*volumes) Start(*kernel.Context[Message]) {}

// Resync implements kernel.Resyncer.
func (a *volumes) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *volumes) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Mount:
		a.mount(ctx, m)
	case Unmount:
		a.unmount(ctx, m)
	case Retain:
		a.retain(ctx, m)
	case NodeSeen:
		a.nodeSeen(ctx, m)
	case CSIAnswer:
		a.csiAnswer(ctx, m)
	case CSIReleased:
		a.csiReleased(ctx, m.UID)
	case CSIRestarted:
		a.csiRestarted()
	case done:
		a.done(ctx, m)
	case walked:
		a.hostWalked(ctx, m)
	case shared:
		a.shared(ctx, m)
	case look:
		a.look(ctx)
	case grown:
		a.grown(ctx, m)
	case again:
		if p := a.pods[m.uid]; p != nil {
			p.retry.Fired()
			a.advance(ctx, m.uid)
		}
	case overdue:
		if p := a.pods[m.uid]; p != nil {
			p.late.Fired()
			a.overdue(ctx, m.uid)
		}
	}
}

func (a *volumes) mount(ctx *kernel.Context[Message], m Mount) {
	uid := m.Pod.UID
	p := a.get(uid)
	first, had := p.Object == nil, len(p.Volumes)
	if first || p.Object != m.Pod || !p.objects.Equal(m.Objects) {
		allocatable := a.deps.Allocatable
		if a.node != nil {
			allocatable = nodeobject.Native(a.node.Status.Allocatable, allocatable)
		}
		p.Replan(volumeplan.Plan(m.Pod, m.Objects, allocatable, a.deps.SELinux))
	}
	p.Want(m.Pod, m.Later, m.Paths)
	p.objects, p.reply = m.Objects, m.ReplyTo
	a.lookLater(ctx, p)
	if !p.Down() && len(p.Volumes) > 0 && (first || len(p.Volumes) > had) {
		p.expect(ctx, uid)
	}
	a.advance(ctx, uid)
}

func (a *volumes) get(uid types.UID) *user {
	p := a.pods[uid]
	if p == nil {
		p = &user{}
		a.pods[uid] = p
	}
	return p
}

func (a *volumes) done(ctx *kernel.Context[Message], m done) {
	p := a.pods[m.uid]
	if p == nil {
		return // taken down meanwhile
	}
	v := p.Named(m.volume)
	if !p.Ended(v, volumeplan.Call(m.id)) {
		a.advanceOne(ctx, m.uid, v)
		return
	}
	if m.err != nil {
		if !p.Down() || m.what == unmount { // else it was given up
			a.fail(ctx, p, v, m.err)
		}
		a.advanceOne(ctx, m.uid, v)
		return
	}
	switch m.what {
	case prepare:
		p.Prepared()
		a.advance(ctx, m.uid)
	case mount:
		p.Mounted(v, m.path, m.version)
		a.mapped(ctx, p, v, m.path)
		a.sized(ctx, p, v, m.size)
		a.advanceOne(ctx, m.uid, v)
	case unmount:
		p.retry.Stop()
		p.late.Stop()
		delete(a.pods, m.uid)
		a.freed(ctx)
		p.reply.Tell(pod.VolumesAnswer{Volumes: volumeplan.Volumes{State: volumeplan.Down, Unmounted: true}})
	case grow: // another message
	}
}

func (a *volumes) unmount(ctx *kernel.Context[Message], m Unmount) {
	p := a.get(m.UID)
	p.reply = m.ReplyTo
	if p.Object == nil {
		p.Object = m.Pod
	}
	first := p.TakeDown(a.deps.UseCSI != nil)
	if first && (p.Object == nil || len(p.Volumes) > 0) {
		p.expect(ctx, m.UID)
	}
	a.giveUp(ctx, m.UID, p, first)
	a.releaseCSI(p, m.UID)
	a.advance(ctx, m.UID)
}

// giveUp notes what is being brought up of a pod that is taken down, by this incarnation and by earlier ones. The first
// time it is given up, because it is not needed any more, also what hangs: what it was to be mounted at is removed, so
// that it can't come up later.
func (a *volumes) giveUp(ctx *kernel.Context[Message], uid types.UID, p *user, first bool) {
	var coming, givenUp map[volumeplan.Call]bool
	for _, e := range ctx.InFlight() {
		if t, ok := e.Tag.(tag); !ok || t.uid != uid || t.what == unmount {
			continue
		}
		if coming == nil {
			coming, givenUp = map[volumeplan.Call]bool{}, map[volumeplan.Call]bool{}
		}
		c := volumeplan.Call(e.ID)
		if first {
			givenUp[c] = ctx.Cancel(e.ID)
		}
		if dropped := givenUp[c]; !dropped {
			coming[c] = true
		}
	}
	p.GiveUp(coming, givenUp)
	if len(givenUp) > 0 {
		a.ungrown(givenUp)
	}
}

// retain takes down the volumes of pods that are gone.
func (a *volumes) retain(ctx *kernel.Context[Message], m Retain) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if !m.Pods[uid] {
			a.unmount(ctx, Unmount{pod.UnmountVolumes{UID: uid}})
		}
	}
}

// freed tries again at once what other pods had otherwise: a disk with another SELinux label. One of them has just
// gone.
func (a *volumes) freed(ctx *kernel.Context[Message]) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if a.pods[uid].Freed() {
			a.advance(ctx, uid)
		}
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
		if p := a.pods[uid]; p.Moved(before, a.node) && !p.Down() {
			a.advance(ctx, uid)
		}
	}
}
