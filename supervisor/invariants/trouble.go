package invariants

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// The rules that say by when something must be done are excused by what has gone wrong shortly
// before: of the pod, or of the node as a whole. Those that say what must never be are not.
const (
	// recovery is until all goes on as usual after a fault: failed calls are tried again after a
	// second, two, …
	recovery = 30 * time.Second
	// givenUp is when a call without an answer has been given up at the latest.
	givenUp = 5 * time.Minute
)

// trouble is until when something may be late.
type trouble struct{ until time.Time }

func (t *trouble) last(until time.Time) {
	if until.After(t.until) {
		t.until = until
	}
}

// Troubled: something has gone wrong, for so long, that can delay what the agent does for a pod;
// for all pods if uid is empty.
func (n *Node) Troubled(uid types.UID, d time.Duration) {
	until := n.now().Add(d + recovery)
	if p := n.pods[uid]; p != nil {
		p.trouble.last(until)
	} else {
		n.trouble.last(until)
	}
}

// Timely: all that goes wrong is told from now on. Only then rules about times hold: what is late may
// have a reason that nobody tells, and what is early a clock that was set.
func (n *Node) Timely() { n.timely = true }

// calm is since when nothing excuses that something is late; now if something does. p is nil for
// what is the node's.
func (n *Node) calm(p *Pod) time.Time {
	if !n.timely {
		return n.now()
	}
	since := later(n.trouble.until, n.still)
	if p != nil {
		since = later(since, p.trouble.until)
	}
	return since
}

// Calm reports whether nothing excuses any more that something is late.
func (n *Node) Calm() bool {
	late := func(p *Pod) bool { return n.calm(p).After(n.now()) }
	for _, p := range n.pods { // order-free: any of them
		if late(p) {
			return false
		}
	}
	return n.timely && !late(nil)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// delay is how much later than usual the caller of a call goes on.
func delay(f simcri.Fault) time.Duration {
	if f.Hang || f.LoseReply {
		return givenUp
	}
	return f.Latency + f.AnswerLate + f.WorkLate
}

// Stands: the agent, or a message on its way within it, stands still for so long.
func (n *Node) Stands(d time.Duration) {
	if d > 0 {
		n.still = later(n.still, n.now().Add(d))
	}
}

// Slept: the whole machine sleeps for so long, and what it waits for comes that much later.
func (n *Node) Slept(d time.Duration) {
	n.Stands(d)
	if n.disk.After(n.now()) {
		n.disk = n.disk.Add(d)
	}
	n.trouble.last(later(n.trouble.until, n.now()).Add(d + recovery))
}

// ClockSet: the machine's wall clock was set.
func (n *Node) ClockSet() { n.clockSet = n.now() }

// CutOff: the apiserver can't be reached for so long.
func (n *Node) CutOff(d time.Duration) { n.apiTrouble.last(n.now().Add(d)) }

// Asked: the agent calls the apiserver, and this goes wrong with the call.
func (n *Node) Asked(c simapi.Call, f simapi.Fault) {
	n.inCluster = true
	if f == (simapi.Fault{}) {
		return
	}
	n.apiTrouble.last(n.now().Add(delay(f)))
	if f.WorkLate > 0 && c.Key.Kind == port.PodKind {
		n.LateWrite(c.Key.Namespace, c.Key.Name)
	}
}

// LateWrite: a write of the status of the pods with this name may arrive after later ones.
func (n *Node) LateWrite(namespace, name string) {
	for _, p := range n.pods { // order-free: all of them
		if p.Ref.Namespace == namespace && p.Ref.Name == name {
			p.lateWrite = true
		}
	}
}

// hosted is how much later than usual the caller of a call about the machine goes on.
func hosted(f machine.Fault) time.Duration {
	if f.Hang {
		return givenUp
	}
	return f.Latency + f.AnswerLate + f.WorkLate
}

// Hosted: the agent makes a call about the machine, and this goes wrong with it.
func (n *Node) Hosted(c machine.Call, f machine.Fault) {
	if f == (machine.Fault{}) {
		return
	}
	n.Troubled(types.UID(c.Pod), hosted(f))
	if p := n.pods[types.UID(c.Pod)]; p != nil {
		p.failed[c.Verb] = true
	}
	switch {
	case c.Verb == "SaveCheckpoint":
		n.disk = n.now().Add(2 * checkpoint.Deadline) // of this write, and of one that waits for it
	case c.Verb == "LoadCheckpoint" && f.Err != nil:
		n.Lost(c.Name) // one that can't be read is set aside
	}
}

// DevicesLost: the agent could not know any more which devices containers had that were there already.
func (n *Node) DevicesLost() bool { return n.devices.lost }

// Lost: a checkpoint does not have what was written last, when the agent is about to read it.
func (n *Node) Lost(name string) {
	if name == devicestate.Name {
		n.devices.Lost()
	}
}
