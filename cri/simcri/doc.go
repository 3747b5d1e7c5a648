// Package simcri is a simulated container runtime. It has sandboxes, containers and
// images, the call latencies of a real runtime, and scripts instead of programs. It
// implements the same port as containerd and passes the same contract suite
// (tests/contract).
//
// Its only inputs are a clock and named random streams. On a virtual clock a run is
// single-threaded, and the same calls get the same answers at the same times; on the wall clock
// all methods are safe for concurrent use.
//
// # States
//
//	sandbox      (being made) ──► Ready ──stop──► NotReady ──remove──► gone
//	container    (being made) ──► Created ──start──► Running ──exit──► Exited ──remove──► gone
//	                                 └──── failed start (128) ───────────┘
//	                                    Running ──LoseTask──► Unknown ──remove──► gone
//
// A name (pod UID and attempt; with the container's name for a container) is reserved from the
// start of a call until the object is removed or its creation failed. Another call for it
// meanwhile gets NameReserved, as in containerd.
//
// # When a call takes effect
//
// At the end of its latency, in the same instant as its answer, unless a fault delays either
// (AnswerLate, WorkLate); StopContainer
// sends its signal then and answers when the container is dead. A call whose
// context ends first is answered with Deadline or Canceled at once, and takes
// effect all the same with the chance Config.LateEffect. StopContainer and
// PullImage give up where they are: no SIGKILL follows, the download stops.
//
// done and event callbacks run from clock callbacks only, one at a time, never
// under the runtime's lock, so they may call the runtime again. They must not block.
//
// A context's end is noticed through its method AfterFunc(func()) func() bool
// if it has one, which lets a simulation end contexts on its own thread;
// otherwise through context.AfterFunc, on a goroutine.
//
// # Scripts
//
// What a started container does is its Script: from Config.Script, or else from
// annotations of its pod, sim.troupe.dev/<container>.<key> for one container or
// sim.troupe.dev/<key> for all. See [Keys] for the keys and their values.
package simcri
