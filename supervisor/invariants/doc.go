// Package invariants holds what must be true of a node at every instant, whatever
// fails. Each file has one checker. A checker gets observed values and returns what is
// wrong, empty if nothing is; it knows no test and no clock, so that scenarios and
// other harnesses share it.
package invariants
