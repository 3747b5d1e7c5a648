package pods

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Deps are what the actor needs.
type Deps struct {
	Pod *pod.Deps
	// Begun answers Begin. old: the actor was there before.
	Begun func(c Child, old bool)
	// Restarted is called when an incarnation after the first begins: no pod has an actor. Missed is called then, and
	// some time after messages to this actor were dropped: podset asks for List and sends again what is not done.
	Restarted, Missed func()
	// Wrap may replace the behavior of a pod's actor, for tests with faults.
	Wrap func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message]
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &pods{deps: deps, of: map[types.UID]*child{}} }
}

type pods struct {
	deps *Deps
	of   map[types.UID]*child
}

// child is the actor of a pod until its name is free again.
//
//	(none) ──Begin──► lives ──End──► ending ──stopped──► (none)
//	lives, ending ──Begin (of another life)──► replaced ──stopped──► lives
//	replaced ──End──► ending
type child struct {
	Child
	state state
	// next is who gets the name of one that is replaced.
	next Begin
}

type state uint8

const (
	lives state = iota
	ending
	replaced
)

// Start implements kernel.Behavior.
func (a *pods) Start(ctx *kernel.Context[Message]) {
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
	}
}

// Resync implements kernel.Resyncer.
func (a *pods) Resync(*kernel.Context[Message]) { a.deps.Missed() }

// Receive implements kernel.Behavior.
func (a *pods) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Begin:
		a.begin(ctx, m)
	case End:
		if c := a.of[m.UID]; c != nil {
			c.become(ctx, ending)
		}
	case List:
		m.Reply(a.list())
	case Hint:
		if c := a.of[m.Event.Pod.UID]; c != nil && c.state == lives {
			c.Ref.Tell(pod.RuntimeHint{ID: m.Event.ContainerID, Kind: m.Event.Kind})
		}
	case RuntimeBack:
		for _, c := range a.list() {
			c.Ref.Tell(pod.RuntimeBack{})
		}
	}
}

// begin starts the actor of a pod, or has it started when the name is free.
func (a *pods) begin(ctx *kernel.Context[Message], m Begin) {
	c := a.of[m.Pod.UID]
	switch {
	case c == nil:
		a.spawn(ctx, m)
	case c.state == lives && c.Life == m.Life:
		a.deps.Begun(c.Child, true)
	default:
		c.next = m
		c.become(ctx, replaced)
	}
}

func (a *pods) spawn(ctx *kernel.Context[Message], m Begin) {
	p := m.Pod
	construct := pod.New(p.UID, a.deps.Pod)
	if a.deps.Wrap != nil {
		construct = a.deps.Wrap(p, construct)
	}
	ref, err := kernel.Spawn(ctx, kernel.Spec[pod.Message]{
		Name: string(p.UID), Kind: "pod", Label: p.Namespace + "/" + p.Name, New: construct, Policy: kernel.ForPods,
	})
	if err != nil { // its UID can't be the name of an actor
		ctx.Log().Error().Str("pod", p.Namespace+"/"+p.Name).Str("error", err.Error()).
			Msg("cannot start the actor of this pod, which does not start; give it another UID")
		return
	}
	of := observed.PodRef{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	c := &child{Child: Child{Pod: of, Ref: ref, Life: m.Life}}
	a.of[p.UID] = c
	a.deps.Begun(c.Child, false)
}

// become stops the actor of a pod, and says what comes after it.
func (c *child) become(ctx *kernel.Context[Message], next state) {
	if c.state == lives {
		kernel.StopChild(ctx, c.Ref)
	}
	c.state = next
}

// ChildStopped implements kernel.ChildWatcher: a name is free again.
func (a *pods) ChildStopped(ctx *kernel.Context[Message], name string) {
	c := a.of[types.UID(name)]
	if c == nil {
		return
	}
	delete(a.of, c.Pod.UID)
	if c.state == replaced {
		a.spawn(ctx, c.next)
	}
}

// list is the pods that have an actor, in order of their UIDs.
func (a *pods) list() []Child {
	all := make([]Child, 0, len(a.of))
	for _, uid := range slices.Sorted(maps.Keys(a.of)) {
		if c := a.of[uid]; c.state == lives {
			all = append(all, c.Child)
		}
	}
	return all
}
