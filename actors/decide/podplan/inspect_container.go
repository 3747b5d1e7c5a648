package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
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
		// The answer is from before what is known already. A runtime that goes on
		// giving such answers isn't asked at full speed.
		if !outdated {
			put(&f.Failures, a.Lane(), Failure{Count: 1, At: s.Now, Reason: RuntimeError,
				Message: "the runtime says " + got.State.String() + " of a container that is " + c.State.String()})
		}
		return
	}
	// How it ended is final. While the pod goes on it matters as well who ended it:
	// that is known when the call has returned which made the answer outdated.
	got.Detailed = !outdated || s.Stopping && got.State == observed.ContainerExited
	switch {
	case !f.Resized:
		got.Resources = nil // there are many pods, and of few it is asked for
	case got.Resources == nil || outdated:
		got.Resources = c.Resources // not every runtime says; or it may have been given others since
	}
	if got.SandboxID == "" {
		got.SandboxID = c.SandboxID // the CRI doesn't say it with a status
	}
	if got.StartedAt.IsZero() {
		got.StartedAt = c.StartedAt
	}
	*c = got
	f.View.Sort()
}

func (InspectContainer) failed(*Facts, Problem) string { return RuntimeError }

func (InspectContainer) isAction() {}
func (InspectContainer) isEffect() {}
