package podplan

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// PlaceContainer moves a running container to other CPUs. Its limits stay.
type PlaceContainer struct {
	Name string
	ID   string
	To   cpus.ContainerPlacement
}

// drivePlaces moves running containers to the CPUs that they are to run on. What this incarnation did not place itself
// is placed once more: the runtime may have missed a change. A resize is in progress for as long as containers run on
// other CPUs than it gives them.
func (p *planner) drivePlaces() {
	if p.in.Placement == nil {
		return
	}
	p.out.InPlace = true
	for c := range podspec.All(&p.in.Pod.Spec) {
		n, want := p.newest(c.Name), p.in.Placement.At(c.Name)
		if a, is := p.underWay(Lane{Kind: LaneContainer, Name: c.Name}).(CreateContainer); is && a.Placement != want {
			p.out.InPlace = false
		}
		if n == nil || n.State == observed.ContainerExited || p.in.Places[n.ID] == want {
			continue
		}
		p.out.InPlace = false
		if n.State == observed.ContainerRunning && p.fresh(n) {
			p.do(PlaceContainer{Name: c.Name, ID: n.ID, To: want})
		}
		if f, failed := p.in.Failures[Lane{Kind: LanePlace, Name: n.ID}]; failed && p.out.Resizing.Problem == "" {
			p.out.Resizing.Problem = f.Message
		}
	}
	if p.in.Resize != nil && p.in.Placement.Number != 0 && !p.out.InPlace {
		p.out.Resizing.InProgress = true
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
