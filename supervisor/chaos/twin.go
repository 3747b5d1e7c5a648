package chaos

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// compared is the result of a case, with what its twin shows to be wrong.
func compared(r, twin *Result) *Result {
	if len(r.Violations) > 0 {
		return r
	}
	for id, why := range map[string]string{ // order-free: one is told
		isolated: Beside(r, twin), frugal: Excess(r, twin), unchanged: Unchanged(r, twin),
	} {
		if why != "" {
			r.Violations = []invariants.Violation{{ID: id, What: why}}
		}
	}
	return r
}

// What a case may cost more than its twin: a fault has something done again, and what goes on for
// longer has probes that fail and containers that crash meanwhile.
const (
	callsAnyway    = 10
	callsPerFault  = 10
	callsPerMinute = 10
)

// Excess compares the calls of a result with those of its twin: faults cost few calls more that
// change something in the apiserver or in the runtime.
func Excess(r, twin *Result) string {
	if slices.ContainsFunc(r.Case.Ops, func(o plan.Op) bool { return o.Verb == plan.Restore }) {
		return "" // the agent writes until versions have caught up with those that it knows
	}
	if r.Case.Disks+r.Case.Devices > 0 {
		return "" // another pod may be evicted, or refused
	}
	longer := max(0, r.Simulated-twin.Simulated)
	more := callsAnyway + callsPerFault*len(r.Reached) + int(callsPerMinute*longer/time.Minute)
	for _, of := range []struct {
		what      string
		is, usual int
	}{{"apiserver", r.Writes, twin.Writes}, {"runtime", r.Changes, twin.Changes}} {
		if of.is > of.usual+more {
			return fmt.Sprintf("%d calls changed something in the %s, and %d without faults: %d faults excuse %d more",
				of.is, of.what, of.usual, len(r.Reached), more)
		}
	}
	return ""
}

// again is one in how many cases is run twice.
const again = 200

// twice guards that threads are counted by one case at a time.
var twice sync.Mutex

// repeated runs a case again on another number of threads, and compares the runs.
func repeated(c *plan.Case, r *Result) *Result {
	if len(r.Violations) > 0 {
		return r
	}
	twice.Lock()
	defer twice.Unlock()
	threads := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(threads + 1)
	defer runtime.GOMAXPROCS(threads)
	if next := Run(c); next.Hash != r.Hash {
		r.Violations = []invariants.Violation{{
			ID:   sameAgain,
			What: fmt.Sprintf("the run of the case has hash %x, and on another number of threads %x", r.Hash, next.Hash),
		}}
	}
	return r
}
