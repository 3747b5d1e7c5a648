// Package volumes is the actor that mounts and unmounts the volumes of pods. Each volume
// has its own lane, so a volume that hangs delays only its own pod.
//
//	pod ──Mount, Unmount──► volumes ──PreparePod, MountVolume, GrowVolume, UnmountPod──► host
//	pod ◄──VolumesAnswer── volumes ──UseCSI, ReleaseCSI──► csi ──CSIAnswer, CSIReleased──► volumes
//
// Volumes of CSI drivers are left to the actor csi. A pod is unmounted once they are released.
//
// A pod sends its volumes again when their objects or the pod itself have changed.
// Volumes with changed content are rewritten. If that fails, the volumes and the pod
// stay as they were.
//
// After a restart the actor has no state. Pods send their requests again, with the paths of
// what they know to be mounted, which stays. The rest is mounted again (port.Host is idempotent).
package volumes

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/selinux"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/expand"
	"github.com/troupe-dev/troupe/actors/flat"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the volumes actor understands.
//
//sumtype:decl
type Message interface{ isVolumesMessage() }

// Mount is a pod's wish for all its volumes, with what is known of their objects.
// Twice: answered twice.
type Mount struct{ pod.MountVolumes }

// Unmount takes all volumes of a pod down. It overtakes a Mount under way.
type Unmount struct{ pod.UnmountVolumes }

// done is the result of one effect for one pod; volume is empty for those that
// are about the pod as a whole.
type done struct {
	id     kernel.EffectID
	uid    types.UID
	what   step
	volume string
	path   string
	// version is what the volume holds now.
	version uint64
	// size is what the volume was grown to, 0 for nothing.
	size int64
	err  error
}

// overdue is this actor's own timer for a pod whose volumes take long.
type overdue struct{ uid types.UID }

// again is this actor's own timer for one pod.
type again struct{ uid types.UID }

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

func (missed) isVolumesMessage()  {}
func (Mount) isVolumesMessage()   {}
func (Unmount) isVolumesMessage() {}
func (done) isVolumesMessage()    {}
func (again) isVolumesMessage()   {}
func (overdue) isVolumesMessage() {}

// Outcome implements kernel.Outcome.
func (m done) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// step is what an effect does.
type step uint8

const (
	prepare step = iota
	mount
	unmount
	grow
)

func (s step) String() string {
	return [...]string{"PreparePod", "MountVolume", "UnmountPod", "ExpandVolume"}[s]
}

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
	// CSI brings up the volumes of CSI drivers; nil: they are the host's, which refuses them.
	CSI CSI
	// API has the claims of local volumes; nil without an apiserver.
	API expand.API
	// Restarted is called when an incarnation after the first begins. ResendNode then asks for NodeSeen again; nil
	// without an apiserver.
	Restarted, ResendNode func()
	Backoff               backoff.Policy
	// Deadline bounds one call, but not a change of the group of all files. A mount that takes longer continues being
	// waited for.
	Deadline time.Duration
	// Allocatable is what the node has for pods.
	Allocatable v1.ResourceList
	// SELinux is nil on a host without it.
	SELinux *selinux.Host
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &volumes{deps: deps, pods: map[types.UID]*volumed{}, growing: map[string]kernel.EffectID{}}
	}
}

type volumes struct {
	deps *Deps
	pods map[types.UID]*volumed
	node *v1.Node // nil: not known yet
	// growing are the local volumes in use that are being grown, by their PersistentVolumes; looking: the timer of looks.
	growing map[string]kernel.EffectID
	looking bool
	missed  kernel.Missed[Message]
}

// volumed is one pod's share.
type volumed struct {
	// pod is nil before the first request, and once a pod that has no volumes is up:
	// its newer versions do not come here, and there is no need to keep an old one.
	pod     *v1.Pod
	objects podobjects.Set
	// plan is made of the two; each has its Content until that was written.
	plan []volumeplan.Mount
	// places are where in the plan each volume is, left how many of them do not stand, and first where the first of those
	// may be: none is before it.
	places flat.Many[string, int]
	left   int
	first  int
	reply  kernel.Ref[pod.Message]
	// later: the pod runs with its volumes already, and other pods go first.
	later bool
	// down: it is being taken down, and nothing is brought up any more. coming are the mounts and growths that are still
	// under way, those of a predecessor included: it is not unmounted before they end, or they would come up behind our
	// back.
	down     bool
	coming   map[kernel.EffectID]bool
	prepared bool
	// pending: the pod knows that its volumes are on their way; it takes them to be
	// when it has asked.
	pending  bool
	paths    flat.Many[string, string]   // by name of the volume
	versions flat.Many[string, uint64]   // of what is in them
	walked   flat.Many[string, csi.Walk] // of those whose group is being changed
	running  flat.Many[call, kernel.EffectID]
	failures flat.Many[call, failure]
	// asked are the CSI volumes that csi was asked for, csiWaits what they wait for, or the release of all under an empty
	// name, and specs how it was asked last. releasing: csi was asked to release them; released: it has. unattached are
	// those that are not attached.
	asked               flat.Many[string, bool]
	specs               flat.Many[string, *csi.Spec]
	csiWaits            flat.Many[string, string]
	unattached          flat.Many[string, bool]
	releasing, released bool
	// retry is the one timer of this pod, and when it fires.
	retry   func() bool
	retryAt time.Time
	// since is when this was asked for, late is the timer that says how long
	// that is ago, and waits that it said so.
	since time.Time
	late  func() bool
	waits bool
}

// call is what is called at most once at a time; volume is empty if it is about
// the pod as a whole.
type call struct {
	what   step
	volume string
}

type failure struct {
	count   int
	at      time.Time
	message string
	// again: what it failed for has changed, and there is nothing to wait for. obstacle: csi was not asked yet.
	again, obstacle bool
	// taken: something else has it otherwise.
	taken bool
}

// Start implements kernel.Behavior.
func (a *volumes) Start(ctx *kernel.Context[Message]) {
	if ctx.Incarnation() > 1 {
		a.askAgain()
	}
}

// askAgain asks for what was lost.
func (a *volumes) askAgain() {
	a.deps.Restarted()
	if a.deps.ResendNode != nil {
		a.deps.ResendNode()
	}
}

// Overflowed implements kernel.OverflowHandler: wishes were lost, and are asked
// for again as after a restart, but not while there is no room for them.
func (a *volumes) Overflowed(ctx *kernel.Context[Message]) {
	a.missed.Ask(ctx, missed{})
}

// Receive implements kernel.Behavior.
func (a *volumes) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case missed:
		a.missed.Asked()
		a.askAgain()
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
			p.retry = nil
			a.advance(ctx, m.uid)
		}
	case overdue:
		if p := a.pods[m.uid]; p != nil {
			p.late = nil
			a.overdue(ctx, m.uid)
		}
	}
}

func (a *volumes) mount(ctx *kernel.Context[Message], m Mount) {
	uid := m.Pod.UID
	p := a.get(uid)
	first, had := p.pod == nil, len(p.plan)
	if first || p.pod != m.Pod || !p.objects.Equal(m.Objects) {
		allocatable := a.deps.Allocatable
		if a.node != nil {
			allocatable = nodeobject.Native(a.node.Status.Allocatable, allocatable)
		}
		p.plan = volumeplan.Plan(m.Pod, m.Objects, allocatable, a.deps.SELinux)
		p.index()
		failures := p.failures.List()
		for i := range failures {
			if failures[i].Key.what == mount {
				failures[i].Value.again = true
			}
		}
	}
	p.stand(m.Paths)
	p.asked = flat.Many[string, bool]{} // an answer may have been lost
	p.pod, p.objects, p.reply, p.later, p.pending = m.Pod, m.Objects, m.ReplyTo, m.Later, true
	a.lookLater(ctx, p)
	if !p.down && len(p.plan) > 0 && (first || len(p.plan) > had) {
		p.expect(ctx, uid)
	}
	a.advance(ctx, uid)
}

func (a *volumes) get(uid types.UID) *volumed {
	p := a.pods[uid]
	if p == nil {
		p = &volumed{}
		a.pods[uid] = p
	}
	return p
}

func (a *volumes) done(ctx *kernel.Context[Message], m done) {
	p := a.pods[m.uid]
	if p == nil {
		return // taken down meanwhile
	}
	delete(p.coming, m.id)
	key := call{m.what, m.volume}
	if p.running.At(key) != m.id {
		// Late, or of a predecessor: what it did is found by the one that is asked for next.
		a.advanceOne(ctx, m.uid, m.volume)
		return
	}
	p.running.Delete(key)
	p.walked.Delete(m.volume)
	if m.err != nil {
		if !p.down || m.what == unmount { // else it was given up
			a.fail(ctx, p, key, m.err)
		}
		a.advanceOne(ctx, m.uid, m.volume)
		return
	}
	p.failures.Delete(key)
	switch m.what {
	case prepare:
		p.prepared = true
	case mount:
		p.mounted(m)
		a.mapped(ctx, p, m.volume, m.path)
		a.sized(ctx, p, m.volume, m.size)
		a.advanceOne(ctx, m.uid, m.volume)
		return
	case unmount:
		if p.retry != nil {
			p.retry()
		}
		if p.late != nil {
			p.late()
		}
		delete(a.pods, m.uid)
		a.freed(ctx)
		p.reply.Tell(pod.VolumesAnswer{Volumes: volumeplan.Volumes{State: volumeplan.Down, Unmounted: true}})
		return
	case grow: // another message
	}
	a.advance(ctx, m.uid)
}
