package contract

import (
	"context"
	"testing"
	"time"
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

func (p Passing) suite(t *testing.T) *suite {
	return &suite{T: t, Subject: Subject{Now: p.Now, Step: p.Step, Advance: p.Advance, Context: p.Context}}
}
