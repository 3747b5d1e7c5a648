package podplan

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// many finds what a plan asks for each container. A plan is made after each message, so with many containers it must
// not search all of them for each: then there are indices, each made when it is first needed.
type many struct {
	// last and shown are the container statuses of in.Status and of the pod in the API.
	last, shown statuses
	// byID are in.View.Containers.
	byID smallmap.Lookup[string, observed.Container]

	specs  func(string) (*v1.Container, podspec.Kind)
	busyOn func(Lane) (Effect, bool)
	images func(string) (imagepull.Status, bool)
	waited func(string) (Waiting, bool)
	// imageVolumes are the places in the spec of volumes that are images, imageNames by name; sought: they were looked
	// for.
	imageVolumes []int
	imageNames   map[string]int
	sought       bool
	// refused is when stops that failed may be tried again, by container ID.
	refused map[string]time.Time
	// stops are the stop calls under way or planned, by container ID; counted is how many of out.Actions are among them.
	stops   map[string]stops
	counted int
	// lanes has the actions that were planned, indexed is how many of out.Actions.
	lanes   map[Lane]Action
	indexed int
}

func (p *planner) index() {
	p.last, p.shown = statusesIn(p.in.Status), statusesIn(&p.in.Pod.Status)
	p.byID = p.in.ByID()
}

// ByID finds containers by their IDs, until the view changes.
func (f *Facts) ByID() smallmap.Lookup[string, observed.Container] {
	return smallmap.LookupIn(f.View.Containers, func(c *observed.Container) string { return c.ID })
}

// statuses are container statuses by name.
type statuses [3]smallmap.Lookup[string, v1.ContainerStatus]

func statusesIn(s *v1.PodStatus) statuses {
	if s == nil {
		return statuses{}
	}
	name := func(s *v1.ContainerStatus) string { return s.Name }
	return statuses{smallmap.LookupIn(s.ContainerStatuses, name), smallmap.LookupIn(s.InitContainerStatuses, name),
		smallmap.LookupIn(s.EphemeralContainerStatuses, name)}
}

// of is the status of a container, nil for none.
func (l *statuses) of(name string) *v1.ContainerStatus {
	for i := range l {
		if s := l[i].Get(name); s != nil {
			return s
		}
	}
	return nil
}

// specOf is podspec.Find.
func (p *planner) specOf(name string) (*v1.Container, podspec.Kind) {
	if len(p.in.View.Containers) <= smallmap.Few {
		return podspec.Find(&p.in.Pod.Spec, name)
	}
	if p.specs == nil {
		p.specs = podspec.Containers(&p.in.Pod.Spec)
	}
	return p.specs(name)
}

// underWay is the effect under way on l, nil for none.
func (p *planner) underWay(l Lane) Effect {
	if len(p.in.Busy) <= smallmap.Few {
		return p.in.Busy.At(l)
	}
	if p.busyOn == nil {
		p.busyOn = p.in.Busy.Index()
	}
	e, _ := p.busyOn(l)
	return e
}

// busy returns the action on l that is under way or was just planned.
func (p *planner) busy(l Lane) (Action, bool) {
	if e := p.underWay(l); e != nil {
		return e, true
	}
	return p.planned(l)
}

// planned returns the action that was just planned on l.
func (p *planner) planned(l Lane) (Action, bool) {
	if len(p.out.Actions) > smallmap.Few {
		if p.lanes == nil {
			p.lanes = map[Lane]Action{}
		}
		for ; p.indexed < len(p.out.Actions); p.indexed++ {
			a := p.out.Actions[p.indexed]
			p.lanes[a.Lane()] = a // each lane has one
		}
		a, ok := p.lanes[l]
		return a, ok
	}
	for _, a := range p.out.Actions {
		if a.Lane() == l {
			return a, true
		}
	}
	return nil, false
}

// imageOf is the state of an image by its name in Facts.Images.
func (p *planner) imageOf(name string) imagepull.Status {
	if len(p.in.Images) <= smallmap.Few {
		return p.in.Images.At(name)
	}
	if p.images == nil {
		p.images = p.in.Images.Index()
	}
	image, _ := p.images(name)
	return image
}

// waitedFor is why a container did not run by the last plan; the zero value if it ran, or there was none.
func (p *planner) waitedFor(name string) Waiting {
	if len(p.in.Waited) <= smallmap.Few {
		return p.in.Waited.At(name)
	}
	if p.waited == nil {
		p.waited = p.in.Waited.Index()
	}
	w, _ := p.waited(name)
	return w
}

// imageVolumesOf are the volumes that are images and that a container mounts, in the order of the spec.
func (p *planner) imageVolumesOf(c *v1.Container) (out []*v1.Volume) {
	list := p.in.Pod.Spec.Volumes
	if !p.sought {
		p.sought = true
		for i := range list {
			if list[i].Image != nil {
				p.imageVolumes = append(p.imageVolumes, i)
			}
		}
	}
	if len(p.imageVolumes) == 0 {
		return nil
	}
	if p.imageNames == nil {
		p.imageNames = map[string]int{}
		for _, i := range p.imageVolumes {
			p.imageNames[list[i].Name] = i
		}
	}
	var at []int
	for i := range c.VolumeMounts {
		if i, is := p.imageNames[c.VolumeMounts[i].Name]; is {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	for _, i := range slices.Compact(at) {
		out = append(out, &list[i])
	}
	return out
}

// stops are stop calls of a container.
type stops struct {
	calls int
	// highest is the highest of their numbers, least the shortest of their graces.
	highest int
	least   time.Duration
}

// with adds an action, if it is such a call of the container with this ID.
func (s stops) with(a Action, id string) stops {
	stop, is := a.(StopContainer)
	if !is || stop.ID != id {
		return s
	}
	if s.calls == 0 || stop.Grace < s.least {
		s.least = stop.Grace
	}
	return stops{calls: s.calls + 1, highest: max(s.highest, stop.N), least: s.least}
}

// stopsUnderWay are the outstanding stop calls of a container, and those that were just planned.
func (p *planner) stopsUnderWay(id string) (s stops) {
	if len(p.in.Busy)+len(p.out.Actions) <= smallmap.Few {
		for _, b := range p.in.Busy {
			s = s.with(b.Value, id)
		}
		for _, a := range p.out.Actions {
			s = s.with(a, id)
		}
		return s
	}
	add := func(a Action) {
		if stop, is := a.(StopContainer); is {
			p.stops[stop.ID] = p.stops[stop.ID].with(a, stop.ID)
		}
	}
	if p.stops == nil {
		p.stops = map[string]stops{}
		for _, b := range p.in.Busy {
			add(b.Value)
		}
	}
	for ; p.counted < len(p.out.Actions); p.counted++ {
		add(p.out.Actions[p.counted])
	}
	return p.stops[id]
}

// failedStops says whether stop calls of a container have failed, and when to try again.
func (p *planner) failedStops(id string) (again time.Time, failed bool) {
	later := func(at time.Time, f Failure) time.Time {
		if t := p.retryAt(f); t.After(at) {
			return t
		}
		return at
	}
	if len(p.in.Failures) <= smallmap.Few {
		for l, f := range p.in.Failures { // order-free: a maximum
			if l.Kind == LaneStop && l.Name == id {
				again, failed = later(again, f), true
			}
		}
		return again, failed
	}
	if p.refused == nil {
		p.refused = map[string]time.Time{}
		for l, f := range p.in.Failures { // order-free: a maximum for each
			if l.Kind == LaneStop {
				p.refused[l.Name] = later(p.refused[l.Name], f)
			}
		}
	}
	again, failed = p.refused[id]
	return again, failed
}
