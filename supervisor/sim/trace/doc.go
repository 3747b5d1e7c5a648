// Package trace is the file that records a run of a simulated world, and by
// which it is made again.
//
// A world follows from its seed, its size and its scenario; those are what a
// trace holds, with the hash over every delivered message and every effect after
// each so much of simulated time, a beat. A replay runs the same again and holds
// each beat against the recorded one. The first that differs tells when the two
// runs went apart: the program has changed since, or something in it does not
// follow from the seed.
//
//	troupe-trace 1\n                                   the format and its version
//	gzip(uvarint(len) header as JSON, beat, beat, …)
//	beat = uvarint(nanoseconds since the last) uvarint(messages since the last) hash (8 bytes, big-endian)
package trace
