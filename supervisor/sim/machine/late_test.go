package machine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// faulty is a machine on which every call of a verb goes wrong.
func faulty(verb string, f Fault) (*kernel.Virtual, *Machine) {
	v := kernel.NewVirtual(1, epoch)
	m := New(v, &port.Machine{})
	m.SetFault(func(c Call) Fault {
		if c.Verb == verb {
			return f
		}
		return Fault{}
	})
	return v, m
}

// TestAnswerLate: a late answer says what was there when the call was done, and comes although
// the caller gave up.
func TestAnswerLate(t *testing.T) {
	v, m := faulty("LoadCheckpoint", Fault{AnswerLate: time.Minute})
	m.Checkpoints.Put("pods", []byte("old"))
	ctx, cancel := context.WithCancel(context.Background())
	var got string
	m.Checkpoints.Load(ctx, "pods", func(data []byte, err error) { got = string(data) + " " + errText(err) })
	v.Advance(time.Second)
	m.Checkpoints.Put("pods", []byte("new"))
	cancel()
	v.Advance(58 * time.Second)
	check.Equal(t, got, "", "it is answered already")
	v.Advance(2 * time.Second)
	check.Equal(t, got, "old nil", "it said")
}

// TestWorkLate: a call is done late although the caller gave up; without the fault it is not
// done.
func TestWorkLate(t *testing.T) {
	for _, late := range []time.Duration{0, time.Minute} {
		v, m := faulty("SaveCheckpoint", Fault{WorkLate: late})
		ctx, cancel := context.WithCancel(context.Background())
		said := ""
		m.Checkpoints.Save(ctx, "pods", []byte("new"), func(err error) { said = errText(err) })
		cancel()
		v.Advance(59 * time.Second)
		if got := m.Checkpoints.Get("pods"); got != nil {
			t.Errorf("late by %v: it is done already: %s", late, got)
		}
		v.Advance(2 * time.Second)
		want, answer := "", "canceled"
		if late > 0 {
			want, answer = "new", "nil"
		}
		if got := string(m.Checkpoints.Get("pods")); got != want || said != answer {
			t.Errorf("late by %v: it is %q, and said %s", late, got, said)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return "nil"
	}
	if e, ok := errors.AsType[*port.Error](err); ok {
		return e.Kind.String()
	}
	return err.Error()
}
