// Package crilog reads the logs that a container runtime writes (CRI log
// format), over rotations, and follows them.
//
//	2016-10-06T00:17:09.669794202Z stdout P the beginning of a line
//	2016-10-06T00:17:09.669794203Z stdout F and its end
//
// A log is a series of files: what was rotated away, oldest first, and the one
// that the runtime writes.
//
//	0.log.20261121-100000.gz   0.log.20261121-110000   0.log
//
// It is read in pieces of a fixed size, however long its lines are, so that a
// reader costs the same whatever is written (docs/decisions/0019).
package crilog
