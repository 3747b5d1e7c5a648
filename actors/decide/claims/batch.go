package claims

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Object names a claim to a DRA driver.
type Object struct {
	UID             types.UID
	Namespace, Name string
}

// String is namespace/name.
func (o Object) String() string { return o.Namespace + "/" + o.Name }

// Answer is what a driver says of one claim. Error is empty for success; Devices are those of a prepared claim.
type Answer struct {
	Devices []Device
	Error   string
}

// Prepared is a claim with the use that pods make of it.
//
//	 ┌── found in the checkpoint ──► prepared by an earlier agent ──a new sandbox──┐
//	 │                                     │                                       ▼
//	(none) ──first pod, all drivers there──┼─────────────────────────────► preparing ──all drivers──► prepared
//	 ▲                                     │                                       │                    │
//	 └──all drivers── unpreparing ◄────────┴──────────the last pod has ended───────┴────────────────────┘
type Prepared struct {
	Claim
	// Found: an earlier agent has prepared it, as far as the checkpoint says. Renewed: drivers are asked again.
	Found, Renewed bool
	// Called: a driver may know of it.
	Called bool
	// Leaving: its last pod has ended. It never comes back, but is prepared again as another.
	Leaving bool
	// Done are the drivers that have prepared it or, if it is Leaving, unprepared it.
	Done map[string]bool
}

// Fresh is a claim that is about to be prepared by some drivers.
func Fresh(o Object, drivers []string) Prepared {
	p := Prepared{Done: map[string]bool{}}
	p.UID, p.Namespace, p.Name, p.Drivers = o.UID, o.Namespace, o.Name, map[string][]Device{}
	for _, d := range drivers {
		p.Drivers[d] = nil
	}
	return p
}

// FoundAs is a claim of the checkpoint. One without pods is left over.
func FoundAs(c *Claim) Prepared {
	return Prepared{Claim: *c, Found: true, Called: true, Leaving: len(c.Pods) == 0, Done: map[string]bool{}}
}

// Wants reports whether a driver has something to do for it.
func (p *Prepared) Wants(driver string) bool {
	return !p.Done[driver] && (p.Leaving || !p.Old())
}

// All reports whether all drivers are done.
func (p *Prepared) All() bool { return len(p.Done) == len(p.Drivers) }

// Usable reports whether a pod can have its devices. fresh: the pod has no sandbox yet, so that drivers are asked again
// of a claim that an earlier agent prepared.
func (p *Prepared) Usable(fresh bool) bool { return !p.Leaving && (p.All() || p.Found && !fresh) }

// Object names it to drivers.
func (p *Prepared) Object() Object { return Object{p.UID, p.Namespace, p.Name} }

// Old: only an earlier agent has had drivers asked.
func (p *Prepared) Old() bool { return p.Found && !p.Renewed }

// Renew has the drivers asked again of a claim that an earlier agent prepared.
func (p *Prepared) Renew() { p.Renewed = true }

// UsedBy reports whether a pod uses it.
func (p *Prepared) UsedBy(uid types.UID) bool {
	_, has := slices.BinarySearch(p.Pods, uid)
	return has
}

// Join notes that a pod uses it. It reports whether that is new.
func (p *Prepared) Join(uid types.UID) bool {
	i, has := slices.BinarySearch(p.Pods, uid)
	if !has {
		p.Pods = slices.Insert(slices.Clone(p.Pods), i, uid)
	}
	return !has
}

// Leave notes that a pod has ended. The last pod stays on record until all drivers have unprepared the claim, so that
// an agent that is killed meanwhile continues. It reports whether the checkpoint has to be written.
func (p *Prepared) Leave(uid types.UID) bool {
	i, has := slices.BinarySearch(p.Pods, uid)
	if !has || p.Leaving {
		return false
	}
	if len(p.Pods) > 1 {
		p.Pods = slices.Delete(slices.Clone(p.Pods), i, i+1)
		return true
	}
	p.Leaving, p.Done = true, map[string]bool{}
	return false
}

// Prepare notes the devices that a driver has prepared.
func (p *Prepared) Prepare(driver string, devices []Device) {
	p.Drivers = maps.Clone(p.Drivers)
	p.Drivers[driver], p.Done[driver] = devices, true
}

// sortedDrivers are the names of a claim's drivers.
func sortedDrivers(c *Claim) []string { return slices.Sorted(maps.Keys(c.Drivers)) }

// Waits says which drivers are not done.
func (p *Prepared) Waits() (out []string) {
	for _, d := range sortedDrivers(&p.Claim) {
		if !p.Done[d] {
			out = append(out, d)
		}
	}
	return out
}

// Task is a claim that a driver is to prepare or unprepare.
type Task struct {
	Object
	Unprepare bool
	// Alone: a call with other claims failed as a whole, and this one may be why.
	Alone bool
	// Tried is when it was tried last, zero for never.
	Tried time.Time
}

// MaxBatch is how many claims one call of a driver has at most.
const MaxBatch = 64

// Batch chooses the tasks of the next call of a driver: the one that waits longest, and with it all that can go into
// the same call. The tasks are sorted by their objects.
func Batch(tasks []Task) []Task {
	if len(tasks) == 0 {
		return nil
	}
	order := func(a, b Task) int {
		return cmp.Or(a.Tried.Compare(b.Tried), cmp.Compare(a.String(), b.String()), cmp.Compare(a.UID, b.UID))
	}
	first := slices.MinFunc(tasks, order)
	if first.Alone {
		return []Task{first}
	}
	var out []Task
	for _, t := range slices.SortedFunc(slices.Values(tasks), order) {
		if !t.Alone && t.Unprepare == first.Unprepare && len(out) < MaxBatch {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.UID, b.UID))
	})
	return out
}

// Verdict is why the answer of a driver for a claim is no success, empty if it is one. A driver has to answer for each
// claim.
func Verdict(driver, verb string, o Object, answers map[types.UID]Answer) string {
	a, has := answers[o.UID]
	switch {
	case !has:
		return fmt.Sprintf("DRA driver %s: %s: no answer for ResourceClaim %q", driver, verb, o.Name)
	case a.Error != "":
		return fmt.Sprintf("DRA driver %s: %s: ResourceClaim %q: %s", driver, verb, o.Name, a.Error)
	default:
		return ""
	}
}
