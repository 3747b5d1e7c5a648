package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Case is one experiment: the world, what is done in it, and what goes wrong.
type Case struct {
	// Seed decides the order of what happens at one instant, and latencies.
	Seed uint64
	// Standalone: there is no apiserver, and pods are static.
	Standalone bool
	// NoEvents: the runtime has no event stream.
	NoEvents bool
	// Disks is how many file systems a node has that protects itself: 1, or 2 if images and writable layers have
	// their own; 0 for a node with room for everything. See Memory and Disk.
	Disks int
	// Devices is how many GPUs a node has, with a device plugin, and with CPUs for containers alone; 0 for a node
	// with neither.
	Devices int
	// CSI is what the node has for CSI volumes: Plain or Attached; empty for no CSI driver.
	CSI string
	// Nodes is how many nodes there are, n1, n2, …, with a scheduler and controllers; 0 for one node
	// without them, which has all pods.
	Nodes    int
	Schedule Schedule
	// Ops are done in order: each waits for its time once the one before it was done.
	Ops    []Op
	Faults []Fault
}

// Role is what an operation or a fault is about: a pod or a workload by its name, or one
// of its containers. Empty: a node.
type Role struct{ Pod, Container string }

// When is the time of an operation. The zero value is at once.
type When struct {
	// At is so long after the start of the world; negative if Of is given or nothing.
	At time.Duration
	// On is a state that Of has to reach first, then After passes.
	On    State
	Of    Role
	After time.Duration
}

// State of a pod or container that an operation can wait for.
type State string

// The states. A pod is Ready and so on as the API shows it, or with static pods of a
// standalone node, as the agent shows it.
const (
	NoState   State = ""
	Made      State = "Made"      // its sandbox, or the container, was made
	Started   State = "Started"   // the container was started
	Ended     State = "Ended"     // the container has ended
	Running   State = "Running"   // a container of it runs
	Ready     State = "Ready"     // it is shown as Ready
	Succeeded State = "Succeeded" // it is shown so
	Failed    State = "Failed"    // it is shown so
	Gone      State = "Gone"      // nothing is left of it
)

// Op is one operation.
type Op struct {
	When When
	Verb Verb
	Role Role
	// Node is the node that it is about; the first if it is empty.
	Node string
	// Args are the words after the role: key=value, or a word with an empty value.
	Args []Arg
}

// Arg is one argument of an operation.
type Arg struct{ Key, Value string }

// Arg gives the value of an argument, empty if it is not there.
func (o *Op) Arg(key string) string {
	for _, a := range o.Args {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Fault is one thing that goes wrong: with the N-th thing (from 1) that Stream, Subject and
// Role name.
type Fault struct {
	Stream Stream
	// Subject is the method of a call, the verb of a call about the machine, the verb and
	// kind of a call of the apiserver (Patch-Pod-status), the kind of an event, or the actor
	// and type of a message (pod/a:Done).
	Subject string
	Role    Role
	N       int
	Effect  Effect
}

// Stream is where a fault strikes.
type Stream string

// The streams.
const (
	Call    Stream = "call"  // calls of the runtime
	Host    Stream = "host"  // calls about the machine
	API     Stream = "api"   // calls of the apiserver
	Event   Stream = "event" // events of the runtime
	Message Stream = "msg"   // messages that an actor handles
	Send    Stream = "send"  // messages on their way from one actor to another
)

// Effect is what goes wrong.
type Effect struct {
	Do EffectKind
	// For is how long, for those that take a time.
	For time.Duration
}

// EffectKind is the kind of an effect.
type EffectKind string

// The effects, and where they can be.
const (
	Fail        EffectKind = "fail"         // call, host, api: an error, nothing is done
	Hang        EffectKind = "hang"         // call, host, api: no answer, nothing is done
	Lose        EffectKind = "lose"         // call, api, host of CSI drivers: done, and no answer
	Partial     EffectKind = "partial"      // call: done in part, and an error
	Slow        EffectKind = "slow"         // call, host, api: done so much later
	KillAgent   EffectKind = "kill"         // all but event: the agent is killed when it begins
	KillAfter   EffectKind = "kill-after"   // msg: the agent is killed when it was handled
	Panic       EffectKind = "panic"        // msg: the actor panics before it; call, host, api: the port, before it asks
	PanicAfter  EffectKind = "panic-after"  // msg: the actor panics after it; call, host, api: the port, once answered
	Allocate    EffectKind = "allocate"     // call: as much memory is taken for it as a pod may make the agent take
	PanicWithin EffectKind = "panic-within" // msg: the actor panics at the first thing that it sends or begins
	AnswerLate  EffectKind = "answer-late"  // call, host, api: done now, answered so much later
	WorkLate    EffectKind = "work-late"    // call, host, api: done so much later, also if nobody waits any more
	Drop        EffectKind = "drop"         // event: it is lost
	Twice       EffectKind = "twice"        // event, send: it comes twice
	Delay       EffectKind = "delay"        // event, send: it comes so much later
	KillRuntime EffectKind = "kill-runtime" // call: the runtime is killed, and restarted a second later
	Lost        EffectKind = "lost"         // host, LoadCheckpoint: it is gone from the disk
	Older       EffectKind = "older"        // host, LoadCheckpoint: it is as it was before it was last saved
)

// TakesTime says whether an effect is of some length.
func (e EffectKind) TakesTime() bool {
	return e == Slow || e == AnswerLate || e == WorkLate || e == Delay
}

// Streams are all of them.
func Streams() []Stream { return []Stream{Call, Host, API, Event, Message, Send} }

// Effects are those that a stream can have.
func (s Stream) Effects() []EffectKind {
	switch s {
	case Call:
		return []EffectKind{
			Fail, Hang, Lose, Partial, Slow, AnswerLate, WorkLate, KillAgent, KillRuntime, Panic, PanicAfter, Allocate,
		}
	case Host:
		return []EffectKind{Fail, Hang, Slow, AnswerLate, WorkLate, KillAgent, Lost, Older, Lose, Panic, PanicAfter}
	case API:
		return []EffectKind{Fail, Hang, Lose, Slow, AnswerLate, WorkLate, KillAgent, Panic, PanicAfter}
	case Message:
		return []EffectKind{Panic, PanicWithin, PanicAfter, KillAgent, KillAfter}
	case Event:
		return []EffectKind{Drop, Twice, Delay}
	case Send:
		return []EffectKind{Twice, Delay}
	default:
		return nil
	}
}

// drawn are the effects that seeds of a profile draw from.
func (s Stream) drawn(p *Profile) []EffectKind {
	return slices.DeleteFunc(s.Effects(), func(e EffectKind) bool {
		return s == Host && e == Lose && !p.CSI || s.inPorts(e) && !p.Panics
	})
}

// inPorts says whether an effect is what the agent's own code does in a port.
func (s Stream) inPorts(e EffectKind) bool {
	return s != Message && (e == Panic || e == PanicAfter || e == Allocate)
}

// Can says whether an effect can strike what a stream calls subject.
func (s Stream) Can(subject string, e EffectKind) bool {
	if e == Lost || e == Older {
		return s == Host && subject == LoadCheckpoint
	}
	if s == Host && withinDriven(subject) {
		return e == KillAgent
	}
	if s == Host && e == Lose {
		return DrivenCall(subject)
	}
	return slices.Contains(s.Effects(), e)
}

// Panics says whether a fault is a panic within a port.
func (f *Fault) Panics() bool { return f.InPort() && f.Effect.Do != Allocate }

// InPort says whether a fault is what the agent's own code does in a port.
func (f *Fault) InPort() bool { return f.Stream.inPorts(f.Effect.Do) }

// LoadCheckpoint is the subject of the calls that read what the agent has written down.
const LoadCheckpoint = "LoadCheckpoint"

func (r Role) String() string {
	switch {
	case r == Role{}:
		return "-"
	case r.Container == "":
		return r.Pod
	default:
		return r.Pod + "/" + r.Container
	}
}

func (w When) String() string {
	switch {
	case w.On != NoState && w.After > 0:
		return fmt.Sprintf("on %s %s +%s: ", w.Of, w.On, w.After)
	case w.On != NoState:
		return fmt.Sprintf("on %s %s: ", w.Of, w.On)
	case w.At > 0:
		return fmt.Sprintf("at %s: ", w.At)
	default:
		return ""
	}
}

func (o Op) String() string {
	var b strings.Builder
	b.WriteString(o.When.String())
	b.WriteString(string(o.Verb))
	if o.Role != (Role{}) {
		b.WriteString(" " + o.Role.String())
	}
	if o.Node != "" {
		b.WriteString(" " + o.Node)
	}
	for _, a := range o.Args {
		b.WriteString(" " + a.Key)
		if a.Value != "" {
			b.WriteString("=" + a.Value)
		}
	}
	return b.String()
}

func (e Effect) String() string {
	if e.For == 0 {
		return string(e.Do)
	}
	return fmt.Sprintf("%s %s", e.Do, e.For)
}

func (f Fault) String() string {
	return fmt.Sprintf("fault %s %s %s #%d = %s", f.Stream, cmp.Or(f.Subject, "-"), f.Role, f.N, f.Effect)
}

// String is the case as text, one line each. Parse reads it back.
func (c *Case) String() string {
	var b strings.Builder
	b.WriteString("seed " + strconv.FormatUint(c.Seed, 10) + "\n")
	if c.Standalone {
		b.WriteString("standalone\n")
	}
	if c.NoEvents {
		b.WriteString("no-events\n")
	}
	if c.Disks > 0 {
		fmt.Fprintf(&b, "pressure disks=%d\n", c.Disks)
	}
	if c.Devices > 0 {
		fmt.Fprintf(&b, "devices %d\n", c.Devices)
	}
	if c.CSI != "" {
		fmt.Fprintf(&b, "csi %s\n", c.CSI)
	}
	if c.Nodes > 0 {
		fmt.Fprintf(&b, "nodes %d\n", c.Nodes)
	}
	b.WriteString(c.Schedule.String())
	for i := range c.Ops {
		b.WriteString(c.Ops[i].String() + "\n")
	}
	for i := range c.Faults {
		b.WriteString(c.Faults[i].String() + "\n")
	}
	return b.String()
}

// Line is the case as one line, for the argument of a command.
func (c *Case) Line() string { return strings.ReplaceAll(strings.TrimSpace(c.String()), "\n", "; ") }

// Hash names a case by its text.
func (c *Case) Hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.String()))
	return h.Sum64()
}
