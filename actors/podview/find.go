package podview

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	decide "github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/podset"
)

// find returns the pods of a name, or all, the newest first. all is in order of age.
func find(all []podset.Fact, namespace, name string) (out []*v1.Pod) {
	for _, r := range slices.Backward(all) {
		if r.Origin == podspec.Orphan || gone(&r) || name != "" && (r.Pod.Name != name || r.Pod.Namespace != namespace) {
			continue
		}
		p := *r.Pod
		switch {
		case r.Report.Status != nil:
			p.Status = *r.Report.Status
		case r.Rejected != nil:
			r.Rejected.Show(&p.Status)
		case p.Status.Phase == "":
			p.Status.Phase = v1.PodPending
		}
		out = append(out, &p)
	}
	return out
}

// holding are the pods of which something runs or is mounted.
func holding(all []podset.Fact) map[types.UID]bool {
	out := map[types.UID]bool{}
	for i := range all {
		if all[i].State == decide.Running {
			out[all[i].Pod.UID] = true
		}
	}
	return out
}

// volumeImages are the names of images that living pods have as volumes, each once.
func volumeImages(all []podset.Fact) (names []string) {
	for i := range all {
		f := &all[i]
		if f.State == decide.Rejected || f.State == decide.Collecting || f.EndedForGood() {
			continue
		}
		for v := range f.Pod.Spec.Volumes {
			if of := f.Pod.Spec.Volumes[v].Image; of != nil && of.Reference != "" {
				names = append(names, of.Reference)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
