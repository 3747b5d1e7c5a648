package podplan

import "time"

// InspectMade reads, while a container is started for the first time, what the runtime made of it:
// its user and its mounts. So they are in the first status that says it runs, and need no write of
// their own. It is not tried again, and its failure says nothing of the container: the start does that, and an
// InspectContainer follows. It has a lane of its own, so one that hangs delays no InspectContainer.
type InspectMade struct {
	Name string
	ID   string
}

func (a InspectMade) Lane() Lane               { return Lane{Kind: LaneMade, Name: a.ID} }
func (a InspectMade) About() (name, id string) { return a.Name, a.ID }
func (InspectMade) Changes() bool              { return false }
func (InspectMade) begun(*Facts, time.Time)    {}

func (a InspectMade) succeeded(f *Facts, _ Situation, r Result, _ bool) {
	if c := f.Container(a.ID); c != nil {
		c.User, c.RecursiveReadOnly = r.Container.User, r.Container.RecursiveReadOnly
	}
}

func (InspectMade) failed(*Facts, Problem) string { return "" }

func (InspectMade) isAction() {}
func (InspectMade) isEffect() {}
