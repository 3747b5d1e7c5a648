package port

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Usage is the part of a runtime that reports the resource usage of its containers (CRI v1
// ListContainerStats, ImageFsInfo). A simulated runtime need not have it. All errors are *Error.
type Usage interface {
	// ContainerUsage is the usage of all running containers, in order of ID. Only RuntimeID, CPU,
	// memory, swap and Rootfs are filled, as far as the runtime knows them. The data of a writable
	// layer may be some seconds old.
	ContainerUsage(ctx context.Context, done func([]usage.Container, error))
	// Disks are the file systems of images and of writable layers, often the same.
	Disks(ctx context.Context, done func(images, layers DiskUse, err error))
}

// DiskUse is the use of a file system for one purpose.
type DiskUse struct {
	// Mountpoint is a directory on it; empty if the runtime does not report it.
	Mountpoint string
	Bytes      uint64
	Inodes     uint64
}
