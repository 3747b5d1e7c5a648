// Package shutdown is the actor that ends the pods of a node in order while its machine shuts down (KEP-2000,
// KEP-2712). Its decisions are in decide/shutdown.
//
//	inhibitor ──is the machine shutting down?──► shutdown ──Inhibit, Release, RaiseMaxDelay──► inhibitor
//	shutdown ──ShuttingDown──► podset, nodestatus      new pods are refused, the node is not ready
//	shutdown ──Query──► podset      every look: what has not ended?
//	shutdown ──Evict──► podset      the pods of the group whose turn it is
//	shutdown ──Unwritten──► status      is each status in the apiserver?
//
// The stops of pods are in the checkpoint of podset, with the time at which they began. So an agent that is killed
// in the middle of a shutdown, and started again, goes on with the group that it was at.
package shutdown

import (
	"time"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
)

// Message is what the shutdown actor understands. Results carry their effect. Results of other effects are late,
// or of a predecessor, and are ignored.
//
//sumtype:decl
type Message interface{ isShutdownMessage() }

// told says whether the machine is shutting down. From the watch. The newest counts. Lost: the actor watches
// again after a restart, and is told then.
type told struct {
	id        kernel.EffectID
	preparing bool
}

// ended says why the watch ended.
type ended struct {
	id  kernel.EffectID
	err error
}

// reopen is this actor's own timer for the next watch.
type reopen struct{}

// unheard is this actor's own timer for a watch that says nothing at first.
type unheard struct{}

// relock is this actor's own timer for the next try to get a lock.
type relock struct{}

// locked is the result of Inhibit, released that of Release.
type locked struct {
	id  kernel.EffectID
	err error
}

type released struct {
	id  kernel.EffectID
	err error
}

// delay is the result of MaxDelay.
type delay struct {
	id  kernel.EffectID
	max time.Duration
	err error
}

// raised is the result of RaiseMaxDelay.
type raised struct {
	id  kernel.EffectID
	err error
}

// look is this actor's own timer while pods end. round tells it from that of an earlier shutdown.
type look struct{ round int }

// seen is the answer of podset. Late, as after a cancellation: its round is over. Lost: the next look asks again.
type seen struct {
	round int
	pods  podset.Inventory
}

// unwritten is the answer of status. Late or lost: as seen.
type unwritten struct{ round, pods int }

// journaled is the result of reading or writing the checkpoint.
type journaled struct{ checkpoint.Event }

func (told) isShutdownMessage()      {}
func (ended) isShutdownMessage()     {}
func (reopen) isShutdownMessage()    {}
func (unheard) isShutdownMessage()   {}
func (relock) isShutdownMessage()    {}
func (locked) isShutdownMessage()    {}
func (released) isShutdownMessage()  {}
func (delay) isShutdownMessage()     {}
func (raised) isShutdownMessage()    {}
func (look) isShutdownMessage()      {}
func (seen) isShutdownMessage()      {}
func (unwritten) isShutdownMessage() {}
func (journaled) isShutdownMessage() {}

// MailboxKey implements kernel.Keyed.
func (seen) MailboxKey() string { return "seen" }

// MailboxKey implements kernel.Keyed.
func (unwritten) MailboxKey() string { return "unwritten" }
