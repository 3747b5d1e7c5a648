package simcri

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
)

// execOutputLimit is how much of a command's output ExecSync returns, in bytes.
const execOutputLimit = 64 << 10

// ExecSync implements port.Runtime. The end of the container ends the command too (exit code
// 137). Without a timeout a hanging command runs until the call is cancelled.
func (r *Runtime) ExecSync(
	ctx context.Context, id string, words port.Command, timeout time.Duration, done func(port.ExecResult, error),
) {
	call := r.containerCall(ExecSync, id)
	command, wrong := words(containerplan.MaxExpanded)
	if len(command) > 0 {
		call.Command = command[0]
	}
	r.begin(ctx, call,
		func(err error) { done(port.ExecResult{}, err) }, nil,
		func(o *op) {
			if wrong != nil {
				o.Refusef(port.InvalidConfig, wrong.Error())
				return
			}
			c := r.containers[id]
			if c == nil {
				o.Refusef(port.NotFound, "no such container")
				return
			}
			if c.state != containerRunning {
				o.Refusef(port.StateConflict, "the container is "+c.observedState().String())
				return
			}
			answer := c.script.exec(command)
			delay := answer.Delay.Sample(r.scr)
			if k := c.askedBy(command); k != 0 {
				h := &c.script.Health
				delay += h.Delay.Sample(r.scr)
				answer.Hang = answer.Hang || h.Hang
				if !c.serves(k, r.ran(c)) {
					answer.ExitCode, answer.Stdout = 1, "not serving"
				}
			}
			var stopTimer func() bool
			stopWaiting := c.onExit(func() {
				if stopTimer != nil {
					stopTimer()
				}
				o.Reply(func() { done(port.ExecResult{ExitCode: exitKilled}, nil) })
			})
			switch {
			case timeout > 0 && (answer.Hang || delay > timeout):
				stopTimer = r.after(timeout, func() {
					stopWaiting()
					o.Refusef(port.Deadline, fmt.Sprintf("timeout %v exceeded", timeout))
				})
			case !answer.Hang:
				stopTimer = r.after(delay, func() {
					stopWaiting()
					result := port.ExecResult{ExitCode: answer.ExitCode, Stdout: limited(answer.Stdout),
						Stderr: limited(answer.Stderr)}
					o.Reply(func() { done(result, nil) })
				})
			}
			o.Undo = func() {
				if stopTimer != nil {
					stopTimer()
				}
				stopWaiting()
			}
		})
}

func limited(s string) []byte {
	return []byte(s[:min(len(s), execOutputLimit)])
}
