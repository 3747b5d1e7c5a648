package chaos

import (
	"fmt"
	"reflect"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// aim is a fault that waits for its point.
type aim struct {
	plan.Fault
	seen    int
	reached bool
}

// injector turns the faults of a case into the hooks of its world.
type injector struct {
	aims map[plan.Stream][]*aim
	// record: points are kept, and counts has how many there were of each kind.
	record bool
	counts map[Point]int
	points []Point
	// state is the state of the node, nil if it is not asked for; states has it for each point, struck
	// is how many points there were until a fault struck.
	state  func() uint64
	states []uint64
	struck int
	// They ask for the end of a node's agent or runtime, from within a hook.
	killAgent, killRuntime func(node string)
	// strikes is told of each fault that strikes on a node.
	strikes func(node string, f *plan.Fault)
}

func newInjector(c *plan.Case, record bool) *injector {
	j := &injector{aims: map[plan.Stream][]*aim{}, record: record, counts: map[Point]int{}}
	for i := range c.Faults {
		f := c.Faults[i]
		j.aims[f.Stream] = append(j.aims[f.Stream], &aim{Fault: f})
	}
	return j
}

// watches says whether a stream has to be looked at at all.
func (j *injector) watches(s plan.Stream) bool { return j.record || len(j.aims[s]) > 0 }

// at gives the effect that strikes at a point, and counts it.
func (j *injector) at(node string, s plan.Stream, subject string, role plan.Role) (e plan.Effect, strikes bool) {
	if j.record {
		p := Point{Stream: s, Subject: subject, Role: role}
		j.counts[p]++
		p.N = j.counts[p]
		j.points = append(j.points, p)
		if j.state != nil {
			j.states = append(j.states, j.state())
		}
	}
	for _, a := range j.aims[s] {
		if a.reached || a.Subject != subject || a.Role != role {
			continue
		}
		if a.seen++; a.seen == a.N {
			a.reached, e, strikes = true, a.Effect, true
			j.strikes(node, &a.Fault)
		}
	}
	if strikes {
		j.struck = len(j.points)
		switch e.Do {
		case plan.KillAgent:
			j.killAgent(node)
		case plan.KillRuntime:
			j.killRuntime(node)
		default:
		}
	}
	return e, strikes
}

func (j *injector) call(node string, c simcri.Call, role plan.Role) simcri.Fault {
	if !j.watches(plan.Call) || c.Method == simcri.Events {
		return simcri.Fault{}
	}
	e, _ := j.at(node, plan.Call, c.Method.String(), role)
	if c.Method == simcri.ExecSync && (e.Do == plan.Hang || e.Do == plan.Lose) {
		// A hook has no limit: its pod would not be Ready for as long as nobody ends the call.
		return simcri.Fault{Fail: true, Kind: port.Deadline, Detail: Planted, Latency: clientDeadline}
	}
	return CallFault(e, port.Other)
}

// CallFault is an effect on a call of a port, which fails with that kind.
func CallFault(e plan.Effect, kind port.ErrorKind) simcri.Fault {
	switch e.Do {
	case plan.Fail:
		return simcri.Fault{Fail: true, Kind: kind, Detail: Planted}
	case plan.Hang:
		return simcri.Fault{Hang: true}
	case plan.Lose:
		return simcri.Fault{LoseReply: true}
	case plan.Partial:
		return simcri.Fault{Partial: true, Kind: kind, Detail: Planted}
	case plan.Slow:
		return simcri.Fault{Latency: e.For}
	case plan.AnswerLate:
		return simcri.Fault{AnswerLate: e.For}
	case plan.WorkLate:
		return simcri.Fault{WorkLate: e.For}
	case plan.Panic:
		return simcri.Fault{Fail: true, Panics: true, Kind: port.Panic, Detail: Planted}
	case plan.PanicAfter:
		return simcri.Fault{Partial: true, Panics: true, Kind: port.Panic, Detail: Planted}
	case plan.Allocate:
		return simcri.Fault{Takes: containerplan.MaxExpanded}
	default:
		return simcri.Fault{}
	}
}

// Planted is in the text of every error and panic that a case makes.
const Planted = "planted by the case"

func (j *injector) api(c simapi.Call, role plan.Role) simapi.Fault {
	if !j.watches(plan.API) {
		return simapi.Fault{}
	}
	subject := c.Verb.String() + "-" + c.Key.Kind.String()
	if c.Status {
		subject += "-status"
	}
	e, _ := j.at(c.Node, plan.API, subject, role)
	if stream := c.Verb == simapi.List || c.Verb == simapi.Watch; stream && (e.Do == plan.Hang || e.Do == plan.Lose) {
		// The port leaves it to the client to give up a list or a watch that gets no answer.
		return simapi.Fault{Fail: true, Kind: port.Deadline, Detail: Planted, Latency: clientDeadline}
	}
	return CallFault(e, port.Unavailable)
}

// host is each call about a machine. lost: the checkpoint to be read has lost what was written last.
func (j *injector) host(
	node string, c sim.HostCall, role plan.Role, disk *machine.Checkpoints,
) (f sim.HostFault, lost bool) {
	if !j.watches(plan.Host) {
		return sim.HostFault{}, false
	}
	e, _ := j.at(node, plan.Host, c.Verb, role)
	switch {
	case e.Do == plan.Hang && machine.Watches(c.Verb):
		e.Do = plan.Fail // it has no limit: who is not heard is as good as gone
	case e.Do == plan.Lost:
		disk.Lose(c.Name)
		return sim.HostFault{}, true
	case e.Do == plan.Older:
		disk.Rollback(c.Name)
		return sim.HostFault{}, true
	}
	return hostFault(e, c.Verb), false
}

func hostFault(e plan.Effect, verb string) sim.HostFault {
	switch e.Do {
	case plan.Fail:
		return sim.HostFault{Err: &port.Error{Kind: port.Other, Verb: verb, Detail: Planted}}
	case plan.Hang:
		return sim.HostFault{Hang: true}
	case plan.Lose:
		err := &port.Error{Kind: port.Unavailable, Verb: verb, Detail: Planted}
		return sim.HostFault{Err: err, Works: true}
	case plan.Slow:
		return sim.HostFault{Latency: e.For}
	case plan.AnswerLate:
		return sim.HostFault{AnswerLate: e.For}
	case plan.WorkLate:
		return sim.HostFault{WorkLate: e.For}
	case plan.Panic, plan.PanicAfter:
		err := &port.Error{Kind: port.Panic, Verb: verb, Detail: Planted}
		return sim.HostFault{Err: err, Works: e.Do == plan.PanicAfter, Panics: true}
	default:
		return sim.HostFault{}
	}
}

// message is before and after each message of each actor.
func (j *injector) message(node, actor string, m any, handled bool, counted map[string]*plan.Effect) {
	if !j.watches(plan.Message) {
		return
	}
	if handled {
		if e := counted[actor]; e != nil {
			delete(counted, actor)
			if e.Do == plan.PanicWithin {
				return // it sent nothing
			}
			if e.Do == plan.KillAfter {
				j.killAgent(node)
				return
			}
			panic(fmt.Sprintf("%s: after %T", Planted, m))
		}
		return
	}
	e, strikes := j.at(node, plan.Message, actor+":"+typeName(m), plan.Role{})
	if !strikes {
		return
	}
	switch e.Do {
	case plan.Panic, plan.KillAgent: // who is killed does not handle it either
		panic(fmt.Sprintf("%s: before %T", Planted, m))
	case plan.PanicAfter, plan.KillAfter, plan.PanicWithin:
		counted[actor] = &e
	default:
	}
}

// inside is before each thing that an actor sends or begins while it handles a message.
func inside(actor string, k int, counted map[string]*plan.Effect) {
	if e := counted[actor]; e != nil && e.Do == plan.PanicWithin && k > 0 {
		delete(counted, actor)
		panic(Planted + ": within a message")
	}
}

// event is the fate of an event of the runtime.
func (j *injector) event(node string, e port.RuntimeEvent, role plan.Role) simcri.EventFate {
	if !j.watches(plan.Event) {
		return simcri.EventFate{}
	}
	effect, _ := j.at(node, plan.Event, e.Kind.String(), role)
	switch effect.Do {
	case plan.Drop:
		return simcri.EventFate{Drop: true}
	case plan.Twice:
		return simcri.EventFate{Twice: true}
	default:
		return simcri.EventFate{Delay: effect.For}
	}
}

// sent is the fate of a message from one actor to another.
func (j *injector) sent(node, to string, m any) kernel.Fate {
	if !j.watches(plan.Send) {
		return kernel.Fate{}
	}
	e, _ := j.at(node, plan.Send, to+":"+typeName(m), plan.Role{})
	return kernel.Fate{Delay: e.For, Twice: e.Do == plan.Twice}
}

func typeName(m any) string {
	t := reflect.TypeOf(m)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// reached are the faults that struck.
func (j *injector) reached() (out []plan.Fault) {
	for _, s := range plan.Streams() {
		for _, a := range j.aims[s] {
			if a.reached {
				out = append(out, a.Fault)
			}
		}
	}
	return out
}

// unreached are the faults that did not strike.
func (j *injector) unreached() (out []string) {
	for _, s := range plan.Streams() {
		for _, a := range j.aims[s] {
			if !a.reached {
				out = append(out, a.String())
			}
		}
	}
	return out
}

const (
	// restartDelay is until an agent that was killed is started again.
	restartDelay = 100 * time.Millisecond
	// clientDeadline is when a client of the apiserver gives up a list, and somebody ends a command.
	clientDeadline = 30 * time.Second
	// runtimeDelay is until a runtime that was killed by a fault is restarted.
	runtimeDelay = time.Second
)
