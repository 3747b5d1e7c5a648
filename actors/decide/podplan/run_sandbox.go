package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// RunSandbox makes the sandbox with this attempt number.
type RunSandbox struct{ Attempt uint32 }

func (RunSandbox) Lane() Lane               { return Lane{Kind: LaneSandbox} }
func (RunSandbox) About() (name, id string) { return "", "" }
func (RunSandbox) Changes() bool            { return true }
func (RunSandbox) begun(*Facts, time.Time)  {}

func (a RunSandbox) succeeded(f *Facts, s Situation, r Result, _ bool) {
	f.changes += birth
	if f.Sandbox(r.NewID) == nil {
		f.View.Sandboxes = append(f.View.Sandboxes, observed.Sandbox{
			ID: r.NewID, Pod: s.Ref, Attempt: a.Attempt, State: observed.SandboxReady, CreatedAt: s.Now,
		})
	}
	f.View.Sort()
}

func (RunSandbox) failed(*Facts, Problem) string { return "CreatePodSandboxError" }

func (RunSandbox) isAction() {}
func (RunSandbox) isEffect() {}
