// Package simport is the shared code of simulated ports: a call with a latency, an effect, and an
// answer that may be late or lost, on any clock. The simulated runtime and the simulated apiserver use it.
//
// It starts no goroutine and has no random stream of its own. On a virtual clock everything happens
// on the clock's thread; on the wall clock it is safe for concurrent use.
package simport
