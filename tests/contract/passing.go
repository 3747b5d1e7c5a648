package contract

import (
	"context"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Passing is how time passes for a subject; its fields are as in Subject.
type Passing struct {
	Now     func() time.Time
	Step    func() bool
	Advance func(time.Duration)
	Context func() (context.Context, context.CancelFunc)
}

// Really is the machine's own time.
func Really() Passing { return Passing{Now: time.Now} }

// Virtually is time that passes when a test says so, on its own goroutine.
func Virtually() (*kernel.Virtual, Passing) {
	v := kernel.NewVirtual(7, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return v, Passing{Now: v.Now, Advance: v.Advance, Context: Ends(v), Step: func() bool {
		asked := 0
		return v.RunUntil(v.Now().AddDate(1, 0, 0), func() bool { asked++; return asked > 1 })
	}}
}

// Ends makes contexts that end on the goroutine of the test.
func Ends(clock kernel.Clock) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) {
		ctx, end := kernel.NewContext(clock)
		return ctx, func() { end(context.Canceled) }
	}
}

func (p Passing) suite(t *testing.T) *suite {
	return &suite{T: t, Subject: Subject{Now: p.Now, Step: p.Step, Advance: p.Advance, Context: p.Context}}
}
