package live

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// Possible says what of a case can't be done on a real node, by name; nil if all can.
func (c *Config) Possible(of *plan.Case) error {
	var errs []error
	cannot := func(what string) {
		errs = append(errs, fmt.Errorf("this case needs %s, which is not possible on a real node", what))
	}
	if of.Standalone {
		cannot("standalone")
	}
	if of.Disks > 0 {
		cannot("pressure")
	}
	if of.CSI != "" {
		cannot("csi")
	}
	if of.NoEvents {
		cannot("no-events")
	}
	if of.Nodes > 0 {
		cannot("nodes")
	}
	if what := of.Schedule.String(); what != "" {
		cannot(strings.TrimSpace(what))
	}
	for i := range of.Ops {
		o := &of.Ops[i]
		switch o.Verb {
		case plan.Create, plan.Write:
			if _, err := c.pod(o, "", nil); err != nil {
				errs = append(errs, fmt.Errorf("%q: %w", o, err))
			}
			if o.Verb == plan.Write && c.Manifests == "" {
				errs = append(errs, fmt.Errorf("%q: a static pod needs the directory of manifests (--manifests)", o))
			}
		case plan.Delete, plan.Force, plan.Remove, plan.Image, plan.Exit, plan.OOM, plan.EndSandbox, plan.Restart,
			plan.Pause, plan.CutOff:
		case plan.DownRuntime:
			if c.KillRuntime == nil {
				errs = append(errs, fmt.Errorf("%q needs a command that kills the runtime (--kill-runtime)", o))
			}
		default:
			cannot(string(o.Verb))
		}
	}
	for i := range of.Faults {
		f := &of.Faults[i]
		if why := c.impossible(f); why != "" {
			cannot(why)
		}
	}
	return errors.Join(errs...)
}

// impossible names what a fault needs that can't be done; empty if it can.
func (c *Config) impossible(f *plan.Fault) string {
	switch f.Stream {
	case plan.Call:
		switch {
		case strings.HasPrefix(f.Subject, "Probe"), f.Subject == simcri.ContainerMemory.String():
			return "faults of " + f.Subject
		case f.Effect.Do == plan.Partial || f.InPort():
			return "call faults with " + string(f.Effect.Do)
		case f.Effect.Do == plan.KillRuntime && c.KillRuntime == nil:
			return "call faults with kill-runtime (without --kill-runtime)"
		}
	case plan.API:
		if f.InPort() {
			return "api faults with " + string(f.Effect.Do)
		}
	case plan.Event:
	default:
		return fmt.Sprintf("faults of the stream %s", f.Stream)
	}
	return ""
}
