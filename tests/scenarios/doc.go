// Package scenarios runs whole nodes on a virtual clock and one thread: all
// actors, assembled as by the daemon (supervisor/agent), a simulated runtime and a
// simulated machine (supervisor/sim/machine).
// Each test is a story of one node; after each thing that happens in the
// runtime the invariants of supervisor/invariants and of invariants_test.go are checked.
//
// A run that fails prints its seed; TROUPE_SEED=<n> runs a random test with that
// seed alone.
package scenarios
