package podplan

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// HookState is the progress of a hook.
type HookState uint8

const (
	HookNotRun HookState = iota
	HookRunning
	HookDone
	HookFailed
	// HookEnded: the hook was ended because its container must stop. Only for postStart: the container
	// has not started, and never will.
	HookEnded
)

// Hooks are the hooks of one container incarnation. An actor that adopts a running container sets
// PostStart to HookDone: the hook ran, or its failure was acted on.
type Hooks struct {
	PostStart HookState
	PreStop   HookState
	// PreStopAt is when the preStop hook began. Its time is part of the grace. An actor that inherits
	// a running hook takes the time from the effect.
	PreStopAt time.Time
	// Message is the failure's.
	Message string
}

// hookEffect is a lifecycle hook. It is not tried again, so its failure is no Failure of its lane.
type hookEffect interface {
	// over notes how the hook ended; problem is nil if it succeeded.
	over(f *Facts, problem *Problem)
}

// RunPostStart runs the postStart hook of a container that just started. It has no deadline (see
// Output.EndHooks).
type RunPostStart struct {
	Name    string
	ID      string
	Handler *v1.LifecycleHandler
}

func (a RunPostStart) Lane() Lane               { return Lane{Kind: LaneHook, Name: a.ID} }
func (a RunPostStart) About() (name, id string) { return a.Name, a.ID }
func (RunPostStart) Changes() bool              { return false }

func (a RunPostStart) begun(f *Facts, _ time.Time) {
	f.setHook(a.ID, func(h *Hooks) { h.PostStart = HookRunning })
}

func (a RunPostStart) succeeded(f *Facts, _ Situation, _ Result, _ bool) { a.over(f, nil) }

func (a RunPostStart) failed(f *Facts, p Problem) string {
	a.over(f, &p)
	return ""
}

func (a RunPostStart) over(f *Facts, problem *Problem) {
	f.setHook(a.ID, func(h *Hooks) {
		switch {
		case problem == nil:
			h.PostStart, h.Message = HookDone, ""
		case problem.Canceled:
			h.PostStart, h.Message = HookEnded, problem.Detail
		default:
			h.PostStart, h.Message = HookFailed, problem.Detail
		}
	})
}

// RunPreStop runs the preStop hook. The stop signal waits for it during Grace, the rest of the
// grace period. The hook itself may run until its container is dead (see Output.EndHooks).
type RunPreStop struct {
	Name    string
	ID      string
	Handler *v1.LifecycleHandler
	Grace   time.Duration
}

func (a RunPreStop) Lane() Lane               { return Lane{Kind: LaneHook, Name: a.ID} }
func (a RunPreStop) About() (name, id string) { return a.Name, a.ID }
func (RunPreStop) Changes() bool              { return false }

func (a RunPreStop) begun(f *Facts, now time.Time) {
	f.setHook(a.ID, func(h *Hooks) { h.PreStop, h.PreStopAt = HookRunning, now })
}

func (a RunPreStop) succeeded(f *Facts, _ Situation, _ Result, _ bool) { a.over(f, nil) }

func (a RunPreStop) failed(f *Facts, p Problem) string {
	a.over(f, &p)
	return ""
}

func (a RunPreStop) over(f *Facts, problem *Problem) {
	f.setHook(a.ID, func(h *Hooks) {
		if h.PreStop, h.Message = HookDone, ""; problem != nil {
			h.PreStop, h.Message = HookFailed, problem.Detail
		}
	})
}

func (RunPostStart) isAction() {}
func (RunPostStart) isEffect() {}
func (RunPreStop) isAction()   {}
func (RunPreStop) isEffect()   {}
