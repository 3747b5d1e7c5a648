// Package podgc decides which dead containers and sandboxes to remove.
package podgc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Policy is how much of the dead is kept (the kubelet's flags
// --maximum-dead-containers-per-container, --maximum-dead-containers and
// --minimum-container-ttl-duration).
type Policy struct {
	// MaxPerPodContainer is how many dead incarnations to keep of one container of a living pod; less
	// than 0 for all.
	MaxPerPodContainer int
	// MaxContainers is how many dead containers to keep in total; less than 0 for any number.
	MaxContainers int
	// MinAge is the minimum age of a dead container, from its creation, before it is removed or
	// counted; 0 for any age.
	MinAge time.Duration
}

// Default is the kubelet's default policy.
func Default() Policy { return Policy{MaxPerPodContainer: 1, MaxContainers: -1} }

// Removal is one thing to remove.
type Removal struct {
	Pod observed.PodRef
	// Container: ID is a container's, in Sandbox; otherwise it is a sandbox's.
	Container bool
	ID        string
	Sandbox   string
}

// Plan returns what to remove, containers before their sandboxes. living holds the pods that have
// not ended: their records are still needed. It must be no older than list, or a pod that began in
// between counts as gone.
//
//	of a living pod    dead containers beyond the newest MaxPerPodContainer of a name;
//	                   sandboxes that are neither ready nor the newest, and empty
//	of any other       all dead containers, the newest of a name in a plan of its own (see Last);
//	                   sandboxes that are not ready, and empty
//	beyond the total   an equal share of each name is left, then the oldest go
//
// Never removed are a container that might live, a ready sandbox (its pod's actor stops it first),
// and the newest incarnation of a container of a living pod: its number is the restart count.
func Plan(list observed.Runtime, living map[types.UID]bool, policy Policy, now time.Time) []Removal {
	list = inOrder(list)
	units := dead(list, living, policy.MinAge, now)
	gone := map[string]bool{}
	var out []Removal
	remove := func(d deadContainer) {
		gone[d.id] = true
		out = append(out, Removal{Pod: d.pod, Container: true, ID: d.id, Sandbox: d.sandbox})
	}
	for i := range units {
		u := &units[i]
		switch {
		case !u.living:
			u.trim(0, remove)
		case policy.MaxPerPodContainer >= 0:
			u.trim(policy.MaxPerPodContainer-u.held, remove)
		}
	}
	limitTotal(units, policy.MaxContainers, remove)
	return append(out, sandboxes(list, living, gone)...)
}

// All is the set of all pods of list. All live while it is unknown which of them are gone.
func All(list observed.Runtime) map[types.UID]bool {
	all := make(map[types.UID]bool, len(list.Pods))
	for i := range list.Pods {
		all[list.Pods[i].Ref.UID] = true
	}
	return all
}

// Last reports, by ID, which containers of a pod may be removed only after the others of the same
// name are gone: the newest of each name that has several. Its number says which number the next
// container gets if the pod comes back while it is being removed, or after this agent has ended.
func Last(containers []observed.Container) map[string]bool {
	newest, several := map[string]*observed.Container{}, map[string]bool{}
	for i := range containers {
		c := &containers[i]
		n := newest[c.Name]
		several[c.Name] = n != nil
		if n == nil || n.Attempt < c.Attempt {
			newest[c.Name] = c
		}
	}
	last := map[string]bool{}
	for name, c := range newest { // order-free: a set
		if several[name] {
			last[c.ID] = true
		}
	}
	return last
}

// deadContainer is a dead container that may be removed.
type deadContainer struct {
	pod     observed.PodRef
	id      string
	sandbox string
	created time.Time
}

// unit holds the removable dead incarnations of one container of one pod, newest first.
type unit struct {
	living bool
	// held is 1 if the newest incarnation is dead and must stay, at least until the next plan.
	held int
	dead []deadContainer
}

// trim removes all but the newest keep.
func (u *unit) trim(keep int, remove func(deadContainer)) {
	keep = max(keep, 0)
	for len(u.dead) > keep {
		last := len(u.dead) - 1
		remove(u.dead[last])
		u.dead = u.dead[:last]
	}
}

// dead collects what may be removed, in the order of the list.
func dead(list observed.Runtime, living map[types.UID]bool, minAge time.Duration, now time.Time) []unit {
	var units []unit
	for _, p := range list.Pods {
		alive, last := living[p.Ref.UID], Last(p.Containers)
		for i := range p.Containers {
			c := &p.Containers[i]
			newest := i == 0 || p.Containers[i-1].Name != c.Name
			if newest {
				units = append(units, unit{living: alive})
			}
			if minAge > 0 && now.Sub(c.CreatedAt) < minAge || !isDead(c, &p.Pod, alive, newest) {
				continue
			}
			u := &units[len(units)-1]
			if alive && newest || last[c.ID] {
				u.held = 1
				continue
			}
			u.dead = append(u.dead, deadContainer{pod: p.Ref, id: c.ID, sandbox: c.SandboxID, created: c.CreatedAt})
		}
	}
	return units
}

// isDead says whether a container can never run (again). A created container is dead if a newer one
// exists or its sandbox is down. A container in state Unknown may run: in a living pod, the pod's
// actor stops it first.
func isDead(c *observed.Container, p *observed.Pod, alive, newest bool) bool {
	switch c.State {
	case observed.ContainerExited:
		return true
	case observed.ContainerCreated:
		return alive && !newest || !alive && !readySandbox(p, c.SandboxID)
	case observed.ContainerUnknown:
		return !alive && !readySandbox(p, c.SandboxID)
	default:
		return false
	}
}

func readySandbox(p *observed.Pod, id string) bool {
	for i := range p.Sandboxes {
		if p.Sandboxes[i].ID == id {
			return p.Sandboxes[i].State == observed.SandboxReady
		}
	}
	return false
}

// inOrder returns list with its pods in order of their UIDs, each sorted.
func inOrder(list observed.Runtime) observed.Runtime {
	pods := slices.Clone(list.Pods)
	for i := range pods {
		p := &pods[i].Pod
		p.Sandboxes, p.Containers = slices.Clone(p.Sandboxes), slices.Clone(p.Containers)
		p.Sort()
	}
	slices.SortStableFunc(pods, func(a, b observed.RuntimePod) int { return cmp.Compare(a.Ref.UID, b.Ref.UID) })
	return observed.Runtime{Pods: pods}
}

// limitTotal removes until at most limit are left: first down to an equal share of each container,
// then the oldest.
func limitTotal(units []unit, limit int, remove func(deadContainer)) {
	total, names := 0, 0
	for i := range units {
		n := len(units[i].dead) + units[i].held
		total += n
		if n > 0 {
			names++
		}
	}
	if limit < 0 || total <= limit {
		return
	}
	share := max(limit/names, 1)
	var left []deadContainer
	for i := range units {
		u := &units[i]
		u.trim(share-u.held, func(d deadContainer) { remove(d); total-- })
		left = append(left, u.dead...)
	}
	slices.SortFunc(left, func(a, b deadContainer) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.id, b.id))
	})
	for i := 0; i < len(left) && total > limit; i++ {
		remove(left[i])
		total--
	}
}

// sandboxes are the sandboxes to remove, once the containers in gone are removed.
func sandboxes(list observed.Runtime, living map[types.UID]bool, gone map[string]bool) []Removal {
	var out []Removal
	for _, p := range list.Pods {
		used := map[string]bool{}
		for i := range p.Containers {
			if c := &p.Containers[i]; !gone[c.ID] {
				used[c.SandboxID] = true
			}
		}
		for i := range p.Sandboxes {
			s := &p.Sandboxes[i]
			newest := i == 0 && living[p.Ref.UID]
			if s.State == observed.SandboxNotReady && !newest && !used[s.ID] {
				out = append(out, Removal{Pod: p.Ref, ID: s.ID})
			}
		}
	}
	return out
}
