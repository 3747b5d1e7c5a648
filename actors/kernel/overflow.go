package kernel

import "time"

// overflowPause gives a full mailbox time to empty before the lost messages are asked for.
const overflowPause = 100 * time.Millisecond

// Missed lets an OverflowHandler ask once for the messages that its mailbox dropped. The zero value
// is ready for use.
type Missed[M any] struct{ asking bool }

// Ask sends m to the actor after a pause. It does nothing while an earlier m has not been received:
// the answers may fill the mailbox again, and each overflow would ask for them once more.
func (s *Missed[M]) Ask(ctx *Context[M], m M) {
	if !s.asking {
		s.asking = true
		ctx.After(overflowPause, m)
	}
}

// Asked says that m was received. The next overflow asks again.
func (s *Missed[M]) Asked() { s.asking = false }
