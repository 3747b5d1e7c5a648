package port

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
)

// Cgroups are the cgroups above those of containers. (The runtime makes those.) The calling
// convention is Runtime's.
type Cgroups interface {
	// Set makes a cgroup and its parents if they don't exist, and sets its limits. Idempotent. A
	// failed call may have had part of its effect.
	Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error))
	// Get reads a cgroup: its CPU and memory limits, without its weight, and the memory in use. It
	// fails with NotFound if there is none.
	Get(ctx context.Context, name podcgroup.Name, done func(limits observed.Resources, memory int64, err error))
	// RemovePod removes the cgroup of a pod, of any class, with everything below it. It kills what
	// still runs there. Idempotent.
	RemovePod(ctx context.Context, uid types.UID, done func(error))
	// Pods lists the pods that have a cgroup, or remains of one, sorted.
	Pods(ctx context.Context, done func([]types.UID, error))
}
