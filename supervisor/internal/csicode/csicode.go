// Package csicode says what the gRPC codes of CSI drivers mean: for the adapter of real drivers and the simulated ones.
package csicode

import (
	"google.golang.org/grpc/codes"

	"github.com/troupe-dev/troupe/actors/port"
)

// Kind is the kind of the error of a call that a driver has answered with a code. port.CSIOutcome says of a kind what
// the call may have done.
//
//	no answer                    Canceled, DeadlineExceeded, Unavailable
//	not now                      ResourceExhausted: the driver has no room for another call
//	an earlier call is under way Aborted (CSI spec)
//	final                        all others
func Kind(c codes.Code) port.ErrorKind {
	switch c { //nolint:exhaustive // the others are final
	case codes.Canceled:
		return port.Canceled
	case codes.DeadlineExceeded:
		return port.Deadline
	case codes.Unavailable:
		return port.Unavailable
	case codes.ResourceExhausted:
		return port.TooManyRequests
	case codes.Aborted:
		return port.NameReserved
	default:
		return port.Other
	}
}

// Expansion is Kind for NodeExpandVolume: a size that a driver calls wrong can never be given (port.Invalid), as for a
// kubelet.
func Expansion(c codes.Code) port.ErrorKind {
	switch c { //nolint:exhaustive // the others may go away
	case codes.InvalidArgument, codes.OutOfRange, codes.NotFound:
		return port.Invalid
	default:
		return Kind(c)
	}
}
