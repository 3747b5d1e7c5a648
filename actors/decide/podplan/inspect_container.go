package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// InspectContainer reads a container's details.
type InspectContainer struct {
	Name string
	ID   string
}

func (a InspectContainer) Lane() Lane               { return Lane{Kind: LaneInspect, Name: a.ID} }
func (a InspectContainer) About() (name, id string) { return a.Name, a.ID }
func (InspectContainer) Changes() bool              { return false }
func (InspectContainer) begun(*Facts, time.Time)    {}

func (a InspectContainer) succeeded(f *Facts, s Situation, r Result, outdated bool) {
	c, got := f.Container(a.ID), *r.Container
	if c == nil {
		return
	}
	if got.State != c.State && !wentOn(c.State, got.State) {
		// The answer is older than what is known. A runtime that keeps giving such answers isn't asked at
		// full speed.
		if !outdated {
			put(&f.Failures, a.Lane(), Failure{Count: 1, At: s.Now, Reason: RuntimeError,
				Message: "the runtime says " + got.State.String() + " of a container that is " + c.State.String()})
		}
		return
	}
	// The exit of a container is final. But while the pod keeps running it also matters what ended the
	// container. That is known when the call that made the answer outdated has returned.
	got.Detailed = !outdated || s.Stopping && got.State == observed.ContainerExited
	switch {
	case !f.Resized:
		got.Resources = nil // only few pods are resized, so this saves memory for the many
	case got.Resources == nil || outdated:
		got.Resources = c.Resources // the runtime may not report it, or the limits may have changed since
	}
	if got.SandboxID == "" {
		got.SandboxID = c.SandboxID // the CRI's container status doesn't have it
	}
	if got.StartedAt.IsZero() {
		got.StartedAt = c.StartedAt
	}
	*c = got
	f.expectOOM(c, s)
	f.View.Sort()
}

func (a InspectContainer) failed(f *Facts, _ Problem) string {
	delete(f.LookAgain, a.ID)
	return RuntimeError
}

// oomDelay is how long after an exit the runtime may still hear that it was an OOM kill: containerd
// gets the two events in either order.
const oomDelay = 500 * time.Millisecond

// expectOOM has a container inspected once more that was killed a moment ago, and not by this actor:
// that it was out of memory may show a moment later.
func (f *Facts) expectOOM(c *observed.Container, s Situation) {
	delete(f.LookAgain, c.ID)
	if c.State != observed.ContainerExited || !c.Detailed || c.ExitCode != exitKilled || c.Reason == podspec.OOMKilled {
		return
	}
	_, stopped := f.Stopped[c.ID]
	since := s.Now.Sub(c.FinishedAt)
	if stopped || s.Stopping || f.Busy.Has(Lane{Kind: LaneStop, Name: c.ID}) || since < 0 || since >= oomDelay {
		return
	}
	put(&f.LookAgain, c.ID, s.Now.Add(oomDelay))
}

const exitKilled = 137 // 128 + SIGKILL

func (InspectContainer) isAction() {}
func (InspectContainer) isEffect() {}
