package invariants

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Cgroups: in a settled node the pods with a ready sandbox have cgroups, and no others.
func Cgroups(pods []observed.RuntimePod, owners []types.UID) string {
	running := map[types.UID]bool{}
	for i := range pods {
		p := &pods[i]
		if !slices.ContainsFunc(p.Sandboxes, func(s observed.Sandbox) bool { return s.State == observed.SandboxReady }) {
			continue
		}
		running[p.Ref.UID] = true
		if !slices.Contains(owners, p.Ref.UID) {
			return fmt.Sprintf("pod %s runs without a cgroup", p.Ref.UID)
		}
	}
	for _, uid := range owners {
		if !running[uid] {
			return fmt.Sprintf("a cgroup is left of pod %s that does not run", uid)
		}
	}
	return ""
}
