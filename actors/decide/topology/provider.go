package topology

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
)

// Provider gives the containers of one pod what they have to themselves of one kind of resource: CPUs, devices. It is
// made for one decision, and remembers what it has given so far.
type Provider interface {
	// Hints are one list for each resource that a group of containers needs (see [Groups]); none if it needs none.
	Hints(group []*v1.Container) [][]Hint
	// Take gives one container of the group what it needs, from the nodes of the affinity if it can; none means from any.
	Take(c *v1.Container, affinity Hint) *admit.Rejection
}
