package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

func validateResources(r *v1.ResourceRequirements, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(r.Limits) {
		errs = append(errs, validateQuantity(name, r.Limits[name], at.Child("limits").Key(string(name)))...)
	}
	for _, name := range sortedKeys(r.Requests) {
		asked, at := r.Requests[name], at.Child("requests").Key(string(name))
		errs = append(errs, validateQuantity(name, asked, at)...)
		limit, limited := r.Limits[name]
		switch {
		case limited && asked.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, asked.String(), fmt.Sprintf("is more than the limit of %s", limit.String())))
		case !overcommittable(name) && (!limited || asked.Cmp(limit) != 0):
			errs = append(errs,
				field.Invalid(at, asked.String(), "must be equal to its limit: this resource cannot be overcommitted"))
		}
	}
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(at.Child("claims"), "a static pod cannot use a ResourceClaim"))
	}
	return errs
}

// overcommittable: only the kernel's own resources can be given out twice;
// huge pages and devices cannot.
func overcommittable(name v1.ResourceName) bool { return !isHugePages(name) && !isExtended(name) }

// isExtended: resources such as devices, of which there are whole ones.
func isExtended(name v1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

func validateQuantity(name v1.ResourceName, q resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
	default:
		errs = append(errs, invalid(at, string(name), validation.IsQualifiedName(string(name)))...)
		if !isHugePages(name) && !strings.Contains(string(name), "/") {
			errs = append(errs, field.NotSupported(at, name, []v1.ResourceName{
				v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "hugepages-<size>", "<domain>/<device>",
			}))
		}
		if !overcommittable(name) && q.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be a whole number"))
		}
	}
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(at, q.String(), "must be at least 0"))
	}
	return errs
}

// validatePodResources checks spec.resources (KEP-2837) and spec.overhead.
func validatePodResources(pod *v1.Pod) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedKeys(pod.Spec.Overhead) {
		errs = append(errs,
			validateQuantity(name, pod.Spec.Overhead[name], field.NewPath("spec", "overhead").Key(string(name)))...)
	}
	r, at := pod.Spec.Resources, field.NewPath("spec", "resources")
	if r == nil {
		return errs
	}
	errs = append(errs, validateResources(r, at)...)
	for _, part := range []struct {
		name string
		list v1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range sortedKeys(part.list) {
			if !isPodLevel(name) {
				errs = append(errs, field.NotSupported(at.Child(part.name).Key(string(name)), name,
					[]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "hugepages-<size>"}))
			}
		}
	}
	needs := podspec.Peak(&pod.Spec, requestsOf)
	for _, name := range sortedKeys(needs) {
		need := needs[name]
		if have, given := r.Requests[name]; given && have.Cmp(need) < 0 {
			errs = append(errs, field.Invalid(at.Child("requests").Key(string(name)), have.String(),
				fmt.Sprintf("is less than the total of its containers, %s", need.String())))
		}
	}
	eachContainer(pod, func(c *v1.Container, path *field.Path, kind podspec.Kind) {
		if kind != podspec.Main {
			return
		}
		for _, name := range sortedKeys(c.Resources.Limits) {
			limit := c.Resources.Limits[name]
			if most, given := r.Limits[name]; given && limit.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(path.Child("resources", "limits").Key(string(name)), limit.String(),
					fmt.Sprintf("is more than the pod's limit of %s", most.String())))
			}
		}
	})
	return errs
}
