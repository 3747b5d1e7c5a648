package podplan

import (
	"math"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
)

// Overdue is when a pod that the node ends by its own decision is overdue, and whether users were
// told. It is zero until such a pod is being stopped. Lost with the actor: users are told again.
type Overdue struct {
	At    time.Time
	Noted bool
}

// leastPatience is the least time after which a pod is overdue. Longer grace periods have half as
// much again (kubelet, killPodNow).
const leastPatience = 10 * time.Second

// noteOverdue emits one event if a pod that the node ends still has a container
// or a sandbox when its grace period is well over: the runtime did not kill them. The kubelet tells
// of evictions, preemptions and the shutdown of the node alone, and so does this. A grace period
// that is shortened later changes nothing. Of a pod that was being deleted already, the rest of its grace
// period counts, from when the node decided to end it.
func (p *planner) noteOverdue() {
	o := &p.out.Overdue
	if o.Noted || !p.in.Stop.ByNode() {
		return
	}
	if o.At.IsZero() {
		decided := p.in.Stop.DecidedAt()
		o.At = overdueAt(decided, max(0, p.in.Stop.Grace-decided.Sub(p.in.Stop.At)), p.now)
	}
	if p.due(o.At) {
		o.Noted = true
		p.note(Note{
			Warning: true, Reason: podlife.ReasonOverdue,
			Message: "Container runtime did not kill the pod within specified grace period.",
		})
	}
}

func overdueAt(began time.Time, grace time.Duration, now time.Time) time.Time {
	if began.After(now) {
		began = now // the clock was set back since then
	}
	if grace > math.MaxInt64/3*2 {
		return began.Add(math.MaxInt64)
	}
	return began.Add(max(grace+grace/2, leastPatience))
}
