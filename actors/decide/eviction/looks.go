package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Blind is the longest time between two measurements of a pod with limits of disk. It bounds what Looks can't
	// see: a pod that writes while as much is freed. Files that were removed while they are open are looked for then.
	Blind = time.Minute
	// stale is how old a measurement may be without saying so: a runtime counts writable layers now and then
	// (containerd: every 10 s).
	stale = 30 * time.Second
	// remembered is how long it is known by how much file systems had grown.
	remembered = 4 * Blind
)

// Looks says which pods with limits of disk have to be measured. The disk use of a pod costs a walk over its files.
// What is left of a file system costs nothing, and no pod can have added more than all file systems have grown. So a
// pod is measured again when they have grown by as much as it may add. What was freed between two readings is not
// set off against what was written before or after. Growth counts from the time at which the oldest part of the
// measurement was begun. A pod whose files could not all be counted is measured at each look, and so is one whose
// count is older than what is known of the growth.
//
// A value: methods return the next one. The zero value has measured nobody.
type Looks struct {
	used   map[string]uint64 // of each file system, by device
	growth []growth
	of     map[types.UID]looked
}

// growth is by how much the file systems had grown in all at a time, in bytes.
type growth struct {
	at    time.Time
	bytes uint64
}

// looked is a measurement of a pod.
type looked struct {
	// since is the first one. at is when the oldest part of the newest was begun, and room what the pod may have added
	// after the file systems had grown by grown.
	since, at   time.Time
	grown, room uint64
}

// Due takes in a reading, and says which pods have to be measured for it. Pods that are not in the list are forgotten.
func (l Looks) Due(pods []*v1.Pod, r *Reading, now time.Time) (next Looks, due []*v1.Pod) {
	next = Looks{used: map[string]uint64{}, of: make(map[types.UID]looked, len(pods))}
	var grown uint64
	if n := len(l.growth); n > 0 {
		grown = l.growth[n-1].bytes
	}
	for _, d := range [...]*Disk{&r.NodeFS, &r.ImageFS, &r.ContainerFS, &r.LogFS} {
		if !d.Bytes.Known || d.Device == "" {
			continue
		}
		if _, twice := next.used[d.Device]; twice {
			continue
		}
		used := d.Bytes.Capacity - min(d.Bytes.Available, d.Bytes.Capacity)
		if before, is := l.used[d.Device]; is && used > before {
			grown += used - before
		}
		next.used[d.Device] = used
	}
	for _, g := range l.growth { // one that is old enough is kept
		if age := now.Sub(g.at); age >= 0 && age < remembered {
			next.growth = append(next.growth, g)
		} else if age >= remembered {
			next.growth = append(next.growth[:0], g)
		}
	}
	next.growth = append(next.growth, growth{now, grown})
	sees := r.NodeFS.Bytes.Known && r.layers().Bytes.Known && r.LogFS.Bytes.Known
	for _, p := range pods {
		o, is := l.of[p.UID]
		if is {
			next.of[p.UID] = o
		}
		switch {
		case !is, !sees, o.at.After(now), now.Sub(o.since) < stale, now.Sub(o.at) >= Blind, grown-o.grown >= o.room:
			due = append(due, p)
		}
	}
	return next, due
}

// Measured takes in what pods use, in their order, as it was measured after the last reading. now is when that began.
func (l Looks) Measured(pods []*v1.Pod, uses []Use, now time.Time) Looks {
	next := Looks{used: l.used, growth: l.growth, of: make(map[types.UID]looked, len(l.of))}
	for uid, o := range l.of { // order-free: a copy
		next.of[uid] = o
	}
	for i, p := range pods {
		if i >= len(uses) || len(l.growth) == 0 {
			break
		}
		o, is := next.of[p.UID]
		if !is || o.since.After(now) {
			o.since = now
		}
		age := max(uses[i].Age, 0)
		o.at, o.grown, o.room = now.Add(-age), 0, 0
		// Before the first reading nobody knows what was written.
		if grown, known := l.grown(max(age, stale)); known && !uses[i].Partial() {
			o.grown, o.room = grown, room(p, &uses[i])
		}
		next.of[p.UID] = o
	}
	return next
}

// grown is by how much the file systems had grown so long before the last reading.
func (l Looks) grown(before time.Duration) (bytes uint64, known bool) {
	last := l.growth[len(l.growth)-1].at
	for _, g := range slices.Backward(l.growth) {
		if last.Sub(g.at) >= before {
			return g.bytes, true
		}
	}
	return 0, false
}
