package kernel

import (
	"fmt"
	"runtime/debug"
)

// effectPanic is delivered instead of a result if an effect's Run or Expired panicked, and before it if its work did.
// It crashes the actor, on whatever goroutine the code ran.
type effectPanic struct{ what, reason, detail, stack string }

// WorkOfEffect is the beginning of CrashReport.Message of a panic on a goroutine that an effect has started.
const WorkOfEffect = "work of effect "

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

// panicked tells of a panic of the work, on whatever goroutine that ran. It is a crash of the actor that the work is
// for, or else of its owner. One whose crashes would end more than itself, or with Policy.Contain, goes on: for it the
// call has failed.
func (e *effect) panicked(reason string, stack []byte) {
	c := e.owner
	p := &effectPanic{what: WorkOfEffect + e.Kind, reason: reason, stack: trimStack(string(stack))}
	p.detail = shorten("Object:"+e.Object+" Owner:"+c.path, detailLimit)
	if e.For != "" {
		if c = c.runner.ward(e.For); c != nil {
			c.deliver(envelope{msg: p})
			return
		}
		c = e.owner
	} else if c.policy.Beyond != Escalate && !c.policy.Contain {
		c.deliver(envelope{msg: p})
		return
	}
	c.sys.report(c, &CrashReport{
		Path: c.path, Kind: c.kind, At: c.sys.clock.Now(), Reason: p.reason, Message: p.what,
		Detail: shorten("Object:"+e.Object+" For:"+e.For, detailLimit), Stack: p.stack, Decision: Contained,
	})
}
