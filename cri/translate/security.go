package translate

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

// maskedPaths and readonlyPaths are hidden and protected in a container by procMount: Default
// (OCI runtimes' common default).
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
		"/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// containerSecurity is the security context of a container: its own fields, or its pod's where
// its own are unset.
func containerSecurity(n *Node, r *port.CreateContainer) (*runtimeapi.LinuxContainerSecurityContext, error) {
	pod, c := r.Pod, r.Container
	podSC, sc := pod.Spec.SecurityContext, c.SecurityContext
	if podSC == nil {
		podSC = &v1.PodSecurityContext{}
	}
	if sc == nil {
		sc = &v1.SecurityContext{}
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:         isTrue(sc.Privileged),
		ReadonlyRootfs:     isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivs:         sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		SelinuxOptions:     selinux(podSC.SELinuxOptions),
		SupplementalGroups: append(supplementalGroups(podSC), r.Groups...),
	}
	if sc.SELinuxOptions != nil {
		out.SelinuxOptions = selinux(sc.SELinuxOptions)
	}
	if sc.ProcMount == nil || *sc.ProcMount != v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = n.maskedPaths(), readonlyPaths
	}
	if sc.Capabilities != nil {
		out.Capabilities = &runtimeapi.Capability{
			AddCapabilities:  capabilities(sc.Capabilities.Add),
			DropCapabilities: capabilities(sc.Capabilities.Drop),
		}
	}

	user, _ := effectiveUser(pod, c)
	out.RunAsUser, out.RunAsUsername = runAs(user, r.Image)
	out.RunAsGroup = int64Value(podSC.RunAsGroup)
	if sc.RunAsGroup != nil {
		out.RunAsGroup = int64Value(sc.RunAsGroup)
	}

	var err error
	if out.SupplementalGroupsPolicy, err = groupsPolicy(podSC); err != nil {
		return nil, err
	}
	if out.NamespaceOptions, err = namespaces(n, pod, r.RuntimeHandler); err != nil {
		return nil, err
	}
	if out.Seccomp, err = seccomp(n, pod, c); err != nil {
		return nil, err
	}
	armor, text, err := appArmor(pod, c)
	if err != nil {
		return nil, err
	}
	out.Apparmor = armor
	out.ApparmorProfile = text //nolint:staticcheck // containerd 1.6 reads only this one
	return out, nil
}

// runAs is the user: the pod's, or else the image's. The image's is set explicitly, as in the
// kubelet, because a runtime refuses a group without a user. For an unknown image nothing is set.
func runAs(user *int64, image observed.Image) (*runtimeapi.Int64Value, string) {
	switch {
	case user != nil:
		return int64Value(user), ""
	case image.UID != nil:
		return int64Value(image.UID), ""
	case image.Username != "":
		return nil, image.Username
	case image.ID != "":
		return &runtimeapi.Int64Value{}, ""
	}
	return nil, ""
}

// sandboxSecurity is the security context of the sandbox's own process.
func sandboxSecurity(n *Node, r *port.RunPodSandbox) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	pod, sc := r.Pod, r.Pod.Spec.SecurityContext
	if sc == nil {
		sc = &v1.PodSecurityContext{}
	}
	out := &runtimeapi.LinuxSandboxSecurityContext{
		Privileged: anyPrivileged(pod),
		// The sandbox's own process needs only the default.
		Seccomp:            profile(runtimeapi.SecurityProfile_RuntimeDefault, ""),
		SelinuxOptions:     selinux(sc.SELinuxOptions),
		SupplementalGroups: append(supplementalGroups(sc), r.Groups...),
		RunAsUser:          int64Value(sc.RunAsUser),
	}
	if sc.RunAsUser != nil {
		// Runtimes must refuse a group without a user (CRI run_as_group).
		out.RunAsGroup = int64Value(sc.RunAsGroup)
	}
	var err error
	if out.SupplementalGroupsPolicy, err = groupsPolicy(sc); err != nil {
		return nil, err
	}
	out.NamespaceOptions, err = namespaces(n, pod, r.RuntimeHandler)
	return out, err
}

// anyPrivileged reports whether the sandbox must allow privileged containers.
func anyPrivileged(pod *v1.Pod) bool {
	for c := range podspec.All(&pod.Spec) {
		if sc := c.SecurityContext; sc != nil && isTrue(sc.Privileged) {
			return true
		}
	}
	return false
}

// supplementalGroups has fsGroup first: it owns the files in the pod's volumes.
func supplementalGroups(sc *v1.PodSecurityContext) []int64 {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

func groupsPolicy(sc *v1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	if sc.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	p, ok := runtimeapi.SupplementalGroupsPolicy_value[string(*sc.SupplementalGroupsPolicy)]
	if !ok {
		return 0, fmt.Errorf("supplementalGroupsPolicy %q is unknown", *sc.SupplementalGroupsPolicy)
	}
	return runtimeapi.SupplementalGroupsPolicy(p), nil
}

func (n *Node) maskedPaths() []string {
	out := maskedPaths[:len(maskedPaths):len(maskedPaths)]
	for cpu := range n.PossibleCPUs {
		out = append(out, "/sys/devices/system/cpu/cpu"+strconv.Itoa(cpu)+"/thermal_throttle")
	}
	return out
}

func selinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func capabilities(list []v1.Capability) []string {
	var out []string
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}
