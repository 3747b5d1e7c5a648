package podplan

import "time"

// RemoveContainer removes a container that was made and can never be started.
type RemoveContainer struct {
	Name string
	ID   string
}

func (a RemoveContainer) Lane() Lane               { return Lane{Kind: LaneContainer, Name: a.Name} }
func (a RemoveContainer) About() (name, id string) { return a.Name, a.ID }
func (RemoveContainer) Changes() bool              { return true }
func (RemoveContainer) begun(*Facts, time.Time)    {}

func (a RemoveContainer) succeeded(f *Facts, _ Situation, _ Result, _ bool) { f.forget(a.ID) }
func (RemoveContainer) failed(*Facts, Problem) string                       { return RuntimeError }

func (RemoveContainer) isAction() {}
func (RemoveContainer) isEffect() {}
