package actortest

import (
	"context"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Ending is a context of an effect that ends on the test's own goroutine.
type Ending struct {
	endsHere
	End func(error)
}

type endsHere interface {
	context.Context
	AfterFunc(func()) func() bool
}

// NewEnding makes one that goes by a clock.
func NewEnding(clock kernel.Clock) Ending {
	ctx, end := kernel.NewContext(clock)
	return Ending{ctx.(endsHere), end}
}
