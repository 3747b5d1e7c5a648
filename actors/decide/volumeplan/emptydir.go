package volumeplan

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// EmptyDirSize is the maximum size in bytes of a volume of medium Memory: the least of its sizeLimit, the
// pod's memory limit and the node's allocatable memory; 0 if none is known (KEP-1967).
func EmptyDirSize(pod *v1.Pod, source *v1.EmptyDirVolumeSource, allocatable v1.ResourceList) int64 {
	return EmptyDirSizes(pod, allocatable)(source)
}

// EmptyDirSizes is EmptyDirSize, for any number of volumes of one pod.
func EmptyDirSizes(pod *v1.Pod, allocatable v1.ResourceList) func(*v1.EmptyDirVolumeSource) int64 {
	limit := least(allocatable.Memory().Value(), memoryLimit(pod))
	return func(source *v1.EmptyDirVolumeSource) int64 {
		if source.SizeLimit == nil {
			return limit
		}
		return least(limit, source.SizeLimit.Value())
	}
}

// least is the lesser of two sizes that are known.
func least(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return max(b, 0)
	}
	return a
}

// memoryLimit is the memory limit of a whole pod. It is 0 if the pod has none and a container has
// none either.
func memoryLimit(pod *v1.Pod) int64 {
	if r := pod.Spec.Resources; r != nil && r.Limits.Memory().Sign() > 0 {
		return r.Limits.Memory().Value()
	}
	var together, most int64
	for c, kind := range podspec.Lasting(&pod.Spec) {
		limit := c.Resources.Limits.Memory().Value()
		switch {
		case limit == 0:
			return 0
		case kind == podspec.Init:
			most = max(most, together+limit)
		default:
			together += limit
		}
	}
	return max(most, together) + pod.Spec.Overhead.Memory().Value()
}

// EmptyDirPageSize is the page size in bytes of a volume of medium HugePages or HugePages-SIZE. The pod
// must request pages of that size. If the medium names no size, it must request exactly one
// (core/v1 StorageMedium).
func EmptyDirPageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	named := int64(0)
	if size, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)); ok {
		q, err := resource.ParseQuantity(size)
		if err != nil || q.Sign() <= 0 {
			return 0, fmt.Errorf("emptyDir medium %q: %q is not a size of pages", medium, size)
		}
		named = q.Value()
	}
	lists := []v1.ResourceList{}
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for c := range podspec.Lasting(&pod.Spec) {
		lists = append(lists, c.Resources.Requests, c.Resources.Limits)
	}
	found := map[int64]bool{}
	for _, list := range lists {
		for name := range list { // order-free: into a set
			if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
				if q, err := resource.ParseQuantity(size); err == nil {
					found[q.Value()] = true
				}
			}
		}
	}
	switch {
	case named != 0 && found[named]:
		return named, nil
	case named == 0 && len(found) == 1:
		for size := range found { // order-free: it is one
			return size, nil
		}
	case named == 0 && len(found) > 1:
		return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
	}
	return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
}
