package assignments

import (
	"cmp"
	"fmt"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

func (a *assignments) loaded(ctx *kernel.Context[Message], m loaded) {
	if !a.files.IsUnderWay(m.id) {
		return
	}
	own, err := Read(a.deps.Rules, m.cpus)
	inMemory, wrong := ReadMemory(a.deps.Memory, m.memory)
	if err = cmp.Or(m.err, err, wrong); err != nil {
		// It was right when the agent started: see Read.
		ctx.Log().Error().Str("error", err.Error()).
			Msg("cannot read cpu_manager_state, memory_manager_state or the device checkpoint; new pods wait; retrying")
		a.files.End(false)
		ctx.After(checkpoint.RetryAfter, retry{})
		return
	}
	a.files.End(true)
	// A file that gives nothing to anybody is not there, or may be of another policy: programs read there which one it is.
	if a.own = own; len(own) == 0 && a.deps.Rules.Static() {
		a.changed.cpus = a.files.Changed()
	}
	if a.memory = inMemory; len(inMemory) == 0 && a.deps.Memory != nil {
		a.changed.memory = a.files.Changed()
	}
	a.given = a.readGiven(ctx, &m.given)
	a.countShared()
	if a.known() {
		a.begin(ctx)
	}
}

// begin handles what has come before all was known.
func (a *assignments) begin(ctx *kernel.Context[Message]) {
	for _, uid := range a.gone {
		a.release(ctx, uid)
	}
	if a.living != nil {
		a.drop(ctx, a.living)
	}
	waiting, asked := a.waiting, a.living != nil
	a.waiting, a.living, a.gone = nil, nil, nil
	a.decide(ctx, waiting...)
	if asked {
		a.announce()
	}
}

// Read is what a state file says that containers have to themselves. A node without the file has no data. The error
// says why this agent can't continue with it; the file stays as it is, because running containers have what it says.
func Read(rules *cpus.Rules, data []byte) (cpus.State, error) {
	if data == nil {
		return cpus.State{}, nil
	}
	s, err := cpus.Parse(data)
	if err != nil {
		return nil, err
	}
	if s.Policy != cpus.Static {
		if len(s.Own) > 0 {
			return nil, fmt.Errorf("it was written with cpuManagerPolicy %q, and has CPUs of %d pods", s.Policy, len(s.Own))
		}
		return cpus.State{}, nil
	}
	return s.Own, rules.Check(s.Own, s.Shared)
}
