// Package kernel is the actor system of troupe. It is the only package that uses
// protoactor, which provides processes, the tree of parents and children, and the
// restart protocol. The kernel adds what a node agent needs:
//
//	Ref, Context, Spec   typed references and actors: a message of the wrong type does not compile
//	cell (the mailbox)   one message a step, bounds, latest-wins, ages, crash reports, history
//	Clock, Virtual       time as a port: the wall clock, or one that jumps to the next timer
//	NodeClock            the clock of one machine of a simulation, which can be set
//	Alarm, Soonest       the timers of an actor
//	Call                 the effect of which an actor awaits the result
//	scheduler            goroutines in the daemon; one thread and a seeded pick in a simulation
//	Schedule             other picks: priorities, starvation, messages that take time
//	Fate                 what becomes of a message between actors of a simulation
//	Policy               restart with exponential backoff, quarantine, escalation
//	Runner, Effect       I/O off the mailbox: lanes, slots, deadlines; effects outlive their actor
//	Tracer               a hash over every delivered message and every effect
//	Checked              the invariants of an actor, held after each message where somebody asks for that
//	Snapshot, Metrics,   the live tree, its sums by kind of actor, the last crashes
//	Crashes
//
// # What an actor may rely on
//
// It handles one message at a time. A message may come late, twice or not at all. A panic loses the
// message that was being handled, but not the waiting ones. After a backoff the actor starts again
// from its constructor alone. Effects that had begun continue meanwhile, and their results reach
// the new incarnation. Effects that had not begun are dropped, timers do not fire any more, and the
// whole subtree is stopped before the restart.
//
// # What an actor must not do
//
// Block, read a clock, draw from a global random source, start a goroutine.
// All of that comes through Context.
package kernel
