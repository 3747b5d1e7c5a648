package port

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/oom"
)

// OOMKills tells what the kernel's OOM killer does. All errors are *Error; Unsupported: this host can't tell.
type OOMKills interface {
	// Watch waits for kills and returns them, in their order. No kill is returned twice, or lost between two calls.
	Watch(ctx context.Context, done func([]oom.Kill, error))
	// Count reads the kernel's counters: that of the machine, and those of the running containers of pods. It is
	// for a host where Watch is Unsupported. What can't be read is left out.
	Count(ctx context.Context, pods []*v1.Pod, done func(oom.Counts, error))
}
