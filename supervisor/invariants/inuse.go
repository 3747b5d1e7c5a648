package invariants

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// InUse: volumes and cgroups are not taken from a pod while it is in use, that is,
// while one of its containers runs.
func InUse(pods []observed.RuntimePod, uid types.UID) bool {
	for i := range pods {
		for j := range pods[i].Containers {
			if pods[i].Ref.UID == uid && pods[i].Containers[j].State == observed.ContainerRunning {
				return true
			}
		}
	}
	return false
}
