package port

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
)

// Pressure measures how short a node's resources are, and who uses them. All errors are *Error.
type Pressure interface {
	// Left reads what is left of the node's resources. It is cheap, reads no directory trees, and leaves
	// unknown what it can't read. The error names what could not be read; the rest is valid.
	Left(ctx context.Context, done func(eviction.Reading, error))
	// Use reads what pods use, in their order. want says what is needed; the rest is zero. A pod of
	// which nothing is left uses nothing. What could not all be counted says that it is partial, and
	// what was counted earlier says its age.
	Use(ctx context.Context, pods []*v1.Pod, want PodUse, done func([]eviction.Use, error))
	// WatchMemory calls done once, with nil, as soon as the kernel says that available memory may have
	// fallen under the threshold, in bytes. Unsupported: this host can't say so.
	WatchMemory(ctx context.Context, threshold uint64, done func(error))
}

// PodUse says what is read of pods.
type PodUse struct {
	Memory, Processes, Disk bool
	// Soon: large directories are not waited for. What is known of them is given, with its age.
	Soon bool
}
