// Package agent assembles the agent of one node: the actors, the pools of slots that
// their effects share, and their settings. The daemon, troupe sim, its live form and
// tests/scenarios all start an agent with Start.
//
//	config.Config ──Of──► Config ──(name, machine, ports)──► Start ──► Agent
//
// The configuration of the daemon is the only source of defaults: a simulation starts
// from Default, which is what an empty configuration gives. A simulation that must
// differ sets a field of Config and says why.
package agent
