// Package machine is a simulated machine, as an agent uses it through its ports: the
// file systems of pods, cgroups, checkpoints, manifests, the files of containers, and
// what the machine is. All of it outlives the agent. supervisor/sim, its live form and
// tests/scenarios use it, and tests/contract holds it to the same suites as the real
// host.
//
//	Machine
//	├── Host         port.Host
//	├── Cgroups      port.Cgroups
//	├── Checkpoints  port.Checkpoints
//	├── Manifests    port.Manifests
//	├── Files        port.ContainerFiles
//	└── Facts        port.NodeFacts
//
// Every call takes a moment of the clock, and Fault may make it fail, hang or take
// longer. Nothing starts a goroutine: on a virtual clock everything happens on the
// clock's thread, on the wall clock the calls are safe for concurrent use. Exported
// fields are set before the first call, or on the thread of a virtual clock.
package machine
