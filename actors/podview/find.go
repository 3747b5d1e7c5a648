package podview

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/pods"
)

// find returns the pods of a name, or all, the newest first. all is in order of age.
func find(all []pods.Fact, namespace, name string) (out []*v1.Pod) {
	for _, r := range slices.Backward(all) {
		if r.Origin == podspec.Orphan || name != "" && (r.Pod.Name != name || r.Pod.Namespace != namespace) {
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
