package podplan

import "time"

// InspectSandbox reads a sandbox's details (addresses).
type InspectSandbox struct{ ID string }

func (a InspectSandbox) Lane() Lane             { return Lane{Kind: LaneInspect, Name: a.ID} }
func (InspectSandbox) About() (name, id string) { return "", "" }
func (InspectSandbox) Changes() bool            { return false }
func (InspectSandbox) begun(*Facts, time.Time)  {}

func (a InspectSandbox) succeeded(f *Facts, _ Situation, r Result, outdated bool) {
	if s := f.Sandbox(a.ID); s != nil {
		r.Sandbox.State = max(r.Sandbox.State, s.State)
		r.Sandbox.Detailed = !outdated
		*s = *r.Sandbox
	}
	f.View.Sort()
}

func (InspectSandbox) failed(*Facts, Problem) string { return RuntimeError }

func (InspectSandbox) isAction() {}
func (InspectSandbox) isEffect() {}
