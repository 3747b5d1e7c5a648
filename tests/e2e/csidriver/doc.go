// Package csidriver is a CSI driver for tests, on one machine: volumes are directories, which are bind mounted, or
// image files on loop devices.
//
// It is strict where the specification says what callers must do: a volume is staged only where it is attached, published
// only where it is staged, and not deleted while anybody has it. All calls, with what was wrong about them, are written to
// a file ([Calls]). A test makes calls fail, hang or answer late ([Fault]).
//
//	create ──► attach ──► stage ──► publish (any number of paths)
//	delete ◄── detach ◄── unstage ◄── unpublish
//
// What it knows is in a file below its directory, so that it can be killed at any time and started again, and several
// processes, one a node, can have the same volumes. What is mounted is what the kernel says.
package csidriver
