package config

import (
	"errors"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubelet/pkg/apis"
	"k8s.io/utils/cpuset"
)

// idsPerPod is the number of user ids a pod with a user namespace has, and the
// unit of every other number (userNamespaces.idsPerPod).
const idsPerPod int64 = 65536

func (v *validator) images() {
	if n := v.MaxParallelImagePulls; n != nil && *n > 1 && *v.SerializeImagePulls {
		v.invalid(at("maxParallelImagePulls"), *n, "needs serializeImagePulls: false")
	}
	if low, high := *v.ImageGCLowThresholdPercent, *v.ImageGCHighThresholdPercent; low >= high {
		v.invalid(at("imageGCLowThresholdPercent"), low, "must be below imageGCHighThresholdPercent, %d", high)
	}
	policy, list := v.ImagePullCredentialsVerificationPolicy, v.PreloadedImagesVerificationAllowlist
	if v.needsGate(policy != "", pullGate, at("imagePullCredentialsVerificationPolicy"), policy) {
		choice(v, at("imagePullCredentialsVerificationPolicy"), policy, kubelet.NeverVerify,
			kubelet.NeverVerifyPreloadedImages,
			kubelet.NeverVerifyAllowlistedImages, kubelet.AlwaysVerify)
	}
	if v.needsGate(len(list) > 0, pullGate, at("preloadedImagesVerificationAllowlist"), len(list)) &&
		policy != kubelet.NeverVerifyAllowlistedImages {
		v.add(field.Forbidden(at("preloadedImagesVerificationAllowlist"),
			"only for imagePullCredentialsVerificationPolicy NeverVerifyAllowlistedImages"))
	}
	for i, pattern := range list {
		name := strings.TrimSuffix(pattern, "/*")
		lastPart := name[strings.LastIndexByte(name, '/')+1:]
		if lastPart == "" || strings.ContainsAny(name, "*@ ") || name == pattern && strings.Contains(lastPart, ":") {
			v.invalid(at("preloadedImagesVerificationAllowlist").Index(i), pattern,
				"must be an image without tag and digest, or end with /*")
		}
	}
}

func (v *validator) nodeAllocatable() {
	path := at("enforceNodeAllocatable")
	seen := map[string]bool{}
	for i, level := range v.EnforceNodeAllocatable {
		if seen[level] {
			v.add(field.Duplicate(path.Index(i), level))
		}
		seen[level] = true
		choice(v, path.Index(i), level, "none", "pods", "system-reserved", "system-reserved-compressible", "kube-reserved",
			"kube-reserved-compressible")
		if level != "none" && !*v.CgroupsPerQOS {
			v.invalid(path.Index(i), level, "needs cgroupsPerQOS")
		}
	}
	if seen["none"] && len(seen) > 1 {
		v.add(field.Forbidden(path, "none cannot be combined with other values"))
	}
	for _, of := range []struct{ kind, field, cgroup string }{
		{"system-reserved", "systemReservedCgroup", v.SystemReservedCgroup},
		{"kube-reserved", "kubeReservedCgroup", v.KubeReservedCgroup},
	} {
		some := seen[of.kind] || seen[of.kind+"-compressible"]
		if some && of.cgroup == "" {
			v.add(field.Required(at(of.field), "enforceNodeAllocatable has "+of.kind))
		}
		if seen[of.kind] && seen[of.kind+"-compressible"] {
			v.add(field.Forbidden(path, of.kind+" and "+of.kind+"-compressible cannot be combined"))
		}
	}
	if v.SystemCgroups != "" && v.CgroupRoot == "" {
		v.add(field.Required(at("cgroupRoot"), "systemCgroups requires it"))
	}
	if v.SystemCgroups == "/" {
		v.add(field.Invalid(at("systemCgroups"), v.SystemCgroups, "cannot be the root, which processes are moved from"))
	}
	_, errs := parseReserved(v.SystemReserved, at("systemReserved"))
	v.add(errs...)
	_, errs = parseReserved(v.KubeReserved, at("kubeReserved"))
	v.add(errs...)
	_, errs = parseThresholds(v.KubeletConfiguration)
	v.add(errs...)
}

func (v *validator) resources() {
	if f := v.MemoryThrottlingFactor; f != nil && !(*f > 0 && *f <= 1) {
		v.invalid(at("memoryThrottlingFactor"), *f, "must be above 0 and at most 1")
	}
	v.needsGate(v.MemoryReservationPolicy == kubelet.TieredReservationMemoryReservationPolicy, "MemoryQoS",
		at("memoryReservationPolicy"), v.MemoryReservationPolicy)
	if _, err := cpuOptions(v.KubeletConfiguration, v.gates); err != nil {
		v.invalid(at("cpuManagerPolicyOptions"), v.CPUManagerPolicyOptions, "%v", err)
	}
	if _, err := topologyOptions(v.KubeletConfiguration); err != nil {
		v.invalid(at("topologyManagerPolicyOptions"), v.TopologyManagerPolicyOptions, "%v", err)
	}
	if cpus := v.ReservedSystemCPUs; cpus != "" {
		if _, err := cpuset.Parse(cpus); err != nil {
			v.invalid(at("reservedSystemCPUs"), cpus, "must be a list of CPUs, like 0-1,4")
		}
		if v.SystemReservedCgroup != "" || v.KubeReservedCgroup != "" {
			v.invalid(at("reservedSystemCPUs"), cpus, "cannot be combined with systemReservedCgroup or kubeReservedCgroup")
		}
	}
	taken := map[int32]map[v1.ResourceName]bool{}
	for i, r := range v.ReservedMemory {
		if taken[r.NumaNode] == nil {
			taken[r.NumaNode] = map[v1.ResourceName]bool{}
		}
		for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
			limit, path := r.Limits[name], at("reservedMemory").Index(i).Child("limits").Key(string(name))
			switch {
			case name != v1.ResourceMemory && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
				v.add(field.NotSupported(path, name, []v1.ResourceName{v1.ResourceMemory, "hugepages-<size>"}))
			case limit.IsZero() || limit.Sign() < 0 && v.MemoryManagerPolicy != kubelet.NoneMemoryManagerPolicy:
				v.invalid(path, limit.String(), "must be above 0")
			case taken[r.NumaNode][name]:
				v.add(field.Duplicate(path, limit.String()))
			}
			taken[r.NumaNode][name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.QOSReserved)) {
		path, text := at("qosReserved").Key(name), v.QOSReserved[name]
		choice(v, path, name, "memory")
		if amount, err := parseAmount(text, path); err != nil || amount.Quantity != nil {
			v.invalid(path, text, "must be from 0%% to 100%%")
		}
	}
	if v.UserNamespaces != nil {
		if n := *v.UserNamespaces.IDsPerPod; n < idsPerPod || n%idsPerPod != 0 || n > math.MaxUint32 {
			v.invalid(at("userNamespaces", "idsPerPod"), n, "must be a multiple of %d below 2^32", idsPerPod)
		}
	}
}

func (v *validator) shutdown() {
	whole, critical := v.ShutdownGracePeriod.Duration, v.ShutdownGracePeriodCriticalPods.Duration
	v.needsGate(whole > 0, "GracefulNodeShutdown", at("shutdownGracePeriod"), whole.String())
	v.needsGate(critical > 0, "GracefulNodeShutdown", at("shutdownGracePeriodCriticalPods"), critical.String())
	const second = 1e9
	if whole < 0 || whole > 0 && whole < second {
		v.invalid(at("shutdownGracePeriod"), whole.String(), "must be 0 or at least 1s")
	}
	if critical < 0 || critical > 0 && critical < second {
		v.invalid(at("shutdownGracePeriodCriticalPods"), critical.String(), "must be 0 or at least 1s")
	}
	if critical > whole {
		v.invalid(at("shutdownGracePeriodCriticalPods"), critical.String(), "must be at most shutdownGracePeriod, %v", whole)
	}
	byPriority := at("shutdownGracePeriodByPodPriority")
	if v.needsGate(len(v.ShutdownGracePeriodByPodPriority) > 0, "GracefulNodeShutdownBasedOnPodPriority", byPriority,
		len(v.ShutdownGracePeriodByPodPriority)) && (whole > 0 || critical > 0) {
		v.add(field.Forbidden(byPriority, "cannot be combined with shutdownGracePeriod"))
	}
}

// registration: a kubelet registers with any effect and then never can, because the apiserver refuses the Node.
func (v *validator) registration() {
	for i, taint := range v.RegisterWithTaints {
		path := at("registerWithTaints").Index(i)
		v.reasons(path.Child("key"), taint.Key, validation.IsQualifiedName(taint.Key))
		v.reasons(path.Child("value"), taint.Value, validation.IsValidLabelValue(taint.Value))
		choice(v, path.Child("effect"), taint.Effect, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule,
			v1.TaintEffectNoExecute)
		if taint.TimeAdded != nil {
			v.add(field.Forbidden(path.Child("timeAdded"), "is set by the apiserver"))
		}
	}
}

// validateOptions checks the flags that have no field.
func validateOptions(o Options) []Problem {
	var problems []Problem
	add := func(flag, value, message string) {
		problems = append(problems, Problem{Origin: "--" + flag, Value: value, Message: message})
	}
	if o.Runtime != RuntimeCRI && o.Runtime != RuntimeSim {
		add("runtime", string(o.Runtime), "must be cri or sim")
	}
	if o.RootDir == "" || o.RootDir == "/" {
		add("root-dir", o.RootDir, "must be a directory used by the agent only")
	}
	if o.DevicePlugins == "/" || o.DevicePlugins != "" && o.DevicePlugins == o.RootDir {
		add("device-plugins-dir", o.DevicePlugins, "must be a directory for the sockets of device plugins only")
	}
	if o.ContainerLogLinks == "/" {
		add("container-log-links-dir", o.ContainerLogLinks, "must be a directory for links, or empty")
	}
	if o.CloudProvider != "" && o.CloudProvider != "external" {
		add("cloud-provider", o.CloudProvider, "must be empty or external")
	}
	if o.ExitOnLockContention && o.LockFile == "" {
		add("exit-on-lock-contention", "", "needs --lock-file")
	}
	if o.MinimumContainerTTL < 0 {
		add("minimum-container-ttl-duration", o.MinimumContainerTTL.String(), "must be at least 0")
	}
	if (o.CredentialProviderConfig == "") != (o.CredentialProviderBinDir == "") {
		add("image-credential-provider-config", o.CredentialProviderConfig,
			"must be set together with --image-credential-provider-bin-dir")
	}
	if o.HostnameOverride != "" {
		if reasons := validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSpace(o.HostnameOverride))); reasons != nil {
			add("hostname-override", o.HostnameOverride, strings.Join(reasons, "; "))
		}
	}
	if _, _, err := parseNodeIPs(o.NodeIP); err != nil {
		add("node-ip", o.NodeIP, err.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(o.NodeLabels)) {
		pair := key + "=" + o.NodeLabels[key]
		if reasons := append(validation.IsQualifiedName(key),
			validation.IsValidLabelValue(o.NodeLabels[key])...); len(reasons) > 0 {
			add("node-labels", pair, strings.Join(reasons, "; "))
		} else if reservedLabel(key) {
			add("node-labels", pair, "a node cannot set labels of kubernetes.io or k8s.io on itself, except "+
				strings.Join(apis.KubeletLabels(), ", ")+
				" and those that end with kubelet.kubernetes.io or node.kubernetes.io before the slash")
		}
	}
	return problems
}

// reservedLabel: NodeRestriction admission takes these labels only from
// the control plane.
func reservedLabel(key string) bool {
	domain, _, has := strings.Cut(key, "/")
	if !has || apis.IsKubeletLabel(key) {
		return false
	}
	for _, ours := range []string{"kubernetes.io", "k8s.io"} {
		if domain == ours || strings.HasSuffix(domain, "."+ours) {
			return true
		}
	}
	return false
}

// parseNodeIPs reads --node-ip. What is no address is ignored.
func parseNodeIPs(text string) (ips []netip.Addr, ignored []string, err error) {
	if text == "" {
		return nil, nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if ip, ok := sloppyIP(part); ok && ip.Zone() == "" {
			ips = append(ips, ip)
		} else {
			ignored = append(ignored, part)
		}
	}
	switch {
	case len(ips) > 2 || len(ips) == 2 && ips[0].Is4() == ips[1].Is4():
		return nil, ignored, errors.New("must be one address, or one address of each family")
	case len(ips) == 2 && (ips[0].IsUnspecified() || ips[1].IsUnspecified()):
		return nil, ignored, errors.New("0.0.0.0 and :: cannot be combined with another address")
	}
	return ips, ignored, nil
}
