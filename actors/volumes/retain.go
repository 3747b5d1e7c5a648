package volumes

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// Retain lists all pods that there are. From pods, once after its restart: the actors of other pods
// ended with it, without an Unmount. Lost: what such a pod waited for is tried on. Pods is shared and
// never changed.
type Retain struct{ Pods map[types.UID]bool }

func (Retain) isVolumesMessage() {}

// retain takes down the volumes of pods that are gone.
func (a *volumes) retain(ctx *kernel.Context[Message], m Retain) {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		if !m.Pods[uid] {
			a.unmount(ctx, Unmount{pod.UnmountVolumes{UID: uid}})
		}
	}
}
