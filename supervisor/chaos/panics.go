package chaos

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// struck is told of each fault that strikes.
func (r *runner) struck(node string, f *plan.Fault) {
	if f.Panics() {
		r.panicked[f.Role.Pod] = true
	}
	r.rec.fault(node, f)
}

// crashed is each crash of an actor, and each call that panicked for one that goes on.
func (r *runner) crashed(c *kernel.CrashReport) {
	if c.Decision == kernel.Contained {
		return
	}
	r.touches(c)
	r.out.Crashes++
	r.on(agent.NodeOf(c.Path)).rules.Crashed(c.RetryAfter)
}

// inconsistent is told of each invariant of an actor that does not hold.
func (r *runner) inconsistent(v *kernel.Violation) {
	r.violated(invariants.Violation{ID: consistent, At: r.v.Now(), What: v.String()})
}

// touches holds that a panic within a port crashes no actor but that of the pod that the port was called for.
func (r *runner) touches(c *kernel.CrashReport) {
	if r.bare || !strings.Contains(c.Reason, Planted) || !strings.HasPrefix(c.Message, kernel.WorkOfEffect) {
		return
	}
	if name := r.nameOf(types.UID(c.Path[strings.LastIndexByte(c.Path, '/')+1:])); name != "" {
		if r.panicked[r.role(name)] || r.panicked[""] {
			return
		}
	}
	r.violated(invariants.Violation{ID: contained, At: r.v.Now(), What: fmt.Sprintf(
		"%s crashed (%s, %v), and the port that panicked was not called for it", c.Path, c.Message, c.Decision)})
}

// Unchanged compares a result whose faults are calls that take much memory, and nothing else, with its twin: they are
// the same run, unless one of them is longer, as its agent was killed at rest.
func Unchanged(r, twin *Result) string {
	other := func(f plan.Fault) bool { return f.Effect.Do != plan.Allocate }
	if len(r.Case.Faults) == 0 || slices.ContainsFunc(r.Case.Faults, other) || r.Hash == twin.Hash ||
		r.Simulated != twin.Simulated {
		return ""
	}
	return fmt.Sprintf("the run has hash %x, and %x without the calls that take much memory", r.Hash, twin.Hash)
}
