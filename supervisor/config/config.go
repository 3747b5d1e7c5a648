package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
)

// Config is the agent's whole configuration, complete and checked. It is an immutable value:
// results of its methods may be kept and changed.
type Config struct {
	kubelet kubelet.KubeletConfiguration
	options Options
	gates   Gates
	origins origins
	// warnings are all but those of settings without effect: idle are these, byGroup those that a group of gates switches.
	warnings      []string
	idle, byGroup []string
	// providers are those of --image-credential-provider-config.
	providers     []imagepull.Provider
	providersHash string
	// ahead are those of --pull-ahead-images and --pull-ahead-lists.
	ahead []imagecache.Image
}

// Validate checks every documented constraint and returns an *Error with all
// that do not hold. Load has done so.
func (c Config) Validate() error {
	problems := fromFieldErrors(c.origins, validate(&c.kubelet, c.gates))
	problems = append(problems, validateOptions(c.options)...)
	if len(problems) == 0 {
		return nil
	}
	return &Error{Problems: problems}
}

// Kubelet is the whole KubeletConfiguration, every field with its value. The
// values of staticPodURL and staticPodURLHeader may be secret: see Shown.
func (c Config) Kubelet() *kubelet.KubeletConfiguration { return c.kubelet.DeepCopy() }

// Options is what only the command line says.
func (c Config) Options() Options {
	o := c.options
	o.NodeLabels = maps.Clone(o.NodeLabels)
	o.PullAheadImages = slices.Clone(o.PullAheadImages)
	return o
}

// Gates are the feature gates.
func (c Config) Gates() Gates { return c.gates }

// Standalone: no apiserver, static pods only (no --kubeconfig).
func (c Config) Standalone() bool {
	return c.options.Kubeconfig == "" && c.options.BootstrapKubeconfig == ""
}

// NodeName is the node's name on a host of that name: --hostname-override, or
// the host's, in lower case.
func (c Config) NodeName(hostname string) (string, error) {
	name, from := c.options.HostnameOverride, "--hostname-override"
	if name == "" {
		name, from = hostname, "the host's name"
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if reasons := validation.IsDNS1123Subdomain(name); reasons != nil {
		return "", fmt.Errorf("%s: %q cannot be a node's name: %s: set another one with --hostname-override", from, name,
			strings.Join(reasons, "; "))
	}
	return name, nil
}

// NodeIPs are the addresses of --node-ip; none for the agent to find.
func (c Config) NodeIPs() []netip.Addr {
	ips, _, err := parseNodeIPs(c.options.NodeIP)
	if err != nil {
		panic("config: checked before: " + err.Error())
	}
	return ips
}

// PrefersIPv6: the family of the first address of --node-ip comes first, also where the node and its pods have both.
func (c Config) PrefersIPv6() bool {
	ips := c.NodeIPs()
	return len(ips) > 0 && ips[0].Is6()
}

// RunOnce: run the static pods to their end and exit (runOnce, --runonce).
func (c Config) RunOnce() bool { return c.kubelet.RunOnce }

// RuntimeEndpoint is the CRI socket of containers. (containerRuntimeEndpoint)
func (c Config) RuntimeEndpoint() string { return c.kubelet.ContainerRuntimeEndpoint }

// ImageEndpoint is the CRI socket of images: the same, unless
// imageServiceEndpoint names another.
func (c Config) ImageEndpoint() string {
	if c.kubelet.ImageServiceEndpoint != "" {
		return c.kubelet.ImageServiceEndpoint
	}
	return c.kubelet.ContainerRuntimeEndpoint
}

// RuntimeRequestTimeout bounds every call to the runtime but those that take
// long by nature: pulls, logs, exec, attach. (runtimeRequestTimeout)
func (c Config) RuntimeRequestTimeout() time.Duration {
	return c.kubelet.RuntimeRequestTimeout.Duration
}

// CrashLoopBackOffMax is the longest wait before a crashing container is
// started again. (crashLoopBackOff.maxContainerRestartPeriod)
func (c Config) CrashLoopBackOffMax() time.Duration {
	if p := c.kubelet.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		return p.Duration
	}
	return MaxCrashLoopBackOff
}

// Pulls returns the limits on image pulls. Images are pulled one at a time only if
// the configuration sets serializeImagePulls explicitly: the default true of the
// kubelet is historical.
func (c Config) Pulls() Pulls {
	p := Pulls{QPS: *c.kubelet.RegistryPullQPS, Burst: c.kubelet.RegistryBurst}
	switch {
	case c.kubelet.MaxParallelImagePulls != nil:
		p.Parallel = *c.kubelet.MaxParallelImagePulls
	case *c.kubelet.SerializeImagePulls && c.origins.of("serializeImagePulls") != "":
		p.Parallel = 1
	case *c.kubelet.SerializeImagePulls:
		p.Parallel = defaultParallelPulls
	}
	return p
}

// PullVerification says for which images the credentials of pods are verified; nil for none, and no record of pulls.
// (imagePullCredentialsVerificationPolicy, preloadedImagesVerificationAllowlist)
func (c Config) PullVerification() *imagepull.VerificationPolicy {
	if !c.gates.on(pullGate) {
		return nil
	}
	return &imagepull.VerificationPolicy{
		Verification: c.kubelet.ImagePullCredentialsVerificationPolicy,
		Allowlist:    slices.Clone(c.kubelet.PreloadedImagesVerificationAllowlist),
	}
}

// pullGate is the feature gate of records of pulls (KEP-2535).
const pullGate = "KubeletEnsureSecretPulledImages"

// Pulls are the limits on image pulls.
type Pulls struct {
	// Parallel is how many images are pulled at once; 0 for no limit.
	// (serializeImagePulls, maxParallelImagePulls)
	Parallel int32
	// QPS is the number of pulls that may start per second; 0 for no limit.
	// (registryPullQPS)
	QPS int32
	// Burst is the number that may start at once under QPS. (registryBurst)
	Burst int32
}

const defaultParallelPulls = 5

// ImageGC says when images that nobody uses are removed. (imageGCHighThresholdPercent, imageGCLowThresholdPercent,
// imageMinimumGCAge, imageMaximumGCAge)
func (c Config) ImageGC() imagecache.GCPolicy {
	k := &c.kubelet
	return imagecache.GCPolicy{
		High: int(*k.ImageGCHighThresholdPercent), Low: int(*k.ImageGCLowThresholdPercent),
		MinAge: k.ImageMinimumGCAge.Duration, MaxAge: k.ImageMaximumGCAge.Duration,
	}
}

// FailCgroupV1: refuse to run on a host with cgroup v1. This holds only if the configuration sets
// it: by default there is a warning. (failCgroupV1)
func (c Config) FailCgroupV1() bool {
	return ptr.Deref(c.kubelet.FailCgroupV1, false) && c.origins.of("failCgroupV1") != ""
}

// FailSwapOn: refuse to run on a host with swap. (failSwapOn)
func (c Config) FailSwapOn() bool { return ptr.Deref(c.kubelet.FailSwapOn, true) }

// LogRotation says how small the logs of containers are kept. (containerLogMaxSize, containerLogMaxFiles)
func (c Config) LogRotation() containerlogs.Policy {
	size, err := parseLogSize(c.kubelet.ContainerLogMaxSize)
	if err != nil {
		panic("config: containerLogMaxSize checked before: " + err.Error())
	}
	return containerlogs.Policy{MaxSize: size, MaxFiles: int(*c.kubelet.ContainerLogMaxFiles)}
}

// ContainerGC says how many dead containers are kept.
func (c Config) ContainerGC() podgc.Policy {
	return podgc.Policy{
		MinAge: c.options.MinimumContainerTTL, MaxPerPodContainer: int(max(c.options.MaxDeadPerContainer, 0)),
		MaxContainers: int(c.options.MaxDead),
	}
}

// MaxPods is how many pods may run on a node with that many cores. (maxPods,
// podsPerCore)
func (c Config) MaxPods(cores int) int {
	most := int(c.kubelet.MaxPods)
	if perCore := int(c.kubelet.PodsPerCore); perCore > 0 {
		most = min(most, perCore*cores)
	}
	return most
}

// Healthz is the address of the health endpoint, which may have a name for its host; false if it is off.
// (healthzBindAddress, healthzPort)
func (c Config) Healthz() (string, bool) {
	port := *c.kubelet.HealthzPort
	return net.JoinHostPort(c.kubelet.HealthzBindAddress, strconv.Itoa(int(port))), port != 0
}

// Server is the address of the HTTPS server; false if it is off. (address,
// port, enableServer)
func (c Config) Server() (netip.AddrPort, bool) {
	if !*c.kubelet.EnableServer {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(netip.MustParseAddr(c.kubelet.Address), uint16(c.kubelet.Port)), true
}

// OOMScoreAdj is oom_score_adj of the agent's own process. (oomScoreAdj)
func (c Config) OOMScoreAdj() int { return int(*c.kubelet.OOMScoreAdj) }

// MaxOpenFiles is how many files the agent's own process may have open. (maxOpenFiles)
func (c Config) MaxOpenFiles() uint64 { return uint64(max(c.kubelet.MaxOpenFiles, 0)) }

// PodLogsDir is where the logs of pods are. (podLogsDir)
func (c Config) PodLogsDir() string { return c.kubelet.PodLogsDir }

// CgroupDriver is cgroupfs or systemd, where the runtime does not say.
// (cgroupDriver)
func (c Config) CgroupDriver() string { return c.kubelet.CgroupDriver }

// CgroupsPerQOS: pods have cgroups of their own, by their classes.
// (cgroupsPerQOS)
func (c Config) CgroupsPerQOS() bool { return ptr.Deref(c.kubelet.CgroupsPerQOS, true) }

// Enforces reports whether a kind of reservation is held to in the kernel: pods,
// system-reserved, kube-reserved, or the latter two with -compressible.
// (enforceNodeAllocatable)
func (c Config) Enforces(kind string) bool {
	return slices.Contains(c.kubelet.EnforceNodeAllocatable, kind)
}

// MemoryReserved is how much of what pods of better classes ask for is kept from
// those of worse ones, in percent. (qosReserved: memory)
func (c Config) MemoryReserved() int64 {
	text, ok := c.kubelet.QOSReserved[string(v1.ResourceMemory)]
	if !ok || !c.gates.Enabled("QOSReserved") {
		return 0
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil {
		panic("config: qosReserved checked before: " + err.Error())
	}
	return int64(percent)
}

// ClusterDNS are the name servers of pods with dnsPolicy ClusterFirst.
// (clusterDNS)
func (c Config) ClusterDNS() []string { return slices.Clone(c.kubelet.ClusterDNS) }

// ClusterDomain is searched by all pods; empty for none. (clusterDomain)
func (c Config) ClusterDomain() string { return c.kubelet.ClusterDomain }

// ResolvConf is the file pods' name resolution is based on; empty for none.
// (resolvConf)
func (c Config) ResolvConf() string { return *c.kubelet.ResolverConfig }

// Verbosity is how much is logged, 0 for least. (logging.verbosity, --v)
func (c Config) Verbosity() int { return int(c.kubelet.Logging.Verbosity) }

// LogFormat is text or json. (logging.format)
func (c Config) LogFormat() string { return c.kubelet.Logging.Format }

// RegisterNode: make the Node object. (registerNode; never standalone)
func (c Config) RegisterNode() bool {
	return ptr.Deref(c.kubelet.RegisterNode, true) && !c.Standalone()
}

// RegisterWithTaints are put on a Node that is made new.
// (registerWithTaints)
func (c Config) RegisterWithTaints() []v1.Taint {
	return c.kubelet.DeepCopy().RegisterWithTaints
}

// Evictions are the thresholds at which pods are evicted, sorted by signal,
// hard before soft.
func (c Config) Evictions() []eviction.Threshold {
	thresholds, errs := parseThresholds(&c.kubelet)
	if len(errs) > 0 {
		panic("config: thresholds checked before: " + errs.ToAggregate().Error())
	}
	return thresholds
}

// Eviction is how the node protects itself while a resource runs short: the thresholds of [Config.Evictions],
// evictionPressureTransitionPeriod, evictionMaxPodGracePeriod and localStorageCapacityIsolation. The kernel is
// asked for notices unless kernelMemcgNotification is set to false: the kubelet's default is not to. A hard
// threshold of memory.available holds for the memory limit of all pods too, if that is enforced.
func (c Config) Eviction() eviction.Policy {
	return eviction.Policy{
		Thresholds: c.thresholds(), Transition: c.kubelet.EvictionPressureTransitionPeriod.Duration,
		MaxPodGrace:  time.Duration(c.kubelet.EvictionMaxPodGracePeriod) * time.Second,
		LocalStorage: ptr.Deref(c.kubelet.LocalStorageCapacityIsolation, true),
		NoNotices:    !c.kubelet.KernelMemcgNotification && c.origins.of("kernelMemcgNotification") != "",
	}
}

// thresholds are those of Evictions and what follows from them.
func (c Config) thresholds() []eviction.Threshold {
	all := c.Evictions()
	hard := func(signal eviction.Signal) int {
		return slices.IndexFunc(all, func(t eviction.Threshold) bool {
			return (t.Hard || t.Grace == 0) && t.Signal == signal
		})
	}
	node := hard(eviction.MemoryAvailable)
	if node < 0 || hard(eviction.AllocatableMemoryAvailable) >= 0 || !c.Enforces("pods") {
		return all
	}
	pods := all[node]
	pods.Signal = eviction.AllocatableMemoryAvailable
	return append(all, pods)
}

// Reserved are the resources kept from pods: for the system (systemReserved) and for Kubernetes
// (kubeReserved). CPUs that are named (reservedSystemCPUs) replace the CPU of both.
func (c Config) Reserved() (system, kube v1.ResourceList) {
	system, errs := parseReserved(c.kubelet.SystemReserved, field.NewPath("systemReserved"))
	kube, more := parseReserved(c.kubelet.KubeReserved, field.NewPath("kubeReserved"))
	if errs = append(errs, more...); len(errs) > 0 {
		panic("config: reservations checked before: " + errs.ToAggregate().Error())
	}
	return reserveNamed(system, kube, c.kubelet.ReservedSystemCPUs), kube
}
