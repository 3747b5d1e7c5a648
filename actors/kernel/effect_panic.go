package kernel

import (
	"fmt"
	"runtime/debug"
)

// effectPanic is delivered instead of a result if an effect's Run or Expired panicked. It crashes
// the owner, on whatever goroutine the code ran.
type effectPanic struct{ what, reason, stack string }

// guard calls f, and tells the owner of a panic.
func (e *effect) guard(what string, f func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		r := recover()
		e.owner.deliver(envelope{msg: &effectPanic{
			what:   what + " of effect " + e.Kind,
			reason: fmt.Sprint(r),
			stack:  trimStack(string(debug.Stack())),
		}})
	}()
	f()
	return true
}
