// Package readback turns CRI answers into observed values. It recognizes pods by the
// labels and annotations of troupe and the kubelet (package labels). Sandboxes and
// containers without them belong to other clients and are left out.
package readback

import (
	"cmp"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	netutils "k8s.io/utils/net"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/labels"
)

// defaultGraceSeconds is the API's default (core/v1 terminationGracePeriodSeconds).
const defaultGraceSeconds = 30

// Pod is the pod that labels belong to; ok is false if they name none.
func Pod(l map[string]string) (ref observed.PodRef, ok bool) {
	ref = observed.PodRef{
		UID:       types.UID(l[labels.PodUID]),
		Namespace: l[labels.PodNamespace],
		Name:      l[labels.PodName],
	}
	return ref, ref.UID != "" && ref.Namespace != "" && ref.Name != ""
}

// ListedSandbox converts one element of a list.
func ListedSandbox(s *runtimeapi.PodSandbox) (observed.Sandbox, bool) {
	ref, ok := Pod(s.GetLabels())
	return observed.Sandbox{
		ID:             s.GetId(),
		Pod:            ref,
		Attempt:        s.GetMetadata().GetAttempt(),
		State:          sandboxState(s.GetState()),
		CreatedAt:      nanoseconds(s.GetCreatedAt()),
		Source:         s.GetAnnotations()[podspec.AnnotationSource],
		RuntimeHandler: s.GetRuntimeHandler(),
	}, ok
}

// Sandbox converts an inspection.
func Sandbox(s *runtimeapi.PodSandboxStatus) (observed.Sandbox, bool) {
	ref, ok := Pod(s.GetLabels())
	out := observed.Sandbox{
		ID:             s.GetId(),
		Pod:            ref,
		Attempt:        s.GetMetadata().GetAttempt(),
		State:          sandboxState(s.GetState()),
		CreatedAt:      nanoseconds(s.GetCreatedAt()),
		Source:         s.GetAnnotations()[podspec.AnnotationSource],
		Detailed:       true,
		HostNetwork:    s.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE,
		RuntimeHandler: s.GetRuntimeHandler(),
	}
	out.IPs = addIP(out.IPs, s.GetNetwork().GetIp())
	for _, more := range s.GetNetwork().GetAdditionalIps() {
		out.IPs = addIP(out.IPs, more.GetIp())
	}
	return out, ok
}

// addIP adds an address as the API writes it. What is none is left out.
func addIP(to []string, text string) []string {
	if ip := netutils.ParseIPSloppy(text); ip != nil {
		return append(to, ip.String())
	}
	return to
}

// ListedContainer converts one element of a list.
func ListedContainer(c *runtimeapi.Container) (observed.Container, bool) {
	ref, ok := Pod(c.GetLabels())
	name := containerName(c.GetLabels(), c.GetMetadata())
	return observed.Container{
		ID:        c.GetId(),
		SandboxID: c.GetPodSandboxId(),
		Pod:       ref,
		Name:      name,
		Attempt:   attempt(c.GetMetadata(), c.GetAnnotations()),
		State:     containerState(c.GetState()),
		Image:     imageName(c.GetImage()),
		ImageRef:  c.GetImageRef(),
		SpecHash:  specHash(c.GetAnnotations()),
		CreatedAt: nanoseconds(c.GetCreatedAt()),
	}, ok && name != ""
}

// Container converts an inspection. The sandbox is missing, because the CRI does not report it.
func Container(c *runtimeapi.ContainerStatus) (observed.Container, bool) {
	ref, ok := Pod(c.GetLabels())
	name := containerName(c.GetLabels(), c.GetMetadata())
	a := c.GetAnnotations()
	return observed.Container{
		ID:                       c.GetId(),
		Pod:                      ref,
		Name:                     name,
		Attempt:                  attempt(c.GetMetadata(), a),
		State:                    containerState(c.GetState()),
		Image:                    imageName(c.GetImage()),
		ImageRef:                 c.GetImageRef(),
		SpecHash:                 specHash(a),
		CreatedAt:                nanoseconds(c.GetCreatedAt()),
		Detailed:                 true,
		StartedAt:                nanoseconds(c.GetStartedAt()),
		FinishedAt:               nanoseconds(c.GetFinishedAt()),
		ExitCode:                 c.GetExitCode(),
		Reason:                   c.GetReason(),
		Message:                  c.GetMessage(),
		LogPath:                  c.GetLogPath(),
		GraceSeconds:             graceSeconds(a),
		PreStop:                  a[labels.PreStopHandler],
		TerminationMessagePolicy: a[labels.TerminationMessagePolicy],
		MessageFile:              messageFile(a, c.GetMounts()),
		Resources:                resources(c.GetResources().GetLinux()),
		RecursiveReadOnly:        recursiveReadOnly(c.GetMounts()),
		User:                     user(c.GetUser().GetLinux()),
	}, ok && name != ""
}

// messageFile is where a kubelet has put the file for the termination message; the names of ours follow from the
// attempt.
func messageFile(annotations map[string]string, mounts []*runtimeapi.Mount) string {
	path := annotations[labels.TerminationMessagePath]
	if path == "" || annotations[labels.SpecHash] != "" {
		return ""
	}
	for _, m := range mounts {
		if m.GetContainerPath() == path {
			return m.GetHostPath()
		}
	}
	return ""
}

// recursiveReadOnly are the mounts that are read-only with all mounts below them, as reported by
// runtimes that support such mounts.
func recursiveReadOnly(mounts []*runtimeapi.Mount) (paths []string) {
	for _, m := range mounts {
		if m.GetRecursiveReadOnly() {
			paths = append(paths, m.GetContainerPath())
		}
	}
	return paths
}

// user is nil if the runtime does not report it (containerd before 2.0).
func user(u *runtimeapi.LinuxContainerUser) *v1.LinuxContainerUser {
	if u == nil {
		return nil
	}
	return &v1.LinuxContainerUser{UID: u.GetUid(), GID: u.GetGid(), SupplementalGroups: u.GetSupplementalGroups()}
}

// resources are nil if the runtime does not report them (containerd before 1.7). No limit is 0
// here, and -1 in some runtimes.
func resources(r *runtimeapi.LinuxContainerResources) *observed.Resources {
	if r == nil {
		return nil
	}
	return &observed.Resources{
		CPUShares: r.GetCpuShares(), CPUQuota: max(r.GetCpuQuota(), 0), CPUPeriod: r.GetCpuPeriod(),
		Memory: max(r.GetMemoryLimitInBytes(), 0),
	}
}

// Image converts an image.
func Image(i *runtimeapi.Image) observed.Image {
	out := observed.Image{
		ID:          i.GetId(),
		RepoTags:    i.GetRepoTags(),
		RepoDigests: i.GetRepoDigests(),
		SizeBytes:   i.GetSize(),
		Pinned:      i.GetPinned(),
		Username:    i.GetUsername(),
	}
	if i.GetUid() != nil {
		uid := i.GetUid().GetValue()
		out.UID, out.Username = &uid, ""
	}
	return out
}

func sandboxState(s runtimeapi.PodSandboxState) observed.SandboxState {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return observed.SandboxReady
	}
	return observed.SandboxNotReady
}

func containerState(s runtimeapi.ContainerState) observed.ContainerState {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return observed.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return observed.ContainerRunning
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return observed.ContainerExited
	default:
		return observed.ContainerUnknown
	}
}

func containerName(l map[string]string, m *runtimeapi.ContainerMetadata) string {
	if name := l[labels.ContainerName]; name != "" {
		return name
	}
	return m.GetName()
}

// attempt is that of the metadata; if the runtime loses it, that of the annotation.
func attempt(m *runtimeapi.ContainerMetadata, annotations map[string]string) uint32 {
	if n := m.GetAttempt(); n != 0 {
		return n
	}
	n, err := strconv.ParseUint(annotations[labels.RestartCount], 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

// specHash is ours; of a container that a kubelet made, the kubelet's.
func specHash(annotations map[string]string) string {
	return cmp.Or(annotations[labels.SpecHash], annotations[labels.KubeletHash])
}

// imageName is the name that the user wrote; runtimes before v1.30 have only the one that the
// container was created from.
func imageName(s *runtimeapi.ImageSpec) string {
	if u := s.GetUserSpecifiedImage(); u != "" {
		return u
	}
	return s.GetImage()
}

// graceSeconds prefers the grace period of a running deletion.
func graceSeconds(annotations map[string]string) int64 {
	for _, key := range []string{labels.DeletionGracePeriod, labels.TerminationGracePeriod} {
		if n, err := strconv.ParseInt(annotations[key], 10, 64); err == nil && n >= 0 {
			return n
		}
	}
	return defaultGraceSeconds
}

// nanoseconds since 1970; zero is not set.
func nanoseconds(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}
