package sim

import (
	"time"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// tracers tells two tracers of everything.
type tracers struct{ a, b kernel.Tracer }

// traced is a, or a and b if there is one.
func traced(a, b kernel.Tracer) kernel.Tracer {
	if b == nil {
		return a
	}
	return tracers{a, b}
}

// Deliver implements kernel.Tracer.
func (t tracers) Deliver(at time.Time, path, name string, msg any) {
	t.a.Deliver(at, path, name, msg)
	t.b.Deliver(at, path, name, msg)
}

// Effect implements kernel.Tracer.
func (t tracers) Effect(at time.Time, path string, phase kernel.EffectPhase, e kernel.EffectInfo) {
	t.a.Effect(at, path, phase, e)
	t.b.Effect(at, path, phase, e)
}

// Crash implements kernel.Tracer.
func (t tracers) Crash(at time.Time, path string, r *kernel.CrashReport) {
	t.a.Crash(at, path, r)
	t.b.Crash(at, path, r)
}

// DeadLetter implements kernel.Tracer.
func (t tracers) DeadLetter(at time.Time, path, name string) {
	t.a.DeadLetter(at, path, name)
	t.b.DeadLetter(at, path, name)
}
