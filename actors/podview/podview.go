// Package podview is the actor that answers questions about the pods of this node: from `troupe pods`,
// metrics, the log rotation, and servers that look up the pod of a request.
//
//	anyone ──Query, Find, FindHolding, VolumeImages──► podview ──ask──► podset ──Inventory──► podview ──Reply──► anyone
//	podset ──Started──► podview ──► metrics
//
// The actor keeps no state: a question comes back with the answer of podset. So a restart loses
// only the current message, and its sender gives up waiting. It is not a parent and pods does not
// wait for it, so a panic here stops no pod.
package podview

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
)

// Message is what the podview actor understands.
//
//sumtype:decl
type Message interface{ isPodviewMessage() }

// Query asks for the view of all pods. Reply must not block. Lost: the sender gives up waiting.
type Query struct{ Reply func(View) }

// Find asks for the pods of a name, the newest first: one may be stopping while its replacement
// starts. An empty name asks for all. Each has the newest status known here. Pods that no source
// has are not included. From servers that handle requests about pods, and from logs. Reply must
// not block, and must not change the pods. Lost: the sender gives up waiting.
type Find struct {
	Namespace, Name string
	Reply           func([]*v1.Pod)
}

// FindHolding is Find for all pods. Holding are the UIDs of those of which something runs or is mounted. From eviction.
type FindHolding struct {
	Reply func(all []*v1.Pod, holding map[types.UID]bool)
}

// VolumeImages asks for the images whose files the living pods have as volumes, by the names in their specs. From
// images. all is false while a pod may live here that is not known yet, since the agent or pods started. Reply must not
// block. Lost: the sender gives up waiting.
type VolumeImages struct {
	Reply func(names []string, all bool)
}

// Started is from podset: all containers of a pod have started for the first time. Lost: not
// counted.
type Started struct{ podset.Started }

// answered is the answer of podset to a question. Lost, late or twice: as the question.
type answered struct {
	question Message
	podset.Inventory
}

func (Query) isPodviewMessage()        {}
func (Find) isPodviewMessage()         {}
func (FindHolding) isPodviewMessage()  {}
func (VolumeImages) isPodviewMessage() {}
func (Started) isPodviewMessage()      {}
func (answered) isPodviewMessage()     {}

// Policy answers crashes of this actor. Only questions make it crash, so it restarts soon. It
// never escalates, because that would stop the node's other actors.
var Policy = kernel.Policy{
	Base: 10 * time.Millisecond, Max: time.Second,
	Restarts: 5, Window: time.Minute, Beyond: kernel.Quarantine, Retry: time.Second,
}

// Counts is told of pods that have started, for metrics. It must not block.
type Counts interface{ Started(podset.Started) }

// Deps are what the actor needs.
type Deps struct {
	NodeName string
	// Ask asks podset for its Inventory. It must not block.
	Ask func(podset.Query)
	// Counts is nil for none.
	Counts Counts
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &podview{deps} }
}

type podview struct{ deps *Deps }

// Start implements kernel.Behavior.
func (*podview) Start(*kernel.Context[Message]) {}

// Receive implements kernel.Behavior.
func (a *podview) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Query, Find, FindHolding, VolumeImages:
		self := ctx.Self()
		q := podset.Query{Reply: func(i podset.Inventory) { self.Tell(answered{m, i}) }}
		if of, is := m.(Find); is {
			q.Namespace, q.Name = of.Namespace, of.Name
		}
		a.deps.Ask(q)
	case Started:
		if a.deps.Counts != nil {
			a.deps.Counts.Started(m.Started)
		}
	case answered:
		a.answer(ctx, m)
	}
}

// answer answers a question from the state of podset.
func (a *podview) answer(ctx *kernel.Context[Message], m answered) {
	switch q := m.question.(type) {
	case Query:
		doing := func(p *podset.Fact) []kernel.EffectInfo { return kernel.EffectsOf(ctx, p.Ref) }
		q.Reply(viewOf(a.deps.NodeName, m.Inventory, doing))
	case Find:
		q.Reply(find(m.Pods, q.Namespace, q.Name))
	case FindHolding:
		q.Reply(find(m.Pods, "", ""), holding(m.Pods))
	case VolumeImages:
		q.Reply(volumeImages(m.Pods), m.Complete())
	case Started, answered: // no questions
	}
}
