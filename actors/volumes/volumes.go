// Package volumes is the actor that brings the volumes of pods up and down.
// Each volume has a lane of its own: one that hangs delays only its own pod.
//
//	pod ──Mount, Unmount──► volumes ──PreparePod, MountVolume, UnmountPod──► host
//	pod ◄──VolumesAnswer── volumes
//
// After a restart it knows nothing; pods are told to ask again, and what
// stands already is found standing (port.Host is idempotent).
package volumes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/flat"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the volumes actor understands.
//
//sumtype:decl
type Message interface{ isVolumesMessage() }

// Mount is a pod's wish for all its volumes. Twice: answered twice.
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
	err    error
}

// again is this actor's own timer for one pod.
type again struct{ uid types.UID }

// missed is this actor's own timer, after its mailbox was full.
type missed struct{}

func (missed) isVolumesMessage()  {}
func (Mount) isVolumesMessage()   {}
func (Unmount) isVolumesMessage() {}
func (done) isVolumesMessage()    {}
func (again) isVolumesMessage()   {}

// step is what an effect does.
type step uint8

const (
	prepare step = iota
	mount
	unmount
)

func (s step) String() string {
	return [...]string{"PreparePod", "MountVolume", "UnmountPod"}[s]
}

// Deps are what the actor is connected to.
type Deps struct {
	Host   port.Host
	Events port.Recorder
	// Restarted is called when an incarnation after the first begins.
	Restarted func()
	Backoff   backoff.Policy
	// Deadline bounds one call. A mount that takes longer goes on being waited for.
	Deadline time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &volumes{deps: deps, pods: map[types.UID]*volumed{}} }
}

type volumes struct {
	deps *Deps
	pods map[types.UID]*volumed
}

// volumed is one pod's share.
type volumed struct {
	pod   *v1.Pod
	reply kernel.Ref[pod.Message]
	// down: it is being taken down, and nothing is brought up any more.
	down     bool
	prepared bool
	paths    flat.Map[string, string] // by name of the volume
	running  flat.Map[call, kernel.EffectID]
	failures flat.Map[call, failure]
	// retry is the one timer of this pod, and when it fires.
	retry   func() bool
	retryAt time.Time
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
}

// Start implements kernel.Behavior.
func (a *volumes) Start(ctx *kernel.Context[Message]) {
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
	}
}

// Overflowed implements kernel.OverflowHandler: wishes were lost, and are asked
// for again as after a restart, but not while there is no room for them.
func (a *volumes) Overflowed(ctx *kernel.Context[Message]) { ctx.After(100*time.Millisecond, missed{}) }

// Receive implements kernel.Behavior.
func (a *volumes) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case missed:
		a.deps.Restarted()
	case Mount:
		p := a.get(m.Pod.UID)
		p.pod, p.reply = m.Pod, m.ReplyTo
		a.advance(ctx, m.Pod.UID)
	case Unmount:
		p := a.get(m.UID)
		p.reply, p.down = m.ReplyTo, true
		a.advance(ctx, m.UID)
	case done:
		a.done(ctx, m)
	case again:
		if p := a.pods[m.uid]; p != nil {
			p.retry = nil
			a.advance(ctx, m.uid)
		}
	}
}

func (a *volumes) get(uid types.UID) *volumed {
	p := a.pods[uid]
	if p == nil {
		p = &volumed{}
		a.pods[uid] = p
	}
	return p
}

// advance begins what can begin now, and tells the pod how far it is.
func (a *volumes) advance(ctx *kernel.Context[Message], uid types.UID) {
	p := a.pods[uid]
	switch {
	case p.down:
		// Not while a mount is under way, that of a predecessor included: it would
		// come up behind our back.
		if !mounting(ctx, uid) {
			a.begin(ctx, uid, unmount, nil)
		}
	case !p.prepared:
		a.begin(ctx, uid, prepare, nil)
	default:
		for i := range p.pod.Spec.Volumes {
			v := &p.pod.Spec.Volumes[i]
			if !p.paths.Has(v.Name) {
				a.begin(ctx, uid, mount, v)
			}
		}
	}
	a.tell(p)
}

// mounting says whether something of a pod is being brought up.
func mounting(ctx *kernel.Context[Message], uid types.UID) bool {
	for _, e := range ctx.InFlight() {
		if t, ok := e.Tag.(tag); ok && t.uid == uid && t.what != unmount {
			return true
		}
	}
	return false
}

// tag is what an effect is for, to a later incarnation.
type tag struct {
	uid  types.UID
	what step
}

// begin starts one effect, unless it runs already or waits for its next try.
func (a *volumes) begin(ctx *kernel.Context[Message], uid types.UID, what step, v *v1.Volume) {
	p := a.pods[uid]
	name := ""
	if v != nil {
		name = v.Name
	}
	key := call{what, name}
	if p.running.Has(key) {
		return
	}
	if f, failed := p.failures.Get(key); failed {
		if wait := f.at.Add(backoff.Retry(a.deps.Backoff, f.count)).Sub(ctx.Now()); wait > 0 {
			p.wake(ctx, uid, ctx.Now().Add(wait))
			return
		}
	}
	w := p.pod
	p.running.Set(key, ctx.Do(kernel.Effect[Message]{
		Kind: what.String(), Object: object(w, uid, name), Lane: what.String() + "/" + string(uid) + "/" + name, Tag: tag{uid, what}, Deadline: a.deps.Deadline,
		Run: func(c context.Context, id kernel.EffectID, answer func(Message)) {
			d := done{id: id, uid: uid, what: what, volume: name}
			finish := func(err error) { d.err = err; answer(d) }
			switch what {
			case prepare:
				a.deps.Host.PreparePod(c, w, finish)
			case mount:
				a.deps.Host.MountVolume(c, w, v, func(path string, err error) { d.path = path; finish(err) })
			case unmount:
				a.deps.Host.UnmountPod(c, uid, finish)
			}
		},
		Expired: func(id kernel.EffectID) Message {
			return done{id: id, uid: uid, what: what, volume: name, err: &port.Error{
				Kind: port.Deadline, Verb: what.String(), Object: object(w, uid, name),
				Detail: fmt.Sprintf("the file system did not answer within %v", a.deps.Deadline),
			}}
		},
	}))
}

// wake sets the pod's timer, unless it fires before anyway.
func (p *volumed) wake(ctx *kernel.Context[Message], uid types.UID, at time.Time) {
	if p.retry != nil {
		if !at.Before(p.retryAt) {
			return
		}
		p.retry()
	}
	p.retryAt = at
	p.retry = ctx.After(at.Sub(ctx.Now()), again{uid})
}

func object(w *v1.Pod, uid types.UID, volume string) string {
	s := string(uid)
	if w != nil {
		s = w.Namespace + "/" + w.Name
	}
	if volume != "" {
		s += " " + volume
	}
	return s
}

func (a *volumes) done(ctx *kernel.Context[Message], m done) {
	p := a.pods[m.uid]
	if p == nil {
		return // taken down meanwhile
	}
	key := call{m.what, m.volume}
	if p.running.At(key) != m.id {
		// Late, or of a predecessor: what it did is found by the one that is asked for next.
		a.advance(ctx, m.uid)
		return
	}
	p.running.Delete(key)
	if m.err != nil {
		f := p.failures.At(key)
		f.count++
		f.at, f.message = ctx.Now(), m.err.Error()
		p.failures.Set(key, f)
		if p.pod != nil {
			reason := "FailedMount"
			if m.what == unmount {
				reason = "FailedUnMount"
			}
			a.deps.Events.Record(port.Event{Pod: p.pod, Warning: true, Reason: reason, Message: f.message, At: ctx.Now()})
		}
		a.advance(ctx, m.uid)
		return
	}
	p.failures.Delete(key)
	switch m.what {
	case prepare:
		p.prepared = true
	case mount:
		p.paths.Set(m.volume, m.path)
	case unmount:
		if p.retry != nil {
			p.retry()
		}
		delete(a.pods, m.uid)
		p.reply.Tell(pod.VolumesAnswer{Volumes: podplan.Volumes{State: podplan.VolumesDown, Unmounted: true}})
		return
	}
	a.advance(ctx, m.uid)
}

// tell says how far the pod's volumes are.
func (a *volumes) tell(p *volumed) {
	v := podplan.Volumes{State: podplan.VolumesPending, Going: p.down}
	if !p.down && p.prepared && !slices.ContainsFunc(p.pod.Spec.Volumes, func(v v1.Volume) bool { return p.paths.At(v.Name) == "" }) {
		v.State = podplan.VolumesUp
	}
	if len(p.failures) > 0 {
		v.State = podplan.VolumesFailed
		var all []string
		for _, f := range p.failures {
			all = append(all, f.Value.message)
		}
		slices.SortFunc(all, cmp.Compare[string])
		v.Message = strings.Join(all, "; ")
	}
	p.reply.Tell(pod.VolumesAnswer{Volumes: v, Paths: p.paths.Clone()})
}
