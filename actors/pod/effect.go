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

// effect makes the call of one of the plan's effects. podplan holds how its start and its end
// change the facts. Each effect has a file, which registers it with performs.
type effect interface {
	// kind is the name of the call in the CRI.
	kind() string
	// begin returns how the call is made. It runs in the actor; the call does not.
	begin(p *pod) run
	// succeeded and failed record events for users.
	succeeded(p *pod, ctx *kernel.Context[Message])
	failed(p *pod, ctx *kernel.Context[Message], f failed)
}

// failed is how an effect failed.
type failed struct {
	kind port.ErrorKind
	// detail is the message of the runtime or host, without IDs that change with each attempt.
	detail string
	// count is the number of failures in a row, 0 for an effect that is not retried.
	count int
}

// quiet is an effect whose success causes no event.
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

// performs registers how effects of type E are made. A test checks that none is missing.
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

// Deadlines of effects are a last resort. On a loaded machine a runtime needs far less, and slots
// are released long before.
const (
	inspectDeadline = 2 * time.Minute
	sandboxDeadline = 4 * time.Minute
	startDeadline   = 4 * time.Minute
	stopSlack       = 2 * time.Minute
	stopPatience    = 5 * time.Second
	stopQueue       = 10 * time.Second // a container gets its stop signal no later than that, whatever else runs
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
		p.turns.add(a.Lane())
	}
}

// do starts an effect in the kernel.
func (p *pod) do(ctx *kernel.Context[Message], a podplan.Effect) kernel.EffectID {
	e := effectOf(a)
	r := e.begin(p)
	kind, object := e.kind(), p.objectOf(e, a) // not in the closures: they run elsewhere
	return ctx.Do(kernel.Effect[Message]{
		Kind: kind, Object: object, Lane: laneName(a.Lane()), Tag: a,
		Pool: r.pool, Keeps: r.keeps, Rank: p.turn(a, r.pool), Idles: r.idles, MaxQueue: r.maxQueue,
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

// unable is a call that fails at once.
func unable(err error) run {
	return run{deadline: inspectDeadline, call: func(_ context.Context, done func(ActionDone)) {
		done(ActionDone{Err: err})
	}}
}

// turn is the rank of an effect. Pods that are already being torn down come first:
// they gave up their slot between two steps and should not queue again. Then the
// oldest pod goes first, but not with all of its containers: there may be thousands, and a younger pod would wait for
// them all.
func (p *pod) turn(a podplan.Effect, pool string) int64 {
	rank := p.rank
	if _, last := a.(podplan.StopSandbox); p.stop != nil && (last || len(p.facts.Stopped) > 0) {
		rank -= begunFirst
	}
	before := 0
	if n := p.turns.of(a.Lane()); n != nil {
		before = *n
	}
	if pool != LargePool {
		before /= atOnce
	}
	return rank + int64(before)*allPods
}

const (
	// begunFirst is more than there are ranks.
	begunFirst = int64(1) << 60
	// atOnce is how many containers of a pod come before those of younger pods. Of those that take much memory, it is one.
	atOnce = 8
	// allPods is more than the ranks of pods.
	allPods = int64(1) << 32
)

// turns are how many containers of a pod are being started and stopped, while the actions of a plan are performed.
type turns struct{ starts, stops int }

// of is the one that an effect on a lane counts for, nil for none.
func (t *turns) of(l podplan.Lane) *int {
	switch l.Kind {
	case podplan.LaneContainer:
		return &t.starts
	case podplan.LaneStop:
		return &t.stops
	default:
		return nil
	}
}

// add counts an effect.
func (t *turns) add(l podplan.Lane) {
	if n := t.of(l); n != nil {
		*n++
	}
}

// objectOf names the object of an effect: the pod, one of its containers, or what the effect
// says.
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
