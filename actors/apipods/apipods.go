// Package apipods is the actor that watches the pods of this node in the apiserver.
//
//	apiserver ──Watch──► apipods ──Update, Renewed, Forced──► podset
//	                     apipods ──Object, Objects, Gone──► status
//	                     apipods ──Mirrors──► mirrors
//
// An update that needs no work on the node, such as the echo of a status that the
// node wrote, is sent only to status. A terminal version is also sent to podset, so that
// the older version can be freed. After a restart the actor starts its watch again.
// After a restart of podset, status or mirrors they request all pods again.
package apipods

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/status"
)

// Message is what the apipods actor understands.
//
//sumtype:decl
type Message interface{ isAPIPodsMessage() }

// Resend asks for everything again. From podset, status and mirrors, which
// restarted. Twice: told twice.
type Resend struct{}

// told is what a watch tells. In order, and none is lost: one that does not fit
// into the mailbox makes the actor watch again. Of another watch: late.
type told struct {
	id     kernel.EffectID
	change port.APIChange
}

// ended says that a watch ended.
type ended struct {
	id  kernel.EffectID
	err error
}

// reopen is this actor's own timer for the next watch.
type reopen struct{}

// unheard is this actor's own timer for a watch that says nothing.
type unheard struct{ id kernel.EffectID }

func (Resend) isAPIPodsMessage()  {}
func (told) isAPIPodsMessage()    {}
func (ended) isAPIPodsMessage()   {}
func (reopen) isAPIPodsMessage()  {}
func (unheard) isAPIPodsMessage() {}

// Deps are what the actor is connected to.
type Deps struct {
	API      portcall.Watcher
	NodeName string
	// Update is where the pods that this node is to run go.
	Update func(sources.Update)
	// Renewed is told of a version that asks nothing new of the node, if it shows
	// that the pod has come further: what is told then is what it stays at.
	Renewed func(*v1.Pod)
	// Forced is told of a pod that was deleted by force.
	Forced func(types.UID)
	// Object is told of each version of each pod, Objects of those of all pods at once: there may be more than a mailbox
	// has places. Gone is told of pods that were removed.
	Object  func(status.Object)
	Objects func(status.Objects)
	Gone    func(types.UID)
	// Mirrors is told of all pods that stand for static ones, when they changed and after each list.
	Mirrors func(all []*v1.Pod, listed bool)
	// Retry is the time until a watch that ended is begun again, Patience until
	// one that says nothing at all is given up for another.
	Retry, Patience time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &apipods{deps: deps} }
}

type apipods struct {
	deps *Deps
	// watch is the watch that counts, watches how many there were, and heard the
	// last one that said anything.
	watch   kernel.EffectID
	watches int
	heard   kernel.EffectID
	// seen is true once the apiserver told what there is. pods and mirrors are
	// that: slices that were handed out, and are never changed.
	seen          bool
	pods, mirrors []*v1.Pod
	broken        string
}

// watchKind is the name of the effect.
const watchKind = "WatchPods"

// Start implements kernel.Behavior.
func (a *apipods) Start(ctx *kernel.Context[Message]) { a.open(ctx) }

// Overflowed implements kernel.OverflowHandler: something was missed.
func (a *apipods) Overflowed(ctx *kernel.Context[Message]) { a.open(ctx) }

// open begins a watch, in place of any other.
func (a *apipods) open(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if e.Kind == watchKind {
			ctx.Cancel(e.ID)
		}
	}
	s := port.Selection{Kind: port.PodKind, Field: "spec.nodeName=" + a.deps.NodeName}
	a.watches++
	a.watch = portcall.Watch(ctx, kernel.Effect[Message]{Kind: watchKind, Object: s.Field}, a.watches, a.deps.API, s,
		func(id kernel.EffectID, change port.APIChange) Message { return told{id, change} },
		func(id kernel.EffectID, err error) Message { return ended{id, err} })
	ctx.After(a.deps.Patience, unheard{a.watch})
}

// Receive implements kernel.Behavior.
func (a *apipods) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case told:
		if m.id == a.watch {
			a.heard = m.id
			a.told(ctx, m.change)
		}
	case ended:
		if m.id == a.watch {
			ctx.After(a.deps.Retry, reopen{})
		}
	case reopen:
		a.open(ctx)
	case unheard:
		if m.id == a.watch && a.heard != a.watch {
			a.open(ctx)
		}
	case Resend:
		if a.seen {
			a.update()
			a.deps.Mirrors(a.mirrors, false)
			a.objects(nil, false)
		} // else it comes
	}
}

func (a *apipods) told(ctx *kernel.Context[Message], c port.APIChange) {
	if _, broken := c.(port.APIBroken); !broken && a.broken != "" {
		ctx.Log().Debug().Msg("the watch of pods works again")
		a.broken = ""
	}
	switch c := c.(type) {
	case port.APIReplaced:
		a.replace(c.Objects)
	case port.APISet:
		a.set(c.Object.(*v1.Pod))
	case port.APIDeleted:
		a.deleted(c.Object.(*v1.Pod))
	case port.APIBroken:
		a.broken = c.Err.Error()
		// The adapter says it for all watches together.
		ctx.Log().Debug().Str("error", a.broken).Msg("the watch of pods failed; known pods keep running")
	}
}

func (a *apipods) update() {
	a.deps.Update(sources.Update{Source: podspec.API, Seen: a.seen, Pods: a.pods})
}

// objects tells of all pods, from a list or not, of which these were known before.
func (a *apipods) objects(before []*v1.Pod, listed bool) {
	all := make([]status.Object, len(a.pods))
	for i, p := range a.pods {
		var old *v1.Pod
		if at := apipod.Index(before, p.Namespace, p.Name); at >= 0 {
			old = before[at]
		}
		all[i] = object(old, p, listed)
	}
	a.deps.Objects(status.Objects{All: all})
}

// object is a version of a pod after the one before, nil for none.
func object(old, p *v1.Pod, listed bool) status.Object {
	return status.Object{UID: p.UID, Pod: p, Listed: listed, Restored: old != nil && apipod.Restored(old, p)}
}

// replace takes over all that there is.
func (a *apipods) replace(objects []port.APIObject) {
	before := a.pods
	a.pods, a.mirrors = nil, nil
	for _, o := range objects {
		if p := o.(*v1.Pod); podspec.Mirror(p) {
			a.mirrors = append(a.mirrors, p)
		} else {
			a.pods = append(a.pods, apipod.Taken(p))
		}
	}
	a.pods, a.mirrors = apipod.Sorted(a.pods), apipod.Sorted(a.mirrors)
	a.seen = true
	for _, old := range before {
		if i := apipod.Index(a.pods, old.Namespace, old.Name); i < 0 || a.pods[i].UID != old.UID {
			a.deps.Gone(old.UID)
		}
	}
	a.objects(before, true)
	a.update()
	a.deps.Mirrors(a.mirrors, true)
}

func (a *apipods) set(p *v1.Pod) {
	if podspec.Mirror(p) {
		a.drop(&a.pods, p)
		a.mirrors, _ = apipod.Insert(a.mirrors, p)
		a.deps.Mirrors(a.mirrors, false)
		return
	}
	a.drop(&a.mirrors, p)
	p = apipod.Taken(p)
	var old *v1.Pod
	a.pods, old = apipod.Insert(a.pods, p)
	if old != nil && old.UID != p.UID {
		a.deps.Gone(old.UID)
	}
	a.deps.Object(object(old, p, false))
	switch {
	case old == nil || !apipod.Same(old, p):
		a.update()
	case old.Status.Phase != p.Status.Phase || podstatus.Ready(&old.Status) != podstatus.Ready(&p.Status):
		a.deps.Renewed(p)
	}
}

func (a *apipods) deleted(p *v1.Pod) {
	list := &a.pods
	if podspec.Mirror(p) {
		list = &a.mirrors
	}
	i := apipod.Index(*list, p.Namespace, p.Name)
	if i < 0 || (*list)[i].UID != p.UID {
		return
	}
	if list == &a.pods && apipod.Forced(p) {
		a.deps.Forced(p.UID)
	}
	a.drop(list, p)
}

// drop takes whatever has p's name off one of the two lists.
func (a *apipods) drop(list *[]*v1.Pod, p *v1.Pod) {
	i := apipod.Index(*list, p.Namespace, p.Name)
	if i < 0 {
		return
	}
	old := (*list)[i]
	*list = slices.Delete(slices.Clone(*list), i, i+1)
	if list == &a.mirrors {
		a.deps.Mirrors(a.mirrors, false)
		return
	}
	a.deps.Gone(old.UID)
	a.update()
}
