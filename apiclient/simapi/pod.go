package simapi

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// mayReplacePod reports whether a pod may become next: few fields of a pod's spec may change (API
// reference, Pod update). It increments the generation on a change.
func (s *Server) mayReplacePod(k port.APIKey, old, next *v1.Pod) error {
	if apiequality.Semantic.DeepEqual(next.Spec, old.Spec) {
		next.Spec = old.Spec
		return nil
	}
	s.specs.fill(next, s.tables[port.PodKind].objects)
	if apiequality.Semantic.DeepEqual(next.Spec, old.Spec) {
		next.Spec = old.Spec
		return nil
	}
	if errs := changes(&old.Spec, &next.Spec); len(errs) > 0 {
		return invalid(k.Kind, k.Name, errs...)
	}
	next.Generation++
	return nil
}

// changes validates the change of a spec.
func changes(old, next *v1.PodSpec) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	for _, c := range []struct {
		field     string
		old, next []v1.Container
	}{{"containers", old.Containers, next.Containers}, {"initContainers", old.InitContainers, next.InitContainers}} {
		if len(c.old) != len(c.next) {
			return append(errs, field.Forbidden(spec.Child(c.field), "pod updates may not add or remove containers"))
		}
	}
	if err := deadlineChange(old.ActiveDeadlineSeconds, next.ActiveDeadlineSeconds,
		spec.Child("activeDeadlineSeconds")); err != nil {
		errs = append(errs, err)
	}
	if !onlyAdded(old.Tolerations, next.Tolerations) {
		errs = append(errs,
			field.Forbidden(spec.Child("tolerations"), "existing toleration can not be modified except its tolerationSeconds"))
	}
	for _, gate := range next.SchedulingGates {
		if !contains(old.SchedulingGates, gate) {
			errs = append(errs,
				field.Forbidden(spec.Child("schedulingGates"),
					fmt.Sprintf("only deletion is allowed, but found new scheduling gate %q", gate.Name)))
		}
	}
	// All other fields must be equal.
	rest := *next
	rest.Containers, rest.InitContainers = imagesOf(old.Containers, next.Containers),
		imagesOf(old.InitContainers, next.InitContainers)
	rest.ActiveDeadlineSeconds, rest.Tolerations, rest.SchedulingGates = old.ActiveDeadlineSeconds,
		old.Tolerations, old.SchedulingGates
	if g := old.TerminationGracePeriodSeconds; g != nil && *g < 0 && rest.TerminationGracePeriodSeconds != nil &&
		*rest.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = g
	}
	if len(old.SchedulingGates) > 0 { // a gated pod's scheduling fields may still change
		rest.NodeSelector = old.NodeSelector
		rest.Affinity = old.Affinity
	}
	if !apiequality.Semantic.DeepEqual(&rest, old) {
		errs = append(errs, field.Forbidden(spec, "pod updates may not change fields other than "+mutable))
	}
	return errs
}

const mutable = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations)," +
	"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

func deadlineChange(old, next *int64, path *field.Path) *field.Error {
	switch {
	case next == nil && old != nil:
		return field.Invalid(path, next, "must not update from a positive integer to nil value")
	case next == nil:
		return nil
	case *next < 0 || *next > math.MaxInt32:
		return field.Invalid(path, *next, "must be between 0 and 2147483647, inclusive")
	case old != nil && *old < *next:
		return field.Invalid(path, *next, "must be less than or equal to previous value")
	}
	return nil
}

// onlyAdded reports whether all old tolerations are still there, whatever their seconds.
func onlyAdded(old, next []v1.Toleration) bool {
	for _, was := range old {
		kept := false
		for _, is := range next {
			is.TolerationSeconds = was.TolerationSeconds
			kept = kept || apiequality.Semantic.DeepEqual(was, is)
		}
		if !kept {
			return false
		}
	}
	return true
}

func contains[T comparable](list []T, x T) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// imagesOf copies the images of other containers.
func imagesOf(from, to []v1.Container) []v1.Container {
	if len(to) == 0 {
		return to
	}
	out := append([]v1.Container(nil), to...)
	for i := range out {
		out[i].Image = from[i].Image
	}
	return out
}

// keepObserved restores the observedGenerations that a writer left out.
func keepObserved(next, old *v1.PodStatus) {
	if next.ObservedGeneration == 0 {
		next.ObservedGeneration = old.ObservedGeneration
	}
	copied := false
	for i := range next.Conditions {
		c := &next.Conditions[i]
		if c.ObservedGeneration != 0 {
			continue
		}
		for j := range old.Conditions {
			if o := &old.Conditions[j]; o.Type == c.Type && o.ObservedGeneration != 0 {
				if !copied {
					next.Conditions, copied = append([]v1.PodCondition(nil), next.Conditions...), true
				}
				next.Conditions[i].ObservedGeneration = o.ObservedGeneration
				break
			}
		}
	}
}

// mayFollow reports whether a pod's status may become next: its QoS class stays, it has at most
// one address of each family, and a container that has ended for good does not run again.
func mayFollow(k port.APIKey, old *v1.Pod, next *v1.PodStatus) error {
	path := field.NewPath("status")
	if next.QOSClass != old.Status.QOSClass {
		return invalid(k.Kind, k.Name, field.Invalid(path.Child("qosClass"), next.QOSClass, "field is immutable"))
	}
	errs := badAddresses(nil, next)
	errs = resurrected(errs, old, old.Spec.Containers, old.Status.ContainerStatuses, next.ContainerStatuses,
		path.Child("containerStatuses"))
	errs = resurrected(errs, old, old.Spec.InitContainers, old.Status.InitContainerStatuses, next.InitContainerStatuses,
		path.Child("initContainerStatuses"))
	if len(errs) > 0 {
		return invalid(k.Kind, k.Name, errs...)
	}
	return nil
}

// resurrected finds containers that ended, may not be restarted, and are reported as not ended.
func resurrected(
	errs field.ErrorList, p *v1.Pod, specs []v1.Container, old, next []v1.ContainerStatus, path *field.Path,
) field.ErrorList {
	for i := range old {
		was := old[i].State.Terminated
		if was == nil {
			continue
		}
		for j := range next {
			if next[j].Name != old[i].Name {
				continue
			}
			if next[j].State.Terminated == nil && !mayRestart(p, specs, old[i].Name, was.ExitCode) {
				errs = append(errs,
					field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
			break
		}
	}
	return errs
}

func mayRestart(p *v1.Pod, specs []v1.Container, container string, code int32) bool {
	for i := range specs {
		if specs[i].Name == container {
			return podspec.MayLeaveTerminated(p, &specs[i], code)
		}
	}
	return false
}
