package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// RunsOnce: of each container of a pod at most one incarnation runs.
func RunsOnce(p *observed.RuntimePod) string {
	running := map[string]bool{}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.State != observed.ContainerRunning {
			continue
		}
		if running[c.Name] {
			return fmt.Sprintf("container %s of pod %s runs twice", c.Name, p.Ref)
		}
		running[c.Name] = true
	}
	return ""
}
