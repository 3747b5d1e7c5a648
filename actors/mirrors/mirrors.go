// Package mirrors is the actor that keeps one mirror pod in the apiserver for each
// static pod of this node, and tells status which mirror belongs to which pod.
//
//	podset ──Statics──► mirrors ◄──Found── apipods      nodestatus ──NodeSeen──► mirrors
//	mirrors ──Create, Delete──► apiserver
//	mirrors ──Object, Gone──► status ──Outlived──► mirrors
//
// A mirror that is outdated, that has ended while its pod runs, or that a client deletes, is
// deleted and created again. A mirror without a static pod is deleted. After a restart the actor requests all its
// facts again.
package mirrors

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Message is what the mirrors actor understands.
//
//sumtype:decl
type Message interface{ isMirrorsMessage() }

// Statics are the static pods of this node, in order of age. Published by podset. Seen is false while
// others may follow.
type Statics struct {
	Seen bool
	Pods []apipod.StaticPod
}

// Found are all mirror pods of this node that the apiserver has. From apipods.
// The newest counts. Listed: they are from a list.
type Found struct {
	Mirrors []*v1.Pod
	Listed  bool
}

// NodeSeen is this node's object, which owns its mirrors. Published by nodestatus.
type NodeSeen struct{ Node *v1.Node }

// Outlived says that the static pod of a mirror runs, but the mirror has ended. From status. Late: that mirror is
// gone. Lost: repeated with the next Object.
type Outlived struct{ Mirror types.UID }

// Resend asks for all Objects again. From status, which restarted.
type Resend struct{}

// done is the result of a call about one mirror. Late: ignored.
type done struct {
	id   kernel.EffectID
	name string
	what apipod.MirrorVerb
	err  error
}

// due is this actor's own timer.
type due struct{}

func (Statics) isMirrorsMessage()  {}
func (Found) isMirrorsMessage()    {}
func (NodeSeen) isMirrorsMessage() {}
func (Outlived) isMirrorsMessage() {}
func (Resend) isMirrorsMessage()   {}
func (done) isMirrorsMessage()     {}
func (due) isMirrorsMessage()      {}

// MailboxKey implements kernel.Keyed.
func (Found) MailboxKey() string { return "" }

// API is what the actor uses of port.API.
type API interface {
	Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
	Delete(ctx context.Context, d port.APIDelete, done func(error))
}

// Deps are what the actor needs.
type Deps struct {
	API API
	// Object and Gone go to status: uid is the static pod's. listed: it is from a list. restored: this
	// version is older than the one before, because the apiserver was restored from a backup.
	Object func(uid types.UID, mirror *v1.Pod, listed, restored bool)
	Gone   func(uid, mirror types.UID)
	// Restarted is called when an incarnation after the first begins, or when messages were
	// missed: everything must be sent again.
	Restarted func()
	Backoff   backoff.Policy
	Deadline  time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &mirrors{deps: deps, outlived: map[types.UID]bool{}, calls: map[string]*call{}}
	}
}

type mirrors struct {
	deps *Deps
	// statics must have a mirror. They are complete if seen is true.
	statics []*v1.Pod
	seen    bool
	// found is true once the mirrors in the apiserver are known.
	found   bool
	mirrors []*v1.Pod
	// listed: a list of them came since status was told.
	listed bool
	// outlived are mirrors that have ended while their static pods run.
	outlived map[types.UID]bool
	node     *v1.Node
	// calls are by name; told is what status was sent, ordered by name.
	calls map[string]*call
	told  []apipod.MirrorPair
	timer kernel.Alarm[Message]
}

// call is the running or last call for one name.
type call struct {
	kernel.Call
	// before is the mirror from before the call. While the watch still reports that one, the next
	// call waits, at most until then.
	before   *v1.Pod
	until    time.Time
	failures int
}

// echo is how long the watch may take to report a change before the change is made again.
const echo = 10 * time.Second

// Start implements kernel.Behavior.
func (*mirrors) Start(*kernel.Context[Message]) {}

// Resync implements kernel.Resyncer.
func (a *mirrors) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *mirrors) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Statics:
		a.statics, a.seen = apipod.Mirrored(m.Pods), m.Seen
	case Found:
		a.found, a.mirrors, a.listed = true, m.Mirrors, a.listed || m.Listed
	case NodeSeen:
		a.node = m.Node
	case Outlived:
		a.outlived[m.Mirror] = true
	case Resend:
		a.told = nil
	case done:
		a.done(ctx, m)
	case due:
		a.timer.Fired()
	}
	if a.found {
		a.advance(ctx)
	}
}

// advance makes the next calls, and sends status the mirrors that are up to date.
func (a *mirrors) advance(ctx *kernel.Context[Message]) {
	var stand []apipod.MirrorPair
	var wake time.Time
	calls := make(map[string]*call, len(a.calls))
	if len(a.outlived) > 0 {
		there := make(map[types.UID]bool, len(a.mirrors))
		for _, m := range a.mirrors {
			there[m.UID] = true
		}
		maps.DeleteFunc(a.outlived, func(uid types.UID, _ bool) bool { return !there[uid] })
	}
	for _, p := range apipod.MirrorPairs(a.statics, a.mirrors, a.outlived) {
		if p.Stands() {
			stand = append(stand, p)
		}
		namespace, name := p.Name()
		what, full := p.Do(a.seen), namespace+"/"+name
		c := a.calls[full]
		if c != nil && !c.Busy() && (what == apipod.KeepMirror || c.failures == 0 && c.before != p.Mirror) {
			c = nil // the watch has reported it
		}
		switch {
		case what == apipod.KeepMirror, what == apipod.CreateMirror && a.node == nil, c != nil && c.Busy():
		case c != nil && ctx.Now().Before(c.until):
			if wake.IsZero() || c.until.Before(wake) {
				wake = c.until
			}
		default:
			if c == nil {
				c = &call{}
			}
			a.call(ctx, full, what, p, c)
		}
		if c != nil {
			calls[full] = c
		}
	}
	a.calls = calls // drops calls for other names
	a.tell(stand)
	a.timer.SetAt(ctx, wake, due{})
}

// tell sends status the mirrors that are up to date, and those that no longer are.
func (a *mirrors) tell(stand []apipod.MirrorPair) {
	static := func(p *apipod.MirrorPair) types.UID { return p.Static.UID }
	now, before := smallmap.LookupIn(stand, static), smallmap.LookupIn(a.told, static)
	for i, old := range a.told {
		if at := now.Place(old.Static.UID, i); at < 0 || stand[at].Mirror.UID != old.Mirror.UID {
			a.deps.Gone(old.Static.UID, old.Mirror.UID)
		}
	}
	for i, p := range stand {
		at := before.Place(p.Static.UID, i)
		if at < 0 || a.listed || a.told[at].Mirror != p.Mirror {
			a.deps.Object(p.Static.UID, p.Mirror, a.listed, at >= 0 && apipod.Restored(a.told[at].Mirror, p.Mirror))
		}
	}
	a.told, a.listed = stand, false
}

// call creates or deletes a mirror.
func (a *mirrors) call(
	ctx *kernel.Context[Message], full string, what apipod.MirrorVerb, p apipod.MirrorPair, c *call,
) {
	c.before = p.Mirror
	kind := "CreateMirrorPod"
	var run func(context.Context, func(error))
	if what == apipod.CreateMirror {
		mirror := apipod.NewMirror(p.Static, a.node)
		run = func(cc context.Context, answer func(error)) {
			a.deps.API.Create(cc, mirror, func(_ port.APIObject, err error) { answer(err) })
		}
	} else {
		kind = "DeleteMirrorPod"
		d := port.APIDelete{Key: port.APIKey{Kind: port.PodKind, Namespace: p.Mirror.Namespace, Name: p.Mirror.Name},
			UID: p.Mirror.UID, Grace: new(int64)}
		run = func(cc context.Context, answer func(error)) { a.deps.API.Delete(cc, d, answer) }
	}
	c.Begin(portcall.Do0(ctx, kernel.Effect[Message]{Kind: kind, Object: full, Lane: full, Deadline: a.deps.Deadline}, run,
		func(id kernel.EffectID, err error) Message { return done{id, full, what, err} }))
}

func (a *mirrors) done(ctx *kernel.Context[Message], m done) {
	c := a.calls[m.name]
	if c == nil || !c.Take(m.id) {
		return
	}
	if m.err == nil || m.what == apipod.DeleteMirror && port.KindOf(m.err) == port.NotFound {
		c.failures, c.until = 0, ctx.Now().Add(echo)
		return
	}
	c.failures++
	wait := backoff.Retry(a.deps.Backoff, c.failures)
	c.until = ctx.Now().Add(wait/2 + time.Duration(ctx.Rand().Int64N(int64(wait/2)+1)))
	log := ctx.Log().Debug()
	if c.failures == 1 {
		log = ctx.Log().Warn()
	}
	log.Str("pod", m.name).Str("error",
		m.err.Error()).Msg("cannot create or delete the mirror pod of a static pod; retrying")
}
