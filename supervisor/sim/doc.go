// Package sim is a simulated cluster: an apiserver, a control plane, and machines, each
// with a simulated container runtime and the same actors as the daemon, all on one
// virtual clock. A node's own clock can be set apart from it (Node.StepClock).
// Thousands of nodes run in one process and on one goroutine. The same seed gives the
// same run.
//
//	World
//	├── clock, random streams, trace
//	├── apiserver (apiclient/simapi) ◄── scheduler, workloads, node lifecycle (controlplane)
//	│     ▲ watch, write
//	├── Node n00000
//	│   ├── agent: supervisor/agent, as in the daemon                   dies, is started again
//	│   └── machine: cri/simcri and supervisor/sim/machine              outlives the agent
//	└── Node n00001 …
//
// Nothing here bypasses an actor: a pod runs because a node's actors took it in,
// pulled its image, made its sandbox, started its containers and told the
// apiserver so, each with the latency that was measured on a real runtime
// (simcri.DefaultLatencies). What a pod does, its annotations say; see
// simcri.Keys.
//
// A World is not safe for concurrent use: one goroutine calls it, and whatever
// it calls back is called on that one.
package sim
