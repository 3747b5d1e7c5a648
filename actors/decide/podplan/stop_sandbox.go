package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// StopSandbox stops a sandbox and all that still runs in it, and frees its network.
type StopSandbox struct {
	ID  string
	Why string
}

func (StopSandbox) Lane() Lane               { return Lane{Kind: LaneSandbox} }
func (StopSandbox) About() (name, id string) { return "", "" }
func (StopSandbox) Changes() bool            { return true }
func (StopSandbox) begun(*Facts, time.Time)  {}

func (a StopSandbox) succeeded(f *Facts, _ Situation, _ Result, _ bool) {
	put(&f.SandboxStopped, a.ID, true)
	if s := f.Sandbox(a.ID); s != nil {
		s.State = observed.SandboxNotReady
	}
	for i := range f.View.Containers {
		// All that ran in it was killed with it.
		if c := &f.View.Containers[i]; c.SandboxID == a.ID && c.State == observed.ContainerRunning {
			f.Reread(c.ID)
		}
	}
}

func (StopSandbox) failed(*Facts, Problem) string { return "StopPodSandboxError" }

func (StopSandbox) isAction() {}
func (StopSandbox) isEffect() {}
