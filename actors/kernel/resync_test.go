package kernel

import (
	"testing"
	"time"
)

// forgetful is a lab that asks for what it has lost.
type forgetful struct{ *lab }

func (f forgetful) Resync(ctx *Context[do]) { f.say("%s asks", ctx.Path()) }

func (b *bench) forgetful(name string) Ref[do] {
	spec := b.spec(name)
	construct := spec.New
	spec.New = func() Behavior[do] { return forgetful{construct().(*lab)} }
	spec.MailboxLimit = 2
	return b.root(spec)
}

// TestResyncAfterOverflow: a mailbox that overflows again before the lost messages were asked for, maybe by the answers,
// asks once.
func TestResyncAfterOverflow(t *testing.T) {
	b := newBench(t)
	r := b.forgetful("a")
	b.took()
	overflow := func() {
		for range 3 {
			r.Tell(func(*Context[do]) {})
		}
		b.Settle()
	}
	overflow()
	overflow()
	equal(t, "before the pause", b.took(), []string{"a overflowed", "a overflowed"})
	b.RunUntil(start.Add(time.Second), func() bool { return false })
	equal(t, "after it", b.took(), []string{"a asks"})
	overflow()
	b.RunUntil(start.Add(2*time.Second), func() bool { return false })
	equal(t, "at the next overflow", b.took(), []string{"a overflowed", "a asks"})
}

// TestResyncAfterRestart: each incarnation but the first asks, and the pause of an earlier one counts no more.
func TestResyncAfterRestart(t *testing.T) {
	b := newBench(t)
	r := b.forgetful("a")
	equal(t, "the first", b.took(), []string{"a start 1"})
	r.Tell(boom("oh"))
	r.Tell(func(*Context[do]) {})
	r.Tell(func(*Context[do]) {})
	b.RunUntil(start.Add(time.Minute), func() bool { return false })
	equal(t, "the next", b.took(), []string{"a overflowed", "a start 2", "a asks"})
}
