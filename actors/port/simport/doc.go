// Package simport is what simulations of ports have in common: a call that
// takes its time, takes effect, and is answered or not, on whatever clock there
// is. The simulated runtime and the simulated apiserver are made of it.
//
// Nothing in it starts a goroutine or draws from a stream of its own. On a
// virtual clock everything happens on the clock's thread; on the wall clock all
// of it is safe for concurrent use.
package simport
