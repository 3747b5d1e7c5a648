package sim

import "time"

// Now is the time on the node's wall clock. It is the world's until StepClock.
func (n *Node) Now() time.Time { return n.clock.Now() }

// StepClock sets the machine's wall clock forward by d, or back if d is negative, as NTP or a person
// does. The agent and the runtime see it in the next time that they read. Their timers don't, nor do
// durations that they measure, nor the apiserver, whose clock is its own.
func (n *Node) StepClock(d time.Duration) { n.clock.Step(d) }

// PauseAgent stops the agent's process for d, as SIGSTOP and SIGCONT do: whatever comes for it
// meanwhile it has at once afterwards. The machine goes on. Of pauses that overlap the longest counts.
// It does nothing to an agent that is dead, nor to the next one.
func (n *Node) PauseAgent(d time.Duration) {
	r, until := n.Runner(), n.world.Now().Add(d)
	if r == nil {
		return
	}
	r.Pause()
	if until.After(n.paused) {
		n.paused = until
	}
	n.world.clock.AfterFunc(d, func() {
		if !n.world.Now().Before(n.paused) {
			r.Resume()
		}
	})
}

// Suspend lets the whole machine sleep for d, as a laptop or a virtual machine does: agent, runtime
// and containers stand still, their timers are late by d, and only the wall clock goes on.
func (n *Node) Suspend(d time.Duration) {
	n.PauseAgent(d)
	n.clock.Suspend(d)
}
