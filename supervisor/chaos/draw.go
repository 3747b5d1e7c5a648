package chaos

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Draw makes the case of a seed. It runs the case without faults first, the twin: faults are
// drawn from the points that it came through.
func Draw(seed uint64, p plan.Profile) (c *plan.Case, twin *Result) {
	c = plan.Expand(seed, p)
	twin = Run(c, WithPoints())
	if len(twin.Points) == 0 {
		return c, twin
	}
	faulty := *c
	faulty.Faults = plan.Faults(seed, p, twin.points())
	return &faulty, twin
}

// points are where each stream could be struck, one slice each.
func (r *Result) points() map[plan.Stream][]plan.Fault {
	out := map[plan.Stream][]plan.Fault{}
	for _, p := range r.Points {
		out[p.Stream] = append(out[p.Stream], plan.Fault{Stream: p.Stream, Subject: p.Subject, Role: p.Role, N: p.N})
	}
	return out
}

// isolation is how much later than in the twin a pod may be Ready that no fault names.
const (
	isolationFactor = 1.5
	isolationSlack  = 2 * time.Second
)

// Beside compares a result with its twin: a pod that no fault names is Ready as soon as it
// is without faults, and its containers restart no more often. Faults that strike more than their pod (the
// agent, the runtime, an actor of all pods, the apiserver as a whole) name every pod.
func Beside(r, twin *Result) string {
	if r.Case.Nodes > 0 {
		return "" // the names of the pods are random, and they may be on other nodes
	}
	if r.Case.Disks+r.Case.Devices > 0 || r.Case.CSI != "" {
		return "" // another pod may be evicted or refused, or wait for the same volume
	}
	for i := range r.Case.Ops {
		switch r.Case.Ops[i].Verb {
		case plan.Pause, plan.Suspend, plan.Power, plan.DownRuntime, plan.Restart, plan.CutOff, plan.NoAnswers,
			plan.NoWatches, plan.Restore:
			return "" // what is a little later may be kept by it for as long as it takes
		default:
		}
	}
	named, disturbed := map[string]bool{}, map[string]bool{}
	for i := range r.Case.Ops {
		switch o := &r.Case.Ops[i]; o.Verb {
		case plan.Exit, plan.OOM, plan.EndSandbox, plan.LoseTask, plan.Vanish, plan.Image:
			disturbed[o.Role.Pod] = true // what is done may meet another container than in the twin
		default:
		}
	}
	for i := range r.Case.Faults {
		f := &r.Case.Faults[i]
		switch f.Effect.Do {
		case plan.KillAgent, plan.KillAfter, plan.KillRuntime:
			return ""
		default:
		}
		if f.Role.Pod == "" || f.Stream == plan.Call && f.Subject == simcri.PullImage.String() {
			return "" // others may need the image too
		}
		named[f.Role.Pod] = true
	}
	for _, name := range sorted(twin.Ready) {
		usual, took := twin.Ready[name], r.Ready[name]
		if named[name] || took == 0 {
			continue
		}
		if took > time.Duration(isolationFactor*float64(usual))+isolationSlack {
			return fmt.Sprintf("pod %s was Ready after %s, without the faults of other pods after %s", name, took, usual)
		}
	}
	for _, name := range sorted(r.Restarts) {
		if n, usual := r.Restarts[name], twin.Restarts[name]; n > usual && !named[name] && !disturbed[name] {
			return fmt.Sprintf("containers of pod %s were restarted %d times, without the faults of other pods %d times",
				name, n, usual)
		}
	}
	return ""
}
