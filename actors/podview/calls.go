package podview

import (
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
)

// Call is a running call for a pod, and the kind of the actor that makes it.
type Call struct {
	Actor string
	kernel.EffectInfo
}

// CallsOf groups the running calls in a tree of actors by their pod. An actor that serves many
// pods names the pod in the call. A pod's own actor has the pod's UID as its name. A pull counts
// for all shown pods with a container that waits for the image.
func CallsOf(actors []kernel.ActorInfo, shown []Pod) map[types.UID][]Call {
	waiting := map[string][]types.UID{}
	for i := range shown {
		for _, c := range shown[i].Containers {
			if c.State == "waiting" && c.Image != "" && !slices.Contains(waiting[c.Image], shown[i].UID) {
				waiting[c.Image] = append(waiting[c.Image], shown[i].UID)
			}
		}
	}
	out := map[types.UID][]Call{}
	for i := range actors {
		a := &actors[i]
		for _, e := range a.Effects {
			if e.Standing {
				continue
			}
			uids := waiting[e.Object]
			switch {
			case e.For != "":
				uids = []types.UID{types.UID(e.For)}
			case a.Kind == "pod":
				uids = []types.UID{types.UID(path.Base(a.Path))}
			}
			for _, uid := range uids {
				out[uid] = append(out[uid], Call{a.Kind, e})
			}
		}
	}
	return out
}
