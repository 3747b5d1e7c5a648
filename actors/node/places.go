package node

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/podset"
)

// places is how podset gets what containers have to themselves alone.
func (b *nodeActors) places(c *Config) *podset.Places {
	return &podset.Places{
		Place:   func(m assignments.Place) { b.assignments.Tell(m) },
		Refused: func(m assignments.Refused) { b.assignments.Tell(m) },
		Release: func(uid types.UID) { b.assignments.Tell(assignments.Release{UID: uid}) },
		Living:  func(all map[types.UID]bool) { b.assignments.Tell(assignments.Living{Pods: all}) },
		CPUs:    c.Assign.Static(), Resizes: c.Assign.Resizes(), Memory: c.Memory != nil,
	}
}
