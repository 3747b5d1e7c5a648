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

// panicked tells of a panic of the work, on whatever goroutine that ran. An owner that works for others goes on.
func (e *effect) panicked(reason string, stack []byte) {
	p := &effectPanic{what: "work of effect " + e.Kind, reason: reason, stack: trimStack(string(stack))}
	if e.For == "" {
		e.owner.deliver(envelope{msg: p})
		return
	}
	sys := e.owner.sys
	sys.report(e.owner, &CrashReport{
		Path: e.owner.path, Kind: e.owner.kind, At: sys.clock.Now(), Reason: p.reason, Message: p.what,
		Detail: shorten("Object:"+e.Object+" For:"+e.For, detailLimit), Stack: p.stack, Decision: Contained,
	})
}
