package port

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/claims"
)

// DRADrivers are the drivers of dynamic resource allocation on this machine (DRA plugin API v1 and v1beta1). The
// calling convention is Runtime's, and all errors are *Error. A driver that does not answer, hangs or says what no
// driver may say is an error of its own calls alone.
type DRADrivers interface {
	// Drivers calls event for each driver that registers in the plugin registry (<root>/plugins_registry), and for each
	// whose socket or connection is gone. Drivers that were there before are told again. It ends with ctx.
	Drivers(ctx context.Context, event func(DRADriver), done func(error))
	// Health calls event with what a driver says of its devices (DRAResourceHealth), for as long as it does: all that it
	// has to say with each. It ends with ctx, with the connection, and with Unsupported for a driver that says nothing.
	Health(ctx context.Context, d DRADriver, event func([]claims.Report), done func(error))
	// Prepare prepares claims (NodePrepareResources). Unprepare undoes it (NodeUnprepareResources). Both are idempotent.
	// The answers are by the UIDs of the claims; a driver may have left some out.
	Prepare(ctx context.Context, d DRADriver, of []claims.Object, done func(map[types.UID]claims.Answer, error))
	Unprepare(ctx context.Context, d DRADriver, of []claims.Object, done func(map[types.UID]claims.Answer, error))
}

// DRADriver is a driver that has registered.
type DRADriver struct {
	Name string
	// Endpoint is the path of its socket, Service the version of the API that it is called with.
	Endpoint, Service string
	// Gone: it can't be called any more.
	Gone bool
}

// ResourceSlices are those of this node in the API. The calling convention is Runtime's, and all errors are *Error.
type ResourceSlices interface {
	// SliceDrivers lists the DRA drivers that have slices.
	SliceDrivers(ctx context.Context, done func(drivers []string, err error))
	// DeleteSlices deletes all of one driver.
	DeleteSlices(ctx context.Context, driver string, done func(error))
}
