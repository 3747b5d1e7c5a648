package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/placement"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// PlaceContainer moves a running container to other CPUs. Its limits stay.
type PlaceContainer struct {
	Name string
	ID   string
	To   placement.Container
}

// drivePlaces moves running containers to the CPUs that they are to run on. What this incarnation did not place itself
// is placed once more: the runtime may have missed a change.
func (p *planner) drivePlaces() {
	if p.in.Placement == nil {
		return
	}
	for c := range podspec.All(&p.in.Pod.Spec) {
		n := p.newest(c.Name)
		if n == nil || n.State != observed.ContainerRunning || !p.fresh(n) {
			continue
		}
		if want := p.in.Placement.At(c.Name); p.in.Places[n.ID] != want {
			p.do(PlaceContainer{Name: c.Name, ID: n.ID, To: want})
		}
	}
}

func (a PlaceContainer) Lane() Lane               { return Lane{Kind: LanePlace, Name: a.ID} }
func (a PlaceContainer) About() (name, id string) { return a.Name, a.ID }
func (PlaceContainer) Changes() bool              { return false }
func (PlaceContainer) begun(*Facts, time.Time)    {}

func (a PlaceContainer) succeeded(f *Facts, _ Situation, _ Result, _ bool) {
	put(&f.Places, a.ID, a.To)
}

// failed: a call that failed may have had its effect.
func (a PlaceContainer) failed(f *Facts, _ Problem) string {
	delete(f.Places, a.ID)
	return "PlaceContainerError"
}

func (PlaceContainer) isAction() {}
func (PlaceContainer) isEffect() {}
