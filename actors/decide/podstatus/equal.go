package podstatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Equal says whether two statuses say the same to a user. It avoids reflection on the fields that
// Compute fills, and does not compare shared lists.
func Equal(a, b *v1.PodStatus) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return a.ObservedGeneration == b.ObservedGeneration && a.Phase == b.Phase &&
		a.Reason == b.Reason && a.Message == b.Message && a.QOSClass == b.QOSClass &&
		a.NominatedNodeName == b.NominatedNodeName && a.Resize == b.Resize &&
		a.HostIP == b.HostIP && a.PodIP == b.PodIP &&
		slices.Equal(a.HostIPs, b.HostIPs) && slices.Equal(a.PodIPs, b.PodIPs) &&
		a.StartTime.Equal(b.StartTime) &&
		equalConditions(a.Conditions, b.Conditions) &&
		equalStatuses(a.InitContainerStatuses, b.InitContainerStatuses) &&
		equalStatuses(a.ContainerStatuses, b.ContainerStatuses) &&
		equalStatuses(a.EphemeralContainerStatuses, b.EphemeralContainerStatuses) &&
		equalRare(a, b)
}

// equalRare compares fields that hardly any pod has.
func equalRare(a, b *v1.PodStatus) bool {
	if len(a.ResourceClaimStatuses)+len(b.ResourceClaimStatuses) > 0 &&
		!apiequality.Semantic.DeepEqual(a.ResourceClaimStatuses, b.ResourceClaimStatuses) {
		return false
	}
	if a.ExtendedResourceClaimStatus != b.ExtendedResourceClaimStatus &&
		!apiequality.Semantic.DeepEqual(a.ExtendedResourceClaimStatus, b.ExtendedResourceClaimStatus) {
		return false
	}
	if len(a.NodeAllocatableResourceClaimStatuses)+len(b.NodeAllocatableResourceClaimStatuses) > 0 &&
		!apiequality.Semantic.DeepEqual(a.NodeAllocatableResourceClaimStatuses, b.NodeAllocatableResourceClaimStatuses) {
		return false
	}
	return equalResources(a.Resources, b.Resources) && podspec.SameResources(a.AllocatedResources, b.AllocatedResources)
}

func equalConditions(a, b []v1.PodCondition) bool {
	if same(a, b) {
		return true
	}
	return slices.EqualFunc(a, b, func(x, y v1.PodCondition) bool { return EqualCondition(&x, &y) })
}

// EqualCondition says whether two conditions say the same to a user.
func EqualCondition(a, b *v1.PodCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.ObservedGeneration == b.ObservedGeneration &&
		a.LastTransitionTime.Equal(&b.LastTransitionTime) && a.LastProbeTime.Equal(&b.LastProbeTime)
}

func equalStatuses(a, b []v1.ContainerStatus) bool {
	if same(a, b) {
		return true
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equalStatus(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func equalStatus(a, b *v1.ContainerStatus) bool {
	return a.Name == b.Name && a.Ready == b.Ready && a.RestartCount == b.RestartCount &&
		a.Image == b.Image && a.ImageID == b.ImageID && a.ContainerID == b.ContainerID &&
		equalPointer(a.Started, b.Started) &&
		equalState(&a.State, &b.State) && equalState(&a.LastTerminationState, &b.LastTerminationState) &&
		equalResources(a.Resources, b.Resources) && podspec.SameResources(a.AllocatedResources, b.AllocatedResources) &&
		equalMounts(a.VolumeMounts, b.VolumeMounts) && equalPointer(a.StopSignal, b.StopSignal) &&
		(a.User == b.User || apiequality.Semantic.DeepEqual(a.User, b.User)) &&
		(same(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus) ||
			apiequality.Semantic.DeepEqual(a.AllocatedResourcesStatus, b.AllocatedResourcesStatus))
}

func equalState(a, b *v1.ContainerState) bool {
	return (a.Waiting == b.Waiting || a.Waiting != nil && b.Waiting != nil && *a.Waiting == *b.Waiting) &&
		(a.Running == b.Running || a.Running != nil && b.Running != nil && a.Running.StartedAt.Equal(&b.Running.StartedAt)) &&
		(a.Terminated == b.Terminated || a.Terminated != nil && b.Terminated != nil &&
			equalTerminated(a.Terminated, b.Terminated))
}

func equalTerminated(a, b *v1.ContainerStateTerminated) bool {
	return a.ExitCode == b.ExitCode && a.Signal == b.Signal && a.Reason == b.Reason && a.Message == b.Message &&
		a.ContainerID == b.ContainerID && a.StartedAt.Equal(&b.StartedAt) && a.FinishedAt.Equal(&b.FinishedAt)
}

func equalResources(a, b *v1.ResourceRequirements) bool {
	if a == b {
		return true
	}
	return a != nil && b != nil && podspec.SameResources(a.Requests, b.Requests) &&
		podspec.SameResources(a.Limits, b.Limits) && slices.Equal(a.Claims, b.Claims)
}

func equalUsers(a, b *v1.LinuxContainerUser) bool {
	return a == b || a != nil && b != nil && a.UID == b.UID && a.GID == b.GID &&
		slices.Equal(a.SupplementalGroups, b.SupplementalGroups)
}

func equalMounts(a, b []v1.VolumeMountStatus) bool {
	return same(a, b) || slices.EqualFunc(a, b, func(x, y v1.VolumeMountStatus) bool {
		return x.Name == y.Name && x.MountPath == y.MountPath && x.ReadOnly == y.ReadOnly &&
			equalPointer(x.RecursiveReadOnly, y.RecursiveReadOnly) &&
			(x.VolumeStatus == y.VolumeStatus || apiequality.Semantic.DeepEqual(x.VolumeStatus, y.VolumeStatus))
	})
}

func equalPointer[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// same says whether two lists share their memory.
func same[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
