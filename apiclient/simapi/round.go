package simapi

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// round truncates an object's times to the API's resolution: whole seconds, and microseconds of a
// MicroTime. The caller owns the object's outermost struct; deeper changes are made on a copy. It
// is cheap for an actor that truncates by itself, as troupe's do.
func round(o port.APIObject) {
	switch o := o.(type) {
	case *v1.Pod:
		if !wholePodStatus(&o.Status) {
			o.Status = *o.Status.DeepCopy()
			roundPodStatus(&o.Status)
		}
	case *v1.Node:
		if !wholeConditions(o.Status.Conditions) {
			o.Status.Conditions = append([]v1.NodeCondition(nil), o.Status.Conditions...)
			for i := range o.Status.Conditions {
				cut(&o.Status.Conditions[i].LastHeartbeatTime)
				cut(&o.Status.Conditions[i].LastTransitionTime)
			}
		}
	case *coordinationv1.Lease:
		o.Spec.AcquireTime, o.Spec.RenewTime = micro(o.Spec.AcquireTime), micro(o.Spec.RenewTime)
	case *v1.Event:
		cut(&o.FirstTimestamp)
		cut(&o.LastTimestamp)
		o.EventTime = *micro(&o.EventTime)
		if o.Series != nil {
			series := *o.Series
			series.LastObservedTime = *micro(&series.LastObservedTime)
			o.Series = &series
		}
	}
}

func whole(t *metav1.Time) bool { return t == nil || t.Nanosecond() == 0 }

func cut(t *metav1.Time) {
	if !whole(t) {
		t.Time = t.Truncate(time.Second)
	}
}

func micro(t *metav1.MicroTime) *metav1.MicroTime {
	if t == nil || t.Nanosecond()%1000 == 0 {
		return t
	}
	return new(metav1.NewMicroTime(t.Truncate(time.Microsecond)))
}

func wholeConditions(conditions []v1.NodeCondition) bool {
	for i := range conditions {
		if !whole(&conditions[i].LastHeartbeatTime) || !whole(&conditions[i].LastTransitionTime) {
			return false
		}
	}
	return true
}

func wholePodStatus(s *v1.PodStatus) bool {
	if !whole(s.StartTime) {
		return false
	}
	for i := range s.Conditions {
		if !whole(&s.Conditions[i].LastProbeTime) || !whole(&s.Conditions[i].LastTransitionTime) {
			return false
		}
	}
	return wholeStatuses(s.InitContainerStatuses) && wholeStatuses(s.ContainerStatuses) &&
		wholeStatuses(s.EphemeralContainerStatuses)
}

func wholeStatuses(statuses []v1.ContainerStatus) bool {
	for i := range statuses {
		if !wholeState(&statuses[i].State) || !wholeState(&statuses[i].LastTerminationState) {
			return false
		}
	}
	return true
}

func wholeState(s *v1.ContainerState) bool {
	return (s.Running == nil || whole(&s.Running.StartedAt)) &&
		(s.Terminated == nil || whole(&s.Terminated.StartedAt) && whole(&s.Terminated.FinishedAt))
}

// roundPodStatus truncates the times of a status that the caller owns.
func roundPodStatus(s *v1.PodStatus) {
	cut(s.StartTime)
	for i := range s.Conditions {
		cut(&s.Conditions[i].LastProbeTime)
		cut(&s.Conditions[i].LastTransitionTime)
	}
	for _, statuses := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for i := range statuses {
			for _, state := range []*v1.ContainerState{&statuses[i].State, &statuses[i].LastTerminationState} {
				if state.Running != nil {
					cut(&state.Running.StartedAt)
				}
				if state.Terminated != nil {
					cut(&state.Terminated.StartedAt)
					cut(&state.Terminated.FinishedAt)
				}
			}
		}
	}
}
