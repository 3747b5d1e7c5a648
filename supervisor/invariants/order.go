package invariants

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// InOrder: when the first incarnation of container c of pod p is made, the init
// containers of spec before it have completed, and the sidecars before it were started.
func InOrder(spec *v1.PodSpec, p *observed.RuntimePod, c *observed.Container) string {
	if slices.ContainsFunc(p.Containers, func(o observed.Container) bool { return o.Name == c.Name && o.ID != c.ID }) {
		return ""
	}
	for i := range spec.InitContainers {
		before := &spec.InitContainers[i]
		if before.Name == c.Name {
			return ""
		}
		n, there := p.Newest(before.Name)
		sidecar := podspec.IsSidecar(before)
		switch {
		case !there:
			return fmt.Sprintf("%s of pod %s was made before %s", c.Name, p.Ref, before.Name)
		case !sidecar && (n.State != observed.ContainerExited || n.ExitCode != 0):
			return fmt.Sprintf("%s of pod %s was made before %s has completed", c.Name, p.Ref, before.Name)
		case sidecar && !slices.ContainsFunc(p.Containers, func(o observed.Container) bool {
			return o.Name == before.Name && !o.StartedAt.IsZero()
		}):
			return fmt.Sprintf("%s of pod %s was made before %s was started", c.Name, p.Ref, before.Name)
		}
	}
	return ""
}
