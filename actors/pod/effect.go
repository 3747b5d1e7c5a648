package pod

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// effect is how this actor makes the call of one of the plan's effects. What its begin and its end
// change in the facts is in podplan. Each is one file, which registers it (performs).
type effect interface {
	// kind is the name of the call, as an operator knows it from the CRI.
	kind() string
	// begin says how the call is made. It runs in the actor; the call does not.
	begin(p *pod) run
	// succeeded and failed tell people of the end.
	succeeded(p *pod, ctx *kernel.Context[Message])
	failed(p *pod, ctx *kernel.Context[Message], f failed)
}

// failed is how an effect failed.
type failed struct {
	kind port.ErrorKind
	// detail is what the far side said, without IDs that change from try to try.
	detail string
	// count is how often it failed in a row, 0 for an effect that is not tried again.
	count int
}

// quiet is an effect of whose success nobody is told.
type quiet struct{}

func (quiet) succeeded(*pod, *kernel.Context[Message]) {}

// run is how a call is made.
type run struct {
	deadline time.Duration
	patience time.Duration
	// pool and keeps are Pool and Keeps of the kernel's effect, idles its Idles, maxQueue its
	// MaxQueue.
	pool, keeps string
	idles       bool
	maxQueue    time.Duration
	call        func(ctx context.Context, done func(ActionDone))
}

// effects is how each type of podplan.Effect is performed.
var effects = map[reflect.Type]func(podplan.Effect) effect{}

// performs registers how effects of type E are performed. A test checks that none is missing.
func performs[E podplan.Effect](as func(E) effect) bool {
	effects[reflect.TypeFor[E]()] = func(e podplan.Effect) effect { return as(e.(E)) }
	return true
}

func effectOf(e podplan.Effect) effect {
	as, is := effects[reflect.TypeOf(e)]
	if !is {
		panic(fmt.Sprintf("actors/pod does not say how to perform %T", e))
	}
	return as(e)
}

// Deadlines of effects. They are the last resort: what a runtime needs on a
// loaded machine is far less, and slots are given back long before.
const (
	inspectDeadline = 2 * time.Minute
	sandboxDeadline = 4 * time.Minute
	startDeadline   = 4 * time.Minute
	stopSlack       = 2 * time.Minute
	stopPatience    = 5 * time.Second
	stopQueue       = 10 * time.Second // a container is asked to end no later than that, whatever others do
)

// perform begins one action of a plan.
func (p *pod) perform(ctx *kernel.Context[Message], a podplan.Action) {
	switch a := a.(type) {
	case podplan.Request:
		p.facts.Ask(a)
		p.ask(ctx, a)
	case podplan.Effect:
		p.facts.Begin(a, ctx.Now())
		p.lanes.Set(p.do(ctx, a), a.Lane())
	}
}

// do gives an effect to the kernel.
func (p *pod) do(ctx *kernel.Context[Message], a podplan.Effect) kernel.EffectID {
	e := effectOf(a)
	r := e.begin(p)
	kind, object := e.kind(), p.objectOf(e, a) // not in the closures: they run elsewhere
	return ctx.Do(kernel.Effect[Message]{
		Kind: kind, Object: object, Lane: laneName(a.Lane()), Tag: a,
		Pool: r.pool, Keeps: r.keeps, Rank: p.turn(a), Idles: r.idles, MaxQueue: r.maxQueue,
		Deadline: r.deadline, Patience: r.patience,
		Run: func(ctx context.Context, id kernel.EffectID, done func(Message)) {
			r.call(ctx, func(d ActionDone) {
				d.ID, d.Action = id, a
				done(d)
			})
		},
		Expired: func(id kernel.EffectID) Message {
			return ActionDone{ID: id, Action: a, Err: &port.Error{
				Kind: port.Deadline, Verb: kind, Object: object,
				Detail: fmt.Sprintf("no answer within %v", r.deadline.Round(100*time.Millisecond)),
			}}
		},
	})
}

// unable is an effect that fails at once.
func unable(err error) run {
	return run{deadline: inspectDeadline, call: func(_ context.Context, done func(ActionDone)) {
		done(ActionDone{Err: err})
	}}
}

// turn is the rank of an effect. Pods that are already being torn down come first:
// they gave up their slot between two steps and should not queue again. Then the
// oldest pod goes first.
func (p *pod) turn(a podplan.Effect) int64 {
	if p.stop == nil {
		return p.rank
	}
	if _, last := a.(podplan.StopSandbox); last || len(p.facts.Stopped) > 0 {
		return p.rank - begunFirst
	}
	return p.rank
}

// begunFirst is more than there are ranks.
const begunFirst = int64(1) << 60

// objectOf is what an effect is about: the pod, a container of it, or what the effect says.
func (p *pod) objectOf(e effect, a podplan.Effect) string {
	if o, is := e.(interface{ object() string }); is {
		return o.object()
	}
	if name, _ := a.About(); name != "" {
		return name
	}
	return p.name()
}

func laneName(l podplan.Lane) string {
	if l.N == 0 {
		return l.Kind.String() + "/" + l.Name
	}
	return fmt.Sprintf("%s/%s#%d", l.Kind, l.Name, l.N)
}

func newID(done func(ActionDone)) func(string, error) {
	return func(id string, err error) { done(ActionDone{Result: podplan.Result{NewID: id}, Err: err}) }
}

func onlyErr(done func(ActionDone)) func(error) {
	return func(err error) { done(ActionDone{Err: err}) }
}
