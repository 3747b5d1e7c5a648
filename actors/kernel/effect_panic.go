package kernel

import (
	"fmt"
	"runtime/debug"
)

// effectPanic is what an actor gets, instead of a result, of an effect whose Run
// or Expired panicked: it crashes of it, wherever the code happened to run.
type effectPanic struct{ what, reason, stack string }

// guard calls f, and tells the owner if it panicked.
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
