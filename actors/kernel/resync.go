package kernel

import "time"

// Resyncer is a Behavior that has lost what others told it, and asks them to send it again. Resync is called after
// Start in each incarnation but the first, and some time after messages were dropped because the mailbox was full: once
// for all that were dropped until then, because the answers may fill the mailbox again.
type Resyncer[M any] interface{ Resync(ctx *Context[M]) }

// overflowPause gives a full mailbox time to empty before the lost messages are asked for.
const overflowPause = 100 * time.Millisecond

// resync is the message for a Resyncer after the pause.
type resync struct{}

// overflowed tells the behavior that messages were dropped, and sees to it that they are asked for.
func (a *adapter[M]) overflowed() {
	if h, ok := a.behavior.(OverflowHandler[M]); ok {
		h.Overflowed(&a.ctx)
		a.check()
	}
	if _, ok := a.behavior.(Resyncer[M]); ok && !a.resyncing {
		a.resyncing = true
		a.ctx.after(overflowPause, resync{})
	}
}

// resync has the behavior ask for what it has lost.
func (a *adapter[M]) resync() {
	a.resyncing = false
	if r, ok := a.behavior.(Resyncer[M]); ok {
		r.Resync(&a.ctx)
	}
}
