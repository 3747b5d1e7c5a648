package simapi

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/internal/mergepatch"
)

// merge applies a patch as the apiserver does: the difference of From and To becomes a strategic
// merge patch, which is applied to the object. It returns nil without a difference. This is the
// slow way, by reflection. The result shares its unchanged parts with the object.
func merge(object port.APIObject, p port.APIPatch) (port.APIObject, error) {
	next := empty(p.Key.Kind)
	patch, err := mergepatch.Between(p, next)
	if err != nil || len(patch) == 0 {
		return nil, err
	}
	is, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(is, patch, next)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, next); err != nil {
		return nil, err
	}
	if pod, ok := next.(*v1.Pod); ok {
		old := object.(*v1.Pod)
		pod.Spec, pod.Status = same(old.Spec, pod.Spec), same(old.Status, pod.Status)
	}
	return next, nil
}
