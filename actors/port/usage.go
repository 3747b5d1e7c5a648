package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Usage is the part of a runtime that says what its containers use (CRI v1
// ListContainerStats, ImageFsInfo). A simulated runtime need not have it. All
// errors are *Error.
type Usage interface {
	// ContainerUsage is what all running containers use, in order of ID. Only
	// RuntimeID, CPU, memory, swap and Rootfs are filled, as far as the runtime knows
	// them; what is known of a writable layer may be some seconds old.
	ContainerUsage(ctx context.Context, done func([]usage.Container, error))
	// Disks are where images and writable layers are, often the same.
	Disks(ctx context.Context, done func(images, layers DiskUse, err error))
}

// DiskUse is what is used of a file system for one purpose.
type DiskUse struct {
	// Mountpoint is a directory on it, empty if the runtime does not say.
	Mountpoint string
	Bytes      uint64
	Inodes     uint64
}
