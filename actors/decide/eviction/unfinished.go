package eviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patience is how long counts of a part of a pod may be partial before people are told. A directory with many files
// is not counted to its end at the first look.
const patience = time.Minute

// Part is a part of a pod whose files can't all be counted.
type Part struct {
	Pod *v1.Pod
	// Volume is its name; empty for the pod's directory beside its volumes.
	Volume string
	// DiskUse is what was counted.
	DiskUse
}

// Unfinished are the parts of pods whose files were not counted to the end. People are told once of each. A value:
// methods return the next one. The zero value has none.
type Unfinished struct{ parts map[partKey]unfinished }

type partKey struct {
	uid    types.UID
	volume string
}

// unfinished: all counts since then were partial.
type unfinished struct {
	since time.Time
	told  bool
}

// Measured takes in what pods use, in their order, and says of which parts people are to be told. Pods that are not in
// the list are forgotten: those with a partial count are measured at each look. Nothing changes without a use for each.
func (u Unfinished) Measured(pods []*v1.Pod, uses []Use, now time.Time) (next Unfinished, tell []Part) {
	if len(uses) != len(pods) {
		return u, nil
	}
	next.parts = map[partKey]unfinished{}
	for i, p := range pods {
		parts := []Part{{p, "", uses[i].Other}}
		for _, v := range uses[i].Volumes {
			parts = append(parts, Part{p, v.Name, v.DiskUse})
		}
		for _, part := range parts {
			if !part.Partial {
				continue
			}
			key := partKey{p.UID, part.Volume}
			o, is := u.parts[key]
			if !is || o.since.After(now) { // the clock was set back
				o.since = now
			}
			if !o.told && now.Sub(o.since) >= patience {
				o.told = true
				tell = append(tell, part)
			}
			next.parts[key] = o
		}
	}
	return next, tell
}
