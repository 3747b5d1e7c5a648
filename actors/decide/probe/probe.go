// Package probe decides when a container is probed and what the answers mean:
// thresholds, delays, the gate that a startup probe is to the others, what is
// asked, and what users read of it.
//
// Everything is by container ID: a container that is started again is another
// one, of which nothing is known.
package probe

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kind is which of a container's probes it is.
type Kind uint8

const (
	Startup Kind = iota
	Liveness
	Readiness
	// Kinds is how many there are.
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

// Rules are the times and thresholds of one probe (API type Probe), with the
// API's defaults where it gives none.
type Rules struct {
	Kind                   Kind
	InitialDelay, Period   time.Duration
	Timeout                time.Duration
	SuccessRun, FailureRun int32
	// Hurry is how long after a first failure it is tried again out of turn,
	// while the container has yet to pass; each further time takes twice as long.
	Hurry time.Duration
	// Grace is terminationGracePeriodSeconds, nil for the pod's.
	Grace *int64
}

// Out of turn, a command costs the machine far more than a connection.
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

// Verdict is what one run of a probe says.
type Verdict uint8

const (
	Passed Verdict = iota + 1
	// Warned is passed, with something that users should know.
	Warned
	Failed
	// Errored says nothing of the container: it could not be asked.
	Errored
)

func (v Verdict) String() string {
	return [...]string{"none", "passed", "warned", "failed", "errored"}[v]
}

// Answer is what one run of a probe gave.
type Answer struct {
	Verdict Verdict
	// Output is for people.
	Output string
}

// phase is where one probe of one container stands.
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

// State is one probe of one container. Times are Unix nanoseconds, 0 for none:
// a simulation holds hundreds of thousands of these.
type State struct {
	// Result is what counts: that of the last row of answers that was long enough.
	Result Result
	phase  phase
	// passed is what the last answer that counted was, row how many in a row
	// were alike, up to the threshold.
	passed bool
	// hurried is how many runs were out of turn.
	hurried uint8
	row     int32
	// due is when the next run in turn is, hurry when one before that is.
	// Invariant: hurry == 0 || hurry < due, but while a run is late.
	due, hurry int64
	// patience is until when a container that never passed fails nothing: such
	// failures neither count nor are told.
	patience int64
	// ran is when the last run began.
	ran int64
}

// Probe is a probe and where it stands.
type Probe struct {
	Rules
	State
}

// Due is when the probe is to be run next, in Unix nanoseconds; 0 for never.
func (p *Probe) Due() int64 {
	if p.hurry != 0 && p.hurry < p.due {
		return p.hurry
	}
	return p.due
}

// Grid is the times at which the probes of one node run in turn: multiples of
// Tick after Phase. Probes that are due at one time cost one wake-up.
type Grid struct{ Tick, Phase time.Duration }

// next is the first time of the grid that isn't before t.
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

// begin starts the schedule: the first run is at first, those after it one
// period apart on the grid. With patience, failures before the first that comes
// in turn after it do not count.
func (p *Probe) begin(first int64, patience bool) {
	p.phase, p.row, p.hurried, p.hurry, p.patience = active, 0, 0, 0, 0
	p.due = first
	if patience {
		p.patience = first + int64(p.Period)
	}
}

func (p *Probe) end() { p.phase, p.due, p.hurry = over, 0, 0 }

// Begun notes that the probe is run now: what was due is done with. A run that
// is late delays none of those after it.
func (p *Probe) Begun(now time.Time, g Grid) {
	p.ran = now.UnixNano()
	p.Skipped(now, g)
}

// Skipped notes that the probe is not run although it is due: its last run has
// yet to end.
func (p *Probe) Skipped(now time.Time, g Grid) {
	at := now.UnixNano()
	p.hurry = 0
	if p.due == 0 || p.due > at {
		return
	}
	period := int64(p.Period)
	p.due = g.next(p.due + ((at-p.due)/period+1)*period)
}

// answered takes in one answer. It says whether it counted, and whether the
// result is another now.
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

// hurryUp has a container that has yet to pass tried again before its turn, ever
// more seldom: a server needs a moment until it listens, and nobody shall wait a
// whole period for that.
func (p *Probe) hurryUp(now int64) {
	if next := now + int64(p.Hurry)<<min(p.hurried, 20); next < p.patience && next < p.due {
		p.hurry = next
		p.hurried++
	}
}
