package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Assignments compares, of a node at rest, what the state files give to containers alone with what their pods ask for,
// with where they run and with what they were created with. all is how many CPUs the machine has, and pod the pod of
// what the runtime has, nil if it is not to run. It says what is wrong, empty for nothing.
//
// Each CPU is shared or has one owner, each device has one at most, and no pod that has gone has any.
func Assignments(rt *simcri.Runtime, disk *machine.Checkpoints, all int, pod func(observed.PodRef) *v1.Pod) string {
	own, err := cpus.Parse(disk.Get(cpus.FileName))
	if err != nil {
		return fmt.Sprintf("%s: %v", cpus.FileName, err)
	}
	grants := devicestate.Grants{}
	if data := disk.Get(devicestate.Name); data != nil {
		state, err := devicestate.Parse(data)
		if err != nil {
			return fmt.Sprintf("%s: %v", devicestate.Name, err)
		}
		grants = state.Grants()
	}
	a := assigned{rt: rt, own: own, grants: grants, owners: map[string]owner{}}
	living := map[types.UID]bool{}
	for _, rp := range rt.Truth().Runtime.Pods {
		p := pod(rp.Ref)
		if _, ready := rp.ReadySandbox(); p == nil || !ready {
			continue // what is left of one that is gone
		}
		living[rp.Ref.UID] = true
		for c, kind := range podspec.Lasting(&p.Spec) {
			if wrong := a.wrong(&rp, p, c, kind == podspec.Init); wrong != "" {
				return fmt.Sprintf("%s/%s %s", rp.Ref.Name, c.Name, wrong)
			}
		}
	}
	for uid, has := range own.Own { // order-free: any is an error
		if !living[uid] {
			return fmt.Sprintf("pod %s is gone, and has CPUs %v", uid, has)
		}
	}
	for uid, has := range grants { // order-free: any is an error
		if !living[uid] {
			return fmt.Sprintf("pod %s is gone, and has devices %v", uid, has)
		}
	}
	if taken := a.taken.Union(own.Shared); taken.Size() != all || !a.taken.Intersection(own.Shared).IsEmpty() {
		return fmt.Sprintf("CPUs %s are shared and %s taken, of %d", own.Shared, a.taken, all)
	}
	return ""
}

// assigned is what was seen so far.
type assigned struct {
	rt     *simcri.Runtime
	own    *cpus.File
	grants devicestate.Grants
	taken  cpuset.CPUSet
	// owners are the containers that have a CPU or a device, by its name.
	owners map[string]owner
}

type owner struct {
	pod, container string
	init           bool
}

// take notes that a container has something. Init containers of its pod may have it too: they run before it.
func (a *assigned) take(what string, by owner) string {
	other, is := a.owners[what]
	if is && (other.pod != by.pod || !other.init && !by.init) {
		return fmt.Sprintf("has %s, which %s/%s has too", what, other.pod, other.container)
	}
	if !is || other.init {
		a.owners[what] = by
	}
	return ""
}

// wrong says what is wrong with a container.
func (a *assigned) wrong(rp *observed.RuntimePod, p *v1.Pod, c *v1.Container, init bool) string {
	uid, by := rp.Ref.UID, owner{rp.Ref.Name, c.Name, init}
	own, want := a.own.Own[uid][c.Name], cpus.Exclusive(p, c, false)
	if own.Size() != want {
		return fmt.Sprintf("has CPUs %s, and asks for %d", own, want)
	}
	a.taken = a.taken.Union(own)
	for _, id := range own.List() {
		if wrong := a.take(fmt.Sprint("CPU ", id), by); wrong != "" {
			return wrong
		}
	}
	var has []string
	count := map[v1.ResourceName]int64{}
	for _, g := range a.grants[uid][c.Name] {
		for _, id := range g.All() {
			name := string(g.Resource) + "/" + id
			if wrong := a.take(name, by); wrong != "" {
				return wrong
			}
			has = append(has, name)
			count[g.Resource]++
		}
	}
	for name, asks := range c.Resources.Limits { // order-free: any is an error
		if podspec.IsExtended(name) && asks.Value() != count[name] {
			return fmt.Sprintf("has %v, and asks for %v of %s", has, &asks, name)
		}
	}
	n, is := rp.Newest(c.Name)
	if !is || n.State != observed.ContainerRunning {
		return ""
	}
	at := cpus.ContainerPlacement{CPUs: own.String()}
	if want == 0 {
		at.CPUs = a.own.Shared.String()
	}
	if got := a.rt.Placement(n.ID); got != at {
		return fmt.Sprintf("runs on %v, and should on %v", got, at)
	}
	got := deviceNames(a.rt.Devices(n.ID))
	slices.Sort(has)
	slices.Sort(got)
	if !slices.Equal(got, has) {
		return fmt.Sprintf("was created with %v, and the state says %v", got, has)
	}
	return ""
}
