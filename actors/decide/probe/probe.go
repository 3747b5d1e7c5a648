// Package probe decides when a container is probed, what is asked, what the answers mean
// (thresholds, delays, the startup probe that holds back the others), and what users read of them.
//
// Everything is by container ID. A restarted container is a new one, without a history.
package probe

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kind is the kind of a probe.
type Kind uint8

const (
	Startup Kind = iota
	Liveness
	Readiness
	// Kinds is the number of kinds.
	Kinds
)

// String is the kind as events name it.
func (k Kind) String() string { return [...]string{"Startup", "Liveness", "Readiness"}[k] }

// Of returns the container's probe of a kind, nil if it has none.
func Of(c *v1.Container, k Kind) *v1.Probe {
	switch k {
	case Startup:
		return c.StartupProbe
	case Liveness:
		return c.LivenessProbe
	default:
		return c.ReadinessProbe
	}
}

// Any says whether a container has a probe.
func Any(c *v1.Container) bool {
	return c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil
}

// Rules are the times and thresholds of one probe (API type Probe), with the API's defaults.
type Rules struct {
	Kind                   Kind
	InitialDelay, Period   time.Duration
	Timeout                time.Duration
	SuccessRun, FailureRun int32
	// Hurry is the delay of an extra run after the first failure, until the container has passed once.
	// It doubles each time.
	Hurry time.Duration
	// Grace is terminationGracePeriodSeconds, nil for the pod's.
	Grace *int64
}

// An extra run of a command costs the machine far more than one of a connection.
const (
	hurryExec    = time.Second
	hurryNetwork = 100 * time.Millisecond
)

// RulesOf reads a probe.
func RulesOf(k Kind, p *v1.Probe) Rules {
	or := func(v, otherwise int32) int32 {
		if v <= 0 {
			return otherwise
		}
		return v
	}
	r := Rules{
		Kind:         k,
		InitialDelay: time.Duration(max(p.InitialDelaySeconds, 0)) * time.Second,
		Period:       time.Duration(or(p.PeriodSeconds, 10)) * time.Second,
		Timeout:      time.Duration(or(p.TimeoutSeconds, 1)) * time.Second,
		SuccessRun:   or(p.SuccessThreshold, 1),
		FailureRun:   or(p.FailureThreshold, 3),
		Hurry:        hurryNetwork,
		Grace:        p.TerminationGracePeriodSeconds,
	}
	if p.Exec != nil {
		r.Hurry = hurryExec
	}
	return r
}

// Verdict is the outcome of one run of a probe.
type Verdict uint8

const (
	Passed Verdict = iota + 1
	// Warned is passed, with a warning for users.
	Warned
	Failed
	// Errored: the probe could not be run, so it says nothing about the container.
	Errored
)

func (v Verdict) String() string {
	return [...]string{"none", "passed", "warned", "failed", "errored"}[v]
}

// Answer is what one run of a probe returned.
type Answer struct {
	Verdict Verdict
	// Output is shown to users.
	Output string
	// State is what events call the state of an Errored probe; empty for unknown.
	State string
}

// phase is the state of one probe of one container.
//
//	idle ──begin──► active ──answers──► active …
//	                   ├── startup: passed, or failed ──► over
//	                   ├── liveness: failed ────────────► over
//	                   └── either: being stopped ───────► over
type phase uint8

const (
	idle phase = iota
	active
	over
)

// State is the state of one probe of one container. Times are Unix nanoseconds, 0 for none: a
// simulation holds hundreds of thousands of these.
type State struct {
	// Result is the result that counts: from the last row of answers that reached its threshold.
	Result Result
	phase  phase
	// passed is the last answer that counted. row is how many in a row were the same, up to the
	// threshold.
	passed bool
	// hurried is the number of extra runs.
	hurried uint8
	row     int32
	// due is the next regular run, hurry an extra run before it.
	// Invariant: hurry == 0 || hurry < due.
	due, hurry int64
	// patience is until when failures of a container that never passed neither count nor are reported.
	patience int64
	// ran is when the last run began.
	ran int64
}

// Check says that its invariant does not hold.
func (s *State) Check() error {
	if s.hurry != 0 && s.hurry >= s.due {
		return fmt.Errorf("probe: hurry == 0 || hurry < due: hurry is %d, due %d", s.hurry, s.due)
	}
	return nil
}

// Probe is a probe with its state.
type Probe struct {
	Rules
	State
}

// Due is when the probe runs next, in Unix nanoseconds; 0 for never.
func (p *Probe) Due() int64 {
	if p.hurry != 0 && p.hurry < p.due {
		return p.hurry
	}
	return p.due
}

// Grid gives the times of the regular runs on a node: multiples of Tick after Phase. Probes that
// are due at the same time cost one wake-up.
type Grid struct{ Tick, Phase time.Duration }

// next is the first time of the grid at or after t.
func (g Grid) next(t int64) int64 {
	if g.Tick <= 0 {
		return t
	}
	tick := int64(g.Tick)
	if off := (t - int64(g.Phase)) % tick; off > 0 {
		return t + tick - off
	} else if off < 0 {
		return t - off
	}
	return t
}

// begin starts the schedule. The first run is at first, the others one period apart on the grid.
// With patience, failures before the second regular run do not count.
func (p *Probe) begin(first int64, patience bool) {
	p.phase, p.row, p.hurried, p.hurry, p.patience = active, 0, 0, 0, 0
	p.due = first
	if patience {
		p.patience = first + int64(p.Period)
	}
}

func (p *Probe) end() { p.phase, p.due, p.hurry = over, 0, 0 }

// Begun notes that the probe runs now. A late run does not delay the runs after it.
func (p *Probe) Begun(now time.Time, g Grid) {
	p.ran = now.UnixNano()
	p.Skipped(now, g)
}

// Skipped notes that a due run is skipped, because the last one has not ended yet.
func (p *Probe) Skipped(now time.Time, g Grid) {
	at := now.UnixNano()
	p.hurry = 0
	if p.due == 0 || p.due > at {
		return
	}
	period := int64(p.Period)
	p.due = g.next(p.due + ((at-p.due)/period+1)*period)
}

// answered takes in one answer. It says whether it counts, and whether the result changed.
func (p *Probe) answered(v Verdict, now time.Time) (counted, changed bool) {
	if p.phase != active {
		return false, false
	}
	ok := v == Passed || v == Warned
	if !ok && p.ran < p.patience {
		p.row = 0
		p.hurryUp(now.UnixNano())
		return false, false
	}
	if v == Errored {
		return true, false
	}
	if ok {
		p.patience, p.hurry = 0, 0
	}
	limit := p.FailureRun
	if ok {
		limit = p.SuccessRun
	}
	if p.passed != ok {
		p.passed, p.row = ok, 0
	}
	if p.row = min(p.row+1, limit); p.row < limit {
		return true, false
	}
	was := p.Result
	p.Result = Failure
	if ok {
		p.Result = Success
	}
	if p.Kind == Startup || p.Kind == Liveness && !ok {
		p.end()
	}
	return true, p.Result != was
}

// hurryUp schedules an extra run for a container that has not passed yet, with growing delays. A
// server needs a moment until it listens, and users should not wait a whole period for that.
func (p *Probe) hurryUp(now int64) {
	if next := now + int64(p.Hurry)<<min(p.hurried, 20); next < p.patience && next < p.due {
		p.hurry = next
		p.hurried++
	}
}
