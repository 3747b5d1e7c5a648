// Package volumeplan decides how the volumes of a pod are mounted, and what is next for each of them.
//
// # Mounts
//
// [Plan] decides how to mount each volume of a pod: its content, the volume bound to its claim, its maximum size.
//
// # States
//
// It decides what is next for the volumes of a pod: [Pod] and [Volume] are state machines.
//
// # emptyDir
//
// [EmptyDirSize] and [EmptyDirPageSize] decide the size and the page size of an emptyDir in memory.
package volumeplan
