package pod

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Deps are what a pod actor needs.
type Deps struct {
	Runtime port.Runtime
	Network port.Network
	Events  port.Recorder
	// Files is nil in simulations, whose containers have no files of their own.
	Files port.ContainerFiles
	// SubPaths is the host's MountSubPaths.
	SubPaths func(context.Context, port.MountSubPaths, func([]string, error))
	// LogLinks is nil where the logs of containers have no links.
	LogLinks port.LogLinks
	// Senders of messages to images, volumes, resources and probes.
	EnsureImage func(EnsureImage)
	Mount       func(MountVolumes)
	Unmount     func(UnmountVolumes)
	Probe       func(ProbeContainers)
	// ForgetImages tells images that a pod wants none any more.
	ForgetImages func(types.UID)
	// EnsureCgroup and RemoveCgroup are nil where pods have no cgroups of their own.
	EnsureCgroup func(EnsureCgroup)
	RemoveCgroup func(RemoveCgroup)
	// PrepareClaims and ReleaseClaims are nil where ResourceClaims can't be prepared.
	PrepareClaims func(PrepareClaims)
	ReleaseClaims func(ReleaseClaims)
	// Cgroups resizes running pods; it is nil there too. Limits derives the limits of pods and
	// containers from their requests.
	Cgroups port.Cgroups
	Limits  podcgroup.Settings
	// NeedObjects and ForgetObjects go to apiobjects. They are nil on a node without an apiserver.
	// NoServices: pods get no service variables.
	NeedObjects   func(NeedObjects)
	ForgetObjects func(ForgetObjects)
	NoServices    bool
	// The rest go to podset.
	Ask         func(Ask)
	Report      func(Report)
	Finished    func(Finished)
	NoteRestart func(NoteRestart)
	InPlace     func(InPlace)

	CrashPolicy backoff.Policy
	RetryPolicy backoff.Policy
	// HostIPs are the node's addresses. PreferIPv6: a pod with addresses of both families has the IPv6 address first.
	// RuntimeName precedes "://" in container IDs.
	HostIPs     []string
	PreferIPv6  bool
	RuntimeName string
	// Allocatable is what the node has for pods. Devices are those of device plugins, nil for none.
	Allocatable v1.ResourceList
	Devices     *devicestate.State
	// PreStart tells a device plugin that a container with its devices is about to be created; nil without device
	// plugins. reply is called on any goroutine.
	PreStart func(of devices.PreStart, reply func(error))
}

// Machine is the machine as it was when the agent started.
func (d *Deps) Machine() Machine { return Machine{HostIPs: d.HostIPs, Allocatable: d.Allocatable} }

// New makes the constructor of the actor of one pod.
func New(uid types.UID, deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &pod{uid: uid, deps: deps, objects: nothingKnown(deps), machine: deps.Machine()}
	}
}

// pod is one incarnation.
//
//	waiting for Assign ──► Syncing ──► Terminating ──► Terminated (podlife)
type pod struct {
	uid  types.UID
	deps *Deps

	// want is nil until assigned.
	want   *v1.Pod
	origin podspec.Origin
	rank   int64
	// first is Assign.FirstSandbox.
	first uint32
	life  podlife.State
	// told is the life last reported to podset. down and resists were reported with it.
	told          podlife.State
	down, resists bool
	// hinted: something has happened in the runtime since the actor began and before it was assigned.
	hinted   bool
	finished bool
	stop     *podlife.Stop

	machine Machine

	facts podplan.Facts
	// Invariant: facts.Busy and lanes have one entry for each effect of this pod that has not
	// ended, including those of an earlier incarnation.
	lanes  smallmap.Map[kernel.EffectID, podplan.Lane]
	turns  turns
	paths  smallmap.Map[string, string]          // volume name → path on the host
	images smallmap.Map[string, *observed.Image] // container name → what the runtime knows of its image
	// objects is the known state of the pod's API objects.
	objects podobjects.Set
	// pullSecrets are those of objects while one message is handled, for all images that are asked for.
	pullSecrets *imagepull.PullSecrets
	// placement is Assign.Placement, the newest that was not nil.
	placement *cpus.Placement
	// inPlace is the number of the last InPlace.
	inPlace uint64
	resize  *resize  // nil for a pod that was never resized
	probed  *probing // nil while the pod has nothing to probe

	wake   kernel.Alarm[Message]
	wakeAt time.Time
	status *v1.PodStatus
	// sent is the status last reported to podset, at sentAt; nil if all must be reported.
	sent   *v1.PodStatus
	sentAt time.Time
	// troubled is the trouble last reported to podset.
	troubled string
}

// Check implements kernel.Checked.
func (p *pod) Check() error {
	busy := p.facts.Busy.Index()
	other := slices.ContainsFunc(p.lanes, func(l smallmap.Entry[kernel.EffectID, podplan.Lane]) bool {
		_, is := busy(l.Value)
		return !is
	})
	if other || len(p.lanes) != len(p.facts.Busy) {
		return fmt.Errorf("pod: facts.Busy and lanes have one entry for each effect of this pod that has not ended, "+
			"including those of an earlier incarnation: %d and %d", len(p.facts.Busy), len(p.lanes))
	}
	return p.objects.Check()
}

// Start implements kernel.Behavior.
func (p *pod) Start(ctx *kernel.Context[Message]) {
	p.facts.Cgroup.Own = p.deps.EnsureCgroup != nil
	for _, e := range ctx.InFlight() {
		switch a := e.Tag.(type) {
		case podplan.ObservePod:
			// What it sees may be older than the predecessor's last action. An inspection of this
			// incarnation follows.
			ctx.Cancel(e.ID)
		case podplan.Effect:
			p.facts.Inherit(a, e.Since)
			p.lanes.Set(e.ID, a.Lane())
		}
	}
	if ctx.Incarnation() > 1 {
		p.deps.Ask(Ask{UID: p.uid})
	} // else the assignment is on its way
}

// Receive implements kernel.Behavior.
func (p *pod) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Assign:
		p.assign(ctx, m)
	case Renewed:
		if p.want != nil {
			p.want = m.Pod
		}
		return // the message changes nothing in the plan
	case RuntimeHint:
		p.hinted = p.hinted || p.want == nil
		if !p.facts.Hint(m.ID, m.Kind) {
			return
		}
	case RuntimeSeen:
		p.facts.Relisted(m.View, m.Listed, ctx.Now())
		if p.life == podlife.Terminated {
			p.facts.Appeared(m.View)
		}
	case ImageAnswer:
		p.image(m)
	case VolumesAnswer:
		p.volumes(m)
	case ObjectsAnswer:
		p.objectsSeen(ctx, m)
	case CgroupAnswer:
		p.facts.Cgroup = m.Cgroup
	case ClaimsAnswer:
		p.facts.Claims = m.Claims
	case Probed:
		p.heard(m)
	case Noted:
		p.facts.NoteWritten(m.Container, m.ID)
	case ActionDone:
		p.done(ctx, m)
	case AskAgain:
		p.askAgain(ctx)
	case Repeat:
		p.repeat()
	case RuntimeBack:
		p.facts.RuntimeBack()
	case Wake:
		p.wake.Fired()
	}
	p.plan(ctx)
	p.pullSecrets = nil
}

// Overflowed implements kernel.OverflowHandler: it inspects everything and asks again.
func (p *pod) Overflowed(ctx *kernel.Context[Message]) {
	p.facts.Doubt()
	p.askAgain(ctx)
	p.deps.Ask(Ask{UID: p.uid})
}

func (p *pod) assign(ctx *kernel.Context[Message], m Assign) {
	old, first := p.want, p.want == nil
	p.want, p.origin, p.rank, p.first = m.Pod, m.Origin, m.Rank, m.FirstSandbox
	for name, n := range m.RestartNotes { // order-free: each on its own
		p.facts.Recall(name, n)
	}
	if old != nil && p.facts.Claims.Is(claims.Pending) && !claims.Same(old, p.want) {
		p.facts.Claims = nil // asked once more
	}
	p.resized(ctx, old, m.Resized)
	if m.Placement != nil {
		p.placement = m.Placement
	}
	if m.Machine != nil {
		p.machine = *m.Machine
	}
	if p.status == nil {
		p.status = m.Status
	}
	if first && m.View != nil && len(p.facts.Busy) == 0 && !p.hinted {
		p.facts.Adopt(*m.View)
	}
	if m.Stop == nil {
		if p.otherObjects(old) {
			p.needObjects(ctx)
		}
		if old != nil && old != p.want && len(p.facts.Failures) > 0 && madeOtherwise(old, p.want) {
			p.configAgain() // as a kubelet syncs a pod that has changed
		}
		p.writeAgain(ctx, old)
		return
	}
	stop := *m.Stop
	switch {
	case p.life == podlife.Terminated: // it has ended: nothing else can be why
		stop = p.stop.Shortened(stop)
	case p.stop != nil:
		stop = p.stop.Merged(stop)
	}
	p.stop = &stop
	p.giveUpStarts(ctx)
	p.become(ctx, podlife.StopWanted)
}

// giveUpStarts cancels starts that still wait for a slot.
func (p *pod) giveUpStarts(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if !p.lanes.Has(e.ID) || e.Phase != kernel.EffectQueued {
			continue
		}
		switch a := e.Tag.(type) {
		case podplan.RunSandbox, podplan.CreateContainer, podplan.StartContainer:
			ctx.Cancel(e.ID)
			p.lanes.Delete(e.ID)
			p.facts.GiveUp(a.(podplan.Effect))
		}
	}
}

func (p *pod) become(ctx *kernel.Context[Message], e podlife.Event) {
	next := podlife.Next(p.life, e)
	if next != p.life {
		ctx.Log().Debug().Str("pod", p.name()).Stringer("from", p.life).Stringer("to", next).Stringer("event",
			e).Msg("pod lifecycle")
		if p.life == podlife.Syncing {
			p.deps.ForgetImages(p.uid) // no container is made any more
		}
		p.life = next
	}
}

func (p *pod) name() string {
	if p.want == nil {
		return string(p.uid)
	}
	return p.want.Namespace + "/" + p.want.Name
}

// image takes in the answer of images. One to what was asked ahead of a container's turn does not count any more when
// it is its turn, nor the other way round.
func (p *pod) image(m ImageAnswer) {
	if m.Image.Ahead != p.facts.Images.At(m.Container).Ahead {
		return
	}
	p.facts.Images.Set(m.Container, m.Image)
	p.images.Set(m.Container, m.Info)
}

func (p *pod) volumes(m VolumesAnswer) {
	if p.want == nil {
		return // an answer to an earlier incarnation, which may have known less of the pod's objects
	}
	p.facts.Volumes = m.Volumes
	p.paths = m.Paths
	if m.Volumes.State == volumeplan.Up && !allThere(&p.want.Spec, m.Paths) {
		p.facts.Volumes.State = volumeplan.Pending // it is of an older version of the pod
	}
}

// allThere says whether all volumes that a pod uses have a path.
func allThere(spec *v1.PodSpec, paths smallmap.Map[string, string]) bool {
	path := paths.Index()
	for v := range podspec.Volumes(spec) {
		if _, there := path(v.Name); !there {
			return false
		}
	}
	return true
}

// askAgain repeats all requests that have no answer yet, and what objects the pod uses.
func (p *pod) askAgain(ctx *kernel.Context[Message]) {
	p.needObjects(ctx)
	p.facts.AskAgain()
	if p.probed != nil {
		p.probed.told = false
	}
}

// repeat reports everything to podset again.
func (p *pod) repeat() {
	p.sent, p.inPlace = nil, 0
	switch {
	case p.want == nil:
		p.deps.Ask(Ask{UID: p.uid})
	case p.finished:
		p.finish()
	}
	for _, name := range slices.Sorted(maps.Keys(p.facts.RestartNotes)) {
		if n := p.facts.RestartNotes[name]; !n.Written {
			p.deps.NoteRestart(NoteRestart{UID: p.uid, Container: name, Note: n})
		}
	}
}

// finish tells podset that the pod has ended.
func (p *pod) finish() {
	next := p.first
	for i := range p.facts.View.Sandboxes {
		next = max(next, p.facts.View.Sandboxes[i].Attempt+1)
	}
	p.deps.Finished(Finished{UID: p.uid, FirstSandbox: p.first, NextSandbox: next})
}
