package port

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
)

// Cgroups are the cgroups above those of containers, which the runtime makes.
// The calling convention is Runtime's.
type Cgroups interface {
	// Set makes a cgroup, and those above it, if it isn't there, and gives it
	// these limits. Idempotent. What fails may be done in part.
	Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error))
	// Get reads a cgroup: the CPU and memory that it may use, without its weight,
	// and the memory in use. It fails with NotFound if there is none.
	Get(ctx context.Context, name podcgroup.Name, done func(limits observed.Resources, memory int64, err error))
	// RemovePod removes the cgroup of a pod, of whatever class it is, with all
	// below it. What still runs in it is killed. Idempotent.
	RemovePod(ctx context.Context, uid types.UID, done func(error))
	// Pods lists the pods that have a cgroup, or what is left of one, sorted.
	Pods(ctx context.Context, done func([]types.UID, error))
}
