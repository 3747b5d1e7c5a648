package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// StartContainer starts a created container.
type StartContainer struct {
	Name string
	ID   string
}

func (a StartContainer) Lane() Lane               { return Lane{Kind: LaneContainer, Name: a.Name} }
func (a StartContainer) About() (name, id string) { return a.Name, a.ID }
func (StartContainer) Changes() bool              { return true }
func (StartContainer) begun(*Facts, time.Time)    {}

func (a StartContainer) succeeded(f *Facts, s Situation, _ Result, _ bool) {
	if c := f.Container(a.ID); c != nil && c.State == observed.ContainerCreated {
		c.State, c.StartedAt = observed.ContainerRunning, s.Now
		f.Reread(a.ID)
	}
}

func (a StartContainer) failed(f *Facts, _ Problem) string {
	f.Reread(a.ID) // it may have run and ended
	return StartFailed
}

func (StartContainer) isAction() {}
func (StartContainer) isEffect() {}
