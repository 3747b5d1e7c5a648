package simapi

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// ResizePod changes the resources of a running pod, as kubectl patch --subresource resize does
// (pods/resize, KEP-1287). change may change anything, but only CPU and memory of containers and
// of the pod, and the resize policies, are used. The QoS class must stay, and requests and limits
// cannot be removed.
func (s *Server) ResizePod(namespace, pod string, change func(*v1.PodSpec)) (*v1.Pod, error) {
	o, err := do(s, func() (port.APIObject, error) { return s.resize(namespace, pod, change) })
	if err != nil {
		return nil, err
	}
	return o.(*v1.Pod), nil
}

func (s *Server) resize(namespace, pod string, change func(*v1.PodSpec)) (port.APIObject, error) {
	k := port.APIKey{Kind: port.PodKind, Namespace: namespace, Name: pod}
	e := s.tables[k.Kind].objects[name{namespace, pod}]
	if e == nil {
		return nil, notFound(k)
	}
	old := e.object.(*v1.Pod)
	asked := old.Spec.DeepCopy()
	change(asked)
	next := *old
	next.Spec.Resources = asked.Resources
	next.Spec.Containers = resized(old.Spec.Containers, asked.Containers)
	next.Spec.InitContainers = resized(old.Spec.InitContainers, asked.InitContainers)
	if apiequality.Semantic.DeepEqual(&next.Spec, &old.Spec) {
		return old, nil
	}
	if errs := badResize(old, &next); len(errs) > 0 {
		return nil, invalid(k.Kind, k.Name, errs...)
	}
	next.Generation++
	return s.replaced(k, e, &next), nil
}

// resized copies the resources of other containers by name.
func resized(list, asked []v1.Container) []v1.Container {
	out := append([]v1.Container(nil), list...)
	for i := range out {
		for j := range asked {
			if asked[j].Name == out[i].Name {
				out[i].Resources, out[i].ResizePolicy = asked[j].Resources, asked[j].ResizePolicy
			}
		}
	}
	return out
}

// badResize validates a resize.
func badResize(old, next *v1.Pod) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if was, is := podspec.QOS(old), podspec.QOS(next); was != is {
		errs = append(errs, field.Invalid(spec, is, "Pod QOS Class may not change as a result of resizing"))
	}
	for i := range old.Spec.Containers {
		at := spec.Child("containers").Index(i).Child("resources")
		was, is := &old.Spec.Containers[i].Resources, &next.Spec.Containers[i].Resources
		errs = append(errs, onlyResizable(was.Requests, is.Requests, at.Child("requests"))...)
		errs = append(errs, onlyResizable(was.Limits, is.Limits, at.Child("limits"))...)
	}
	return errs
}

func onlyResizable(was, is v1.ResourceList, at *field.Path) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(was)) {
		q := was[name]
		now, there := is[name]
		switch {
		case !there:
			errs = append(errs, field.Forbidden(at.Key(string(name)), "may not be removed"))
		case name != v1.ResourceCPU && name != v1.ResourceMemory && now.Cmp(q) != 0:
			errs = append(errs, field.Forbidden(at.Key(string(name)), "only cpu and memory resources are mutable"))
		}
	}
	return errs
}
