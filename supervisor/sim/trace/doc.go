// Package trace is the file that records a simulated run, for a replay.
//
// A run is determined by its seed, its size and its scenario. A trace holds these, and
// one beat per interval of simulated time: the hash over every delivered message and
// every effect so far. A replay repeats the run and compares each beat with the recorded
// one. The first difference shows when the runs diverged: the program has changed, or
// something in it does not depend on the seed alone.
//
//	troupe-trace 1\n                                   the format and its version
//	gzip(uvarint(len) header as JSON, beat, beat, …)
//	beat = uvarint(nanoseconds since the last) uvarint(messages since the last) hash (8 bytes, big-endian)
package trace
