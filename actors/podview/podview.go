// Package podview is the actor that answers questions about the pods of this node: from `troupe pods`,
// metrics, the log rotation, and servers that look up the pod of a request.
//
//	anyone ──Query, Find──► podview ──ask──► pods ──Inventory──► podview ──Reply──► anyone
//	pods ──Started──► podview ──► metrics
//
// The actor keeps nothing: the question comes back with the answer of pods. So a restart loses only the
// message in hand, and whoever asked gives up waiting. It is not a parent and pods does not wait for it, so
// a panic here stops no pod.
package podview

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pods"
)

// Message is what the podview actor understands.
//
//sumtype:decl
type Message interface{ isPodviewMessage() }

// Query asks for what people are shown. Reply must not block. Lost: whoever asks gives up waiting.
type Query struct{ Reply func(View) }

// Find asks for the pods of a name, the newest first: there may be one that is stopping and one that
// takes its place. Without a name it asks for all. Each has the status that is known of it here. Pods that
// no source has are not among them. From servers that handle requests about pods, and from logs. Reply must
// not block, and nobody changes what the pods point at. Lost: whoever asks gives up waiting.
type Find struct {
	Namespace, Name string
	Reply           func([]*v1.Pod)
}

// Started is from pods: all containers of a pod have been started for the first time. Lost: it is not
// counted.
type Started struct{ pods.Started }

// answered is what pods said to a question. Lost, late or twice: as the question.
type answered struct {
	question Message
	pods.Inventory
}

func (Query) isPodviewMessage()    {}
func (Find) isPodviewMessage()     {}
func (Started) isPodviewMessage()  {}
func (answered) isPodviewMessage() {}

// Policy answers crashes of this actor. Only questions make it crash, so it is tried again soon, and it
// never escalates: that would stop the node's other actors.
var Policy = kernel.Policy{
	Base: 10 * time.Millisecond, Max: time.Second,
	Restarts: 5, Window: time.Minute, Beyond: kernel.Quarantine, Retry: time.Second,
}

// Deps are what the actor is connected to.
type Deps struct {
	NodeName string
	// Ask asks pods for all that it knows. It must not block.
	Ask func(reply func(pods.Inventory))
	// Started, if set, is told of each pod that was started. It must not block.
	Started func(pods.Started)
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
	case Query, Find:
		self := ctx.Self()
		a.deps.Ask(func(i pods.Inventory) { self.Tell(answered{m, i}) })
	case Started:
		if a.deps.Started != nil {
			a.deps.Started(m.Started)
		}
	case answered:
		a.answer(ctx, m)
	}
}

// answer turns what pods knows into what was asked for.
func (a *podview) answer(ctx *kernel.Context[Message], m answered) {
	switch q := m.question.(type) {
	case Query:
		doing := func(p *pods.Fact) []kernel.EffectInfo { return kernel.EffectsOf(ctx, p.Ref) }
		q.Reply(viewOf(a.deps.NodeName, m.Inventory, doing))
	case Find:
		q.Reply(find(m.Pods, q.Namespace, q.Name))
	case Started, answered: // no questions
	}
}
