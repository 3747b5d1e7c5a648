package invariants

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// OneSandbox: a pod has at most one ready sandbox.
func OneSandbox(p *observed.RuntimePod) string {
	ready := 0
	for i := range p.Sandboxes {
		if p.Sandboxes[i].State == observed.SandboxReady {
			ready++
		}
	}
	if ready > 1 {
		return fmt.Sprintf("pod %s has %d ready sandboxes", p.Ref, ready)
	}
	return ""
}
