package config

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
)

// This file has what there is to know of a field of KubeletConfiguration: whether this version acts on it, its default,
// and the least and the most of a number. What more is checked of it is in validate*.go.

// actsOn are the fields of KubeletConfiguration that this version acts on. One
// that a user sets and that is not here is warned of by name: a setting must
// not be lost in silence. docs/operating.md shows the same list.
var actsOn = map[string]struct{}{
	"apiVersion": {}, "kind": {},
	"address": {}, "authentication": {}, "authorization": {}, "enableContentionProfiling": {},
	"enableDebugFlagsHandler": {},
	"enableDebuggingHandlers": {}, "enableProfilingHandler": {}, "enableServer": {}, "enableSystemLogHandler": {},
	"enableSystemLogQuery": {},
	"port":                 {}, "readOnlyPort": {}, "rotateCertificates": {}, "serverTLSBootstrap": {},
	"tlsCertFile": {}, "tlsCipherSuites": {}, "tlsMinVersion": {}, "tlsPrivateKeyFile": {},
	"allowedUnsafeSysctls": {}, "cgroupDriver": {}, "cgroupRoot": {}, "cgroupsPerQOS": {}, "clusterDNS": {},
	"clusterDomain":    {},
	"cpuManagerPolicy": {}, "cpuManagerPolicyOptions": {}, "reservedSystemCPUs": {}, "topologyManagerPolicy": {},
	"topologyManagerPolicyOptions": {}, "topologyManagerScope": {}, "memoryManagerPolicy": {}, "reservedMemory": {},
	"configMapAndSecretChangeDetectionStrategy": {}, "containerLogMaxFiles": {}, "containerLogMaxSize": {},
	"containerLogMaxWorkers":      {},
	"containerLogMonitorInterval": {}, "containerRuntimeEndpoint": {}, "cpuCFSQuota": {}, "cpuCFSQuotaPeriod": {},
	"crashLoopBackOff": {},
	"evictionHard":     {}, "evictionMaxPodGracePeriod": {}, "evictionMinimumReclaim": {},
	"evictionPressureTransitionPeriod": {}, "evictionSoft": {}, "evictionSoftGracePeriod": {},
	"makeIPTablesUtilChains":  {},
	"kernelMemcgNotification": {}, "localStorageCapacityIsolation": {}, "mergeDefaultEvictionSettings": {},
	"enforceNodeAllocatable": {}, "failCgroupV1": {}, "failSwapOn": {}, "fileCheckFrequency": {},
	"healthzBindAddress": {}, "healthzPort": {}, "httpCheckFrequency": {}, "imageServiceEndpoint": {},
	"imagePullCredentialsVerificationPolicy": {}, "preloadedImagesVerificationAllowlist": {},
	"registryBurst": {}, "registryPullQPS": {},
	"imageGCHighThresholdPercent": {}, "imageGCLowThresholdPercent": {}, "imageMaximumGCAge": {}, "imageMinimumGCAge": {},
	"contentType": {}, "enableControllerAttachDetach": {}, "eventBurst": {}, "eventRecordQPS": {},
	"kubeAPIBurst": {}, "kubeAPIQPS": {}, "nodeLeaseDurationSeconds": {}, "nodeStatusMaxImages": {},
	"nodeStatusReportFrequency": {}, "nodeStatusUpdateFrequency": {}, "providerID": {}, "registerNode": {},
	"registerWithTaints": {},
	"kubeReserved":       {}, "kubeReservedCgroup": {}, "maxOpenFiles": {}, "maxParallelImagePulls": {},
	"kubeletCgroups": {}, "protectKernelDefaults": {}, "systemCgroups": {},
	"maxPods": {}, "memoryReservationPolicy": {}, "memorySwap": {}, "memoryThrottlingFactor": {}, "oomScoreAdj": {},
	"podLogsDir": {}, "podPidsLimit": {},
	"podsPerCore": {}, "qosReserved": {}, "resolvConf": {}, "runOnce": {}, "runtimeRequestTimeout": {},
	"seccompDefault": {}, "shutdownGracePeriod": {}, "shutdownGracePeriodByPodPriority": {},
	"shutdownGracePeriodCriticalPods": {}, "serializeImagePulls": {}, "singleProcessOOMKill": {},
	"staticPodPath": {}, "staticPodURL": {},
	"staticPodURLHeader": {}, "tracing": {}, "systemReserved": {}, "systemReservedCgroup": {}, "userNamespaces": {},
	"volumeStatsAggPeriod": {},
}

// MaxCrashLoopBackOff is the longest wait before a crashing container is
// started again, unless crashLoopBackOff.maxContainerRestartPeriod says less.
const MaxCrashLoopBackOff = 300 * time.Second

// defaultEvictionHard are the thresholds of a node that is given none
// (documentation, "Node-pressure Eviction").
var defaultEvictionHard = map[string]string{
	"memory.available":   "100Mi",
	"nodefs.available":   "10%",
	"nodefs.inodesFree":  "5%",
	"imagefs.available":  "15%",
	"imagefs.inodesFree": "5%",
}

// Default is what Load gives without flags and files.
func Default() Config {
	c := Config{options: defaultOptions(), origins: origins{}}
	setDefaults(&c.kubelet)
	c.kubelet.Kind, c.kubelet.APIVersion = configKind, configVersion
	return c
}

// setDefaults gives every field that was not given the default that its
// documentation in KubeletConfiguration v1beta1 names (Kubernetes v1.36).
// Feature gates must be final: some defaults follow them.
func setDefaults(c *kubelet.KubeletConfiguration) {
	gates := Gates{set: c.FeatureGates}
	defaultTimes(c)
	defaultServer(c)
	defaultImages(c, gates)
	defaultResources(c)
	defaultEviction(c)
	defaultLogs(c)
	empty(&c.ResolverConfig, "/etc/resolv.conf")
	zero(&c.HairpinMode, kubelet.PromiscuousBridge)
	empty(&c.MakeIPTablesUtilChains, true)
	empty(&c.IPTablesMasqueradeBit, 14)
	empty(&c.IPTablesDropBit, 15)
	empty(&c.EnableControllerAttachDetach, true)
	zero(&c.ConfigMapAndSecretChangeDetectionStrategy, kubelet.WatchChangeDetectionStrategy)
	zero(&c.VolumePluginDir, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/")
	zero(&c.ContainerRuntimeEndpoint, "unix:///run/containerd/containerd.sock")
	empty(&c.RegisterNode, true)
	empty(&c.SeccompDefault, false)
	if gates.on("KubeletCrashLoopBackOffMax") {
		empty(&c.CrashLoopBackOff.MaxContainerRestartPeriod, metav1.Duration{Duration: MaxCrashLoopBackOff})
	}
}

func defaultTimes(c *kubelet.KubeletConfiguration) {
	// The report follows the update if only that was given: once there was
	// one field for both.
	report := 5 * time.Minute
	if c.NodeStatusUpdateFrequency.Duration != 0 {
		report = c.NodeStatusUpdateFrequency.Duration
	}
	zero(&c.NodeStatusReportFrequency.Duration, report)
	zero(&c.NodeStatusUpdateFrequency.Duration, 10*time.Second)
	zero(&c.NodeLeaseDurationSeconds, 40)
	zero(&c.SyncFrequency.Duration, time.Minute)
	zero(&c.FileCheckFrequency.Duration, 20*time.Second)
	zero(&c.HTTPCheckFrequency.Duration, 20*time.Second)
	zero(&c.RuntimeRequestTimeout.Duration, 2*time.Minute)
	zero(&c.StreamingConnectionIdleTimeout.Duration, 4*time.Hour)
	zero(&c.VolumeStatsAggPeriod.Duration, time.Minute)
	zero(&c.CPUManagerReconcilePeriod.Duration, 10*time.Second)
}

func defaultServer(c *kubelet.KubeletConfiguration) {
	empty(&c.EnableServer, true)
	zero(&c.Address, "0.0.0.0")
	zero(&c.Port, 10250)
	empty(&c.HealthzPort, 10248)
	zero(&c.HealthzBindAddress, "127.0.0.1")
	empty(&c.Authentication.Anonymous.Enabled, false)
	empty(&c.Authentication.Webhook.Enabled, true)
	zero(&c.Authentication.Webhook.CacheTTL.Duration, 2*time.Minute)
	zero(&c.Authorization.Mode, kubelet.KubeletAuthorizationModeWebhook)
	zero(&c.Authorization.Webhook.CacheAuthorizedTTL.Duration, 5*time.Minute)
	zero(&c.Authorization.Webhook.CacheUnauthorizedTTL.Duration, 30*time.Second)
	empty(&c.EnableDebuggingHandlers, true)
	empty(&c.EnableSystemLogHandler, true)
	empty(&c.EnableSystemLogQuery, false)
	empty(&c.EnableProfilingHandler, true)
	empty(&c.EnableDebugFlagsHandler, true)
	zero(&c.ContentType, "application/vnd.kubernetes.protobuf")
	empty(&c.KubeAPIQPS, 50)
	zero(&c.KubeAPIBurst, 100)
	empty(&c.EventRecordQPS, 50)
	zero(&c.EventBurst, 100)
}

func defaultImages(c *kubelet.KubeletConfiguration, gates Gates) {
	empty(&c.RegistryPullQPS, 5)
	zero(&c.RegistryBurst, 10)
	// One at a time, unless more were asked for.
	empty(&c.SerializeImagePulls, c.MaxParallelImagePulls == nil || *c.MaxParallelImagePulls < 2)
	zero(&c.ImageMinimumGCAge.Duration, 2*time.Minute)
	empty(&c.ImageGCHighThresholdPercent, 85)
	empty(&c.ImageGCLowThresholdPercent, 80)
	empty(&c.NodeStatusMaxImages, 50)
	if gates.on("KubeletEnsureSecretPulledImages") {
		zero(&c.ImagePullCredentialsVerificationPolicy, kubelet.NeverVerifyPreloadedImages)
	}
}

func defaultResources(c *kubelet.KubeletConfiguration) {
	zero(&c.MaxPods, 110)
	if c.PodPidsLimit == nil || *c.PodPidsLimit < 0 {
		c.PodPidsLimit = ptr.To[int64](-1)
	}
	zero(&c.MaxOpenFiles, 1_000_000)
	empty(&c.OOMScoreAdj, -999)
	empty(&c.CgroupsPerQOS, true)
	zero(&c.CgroupDriver, "cgroupfs")
	zero(&c.CPUManagerPolicy, cpus.None)
	zero(&c.MemoryManagerPolicy, kubelet.NoneMemoryManagerPolicy)
	zero(&c.TopologyManagerPolicy, kubelet.NoneTopologyManagerPolicy)
	zero(&c.TopologyManagerScope, kubelet.ContainerTopologyManagerScope)
	empty(&c.CPUCFSQuota, true)
	empty(&c.CPUCFSQuotaPeriod, metav1.Duration{Duration: 100 * time.Millisecond})
	empty(&c.FailSwapOn, true)
	empty(&c.FailCgroupV1, true)
	if c.EnforceNodeAllocatable == nil {
		c.EnforceNodeAllocatable = []string{"pods"}
	}
	empty(&c.MemoryThrottlingFactor, 0.9)
	zero(&c.MemoryReservationPolicy, kubelet.NoneMemoryReservationPolicy)
	empty(&c.LocalStorageCapacityIsolation, true)
	if c.UserNamespaces != nil {
		empty(&c.UserNamespaces.IDsPerPod, idsPerPod)
	}
}

func defaultEviction(c *kubelet.KubeletConfiguration) {
	zero(&c.EvictionPressureTransitionPeriod.Duration, 5*time.Minute)
	empty(&c.MergeDefaultEvictionSettings, false)
	if c.EvictionHard == nil {
		c.EvictionHard = maps.Clone(defaultEvictionHard)
	} else if *c.MergeDefaultEvictionSettings {
		merged := maps.Clone(defaultEvictionHard)
		maps.Copy(merged, c.EvictionHard)
		c.EvictionHard = merged
	}
}

func defaultLogs(c *kubelet.KubeletConfiguration) {
	zero(&c.PodLogsDir, "/var/log/pods")
	zero(&c.ContainerLogMaxSize, "10Mi")
	empty(&c.ContainerLogMaxFiles, 5)
	empty(&c.ContainerLogMaxWorkers, 1)
	empty(&c.ContainerLogMonitorInterval, metav1.Duration{Duration: 10 * time.Second})
	zero(&c.Logging.Format, "text")
	if c.Logging.FlushFrequency.Duration.Duration == 0 {
		c.Logging.FlushFrequency.Duration.Duration = 5 * time.Second
		c.Logging.FlushFrequency.SerializeAsString = true
	}
}

const maxPort = 65535

// numbers checks the fields that are numbers and have bounds.
func (v *validator) numbers() {
	within(v, at("port"), v.Port, 1, maxPort)
	within(v, at("readOnlyPort"), v.ReadOnlyPort, 0, maxPort)
	within(v, at("healthzPort"), *v.HealthzPort, 0, maxPort)
	within(v, at("oomScoreAdj"), *v.OOMScoreAdj, -1000, 1000)
	within(v, at("iptablesMasqueradeBit"), *v.IPTablesMasqueradeBit, 0, 31)
	within(v, at("iptablesDropBit"), *v.IPTablesDropBit, 0, 31)
	atLeast(v, "nodeLeaseDurationSeconds", v.NodeLeaseDurationSeconds, 1)
	atLeast(v, "eventRecordQPS", *v.EventRecordQPS, 0)
	atLeast(v, "eventBurst", v.EventBurst, 0)
	atLeast(v, "kubeAPIQPS", *v.KubeAPIQPS, 0)
	atLeast(v, "kubeAPIBurst", v.KubeAPIBurst, 0)
	atLeast(v, "nodeStatusMaxImages", *v.NodeStatusMaxImages, -1)
	atLeast(v, "maxOpenFiles", v.MaxOpenFiles, 0)
	atLeast(v, "maxPods", v.MaxPods, 0)
	atLeast(v, "podsPerCore", v.PodsPerCore, 0)
	if v.MemoryThrottlingFactor != nil && !(*v.MemoryThrottlingFactor > 0 && *v.MemoryThrottlingFactor <= 1) {
		v.invalid(at("memoryThrottlingFactor"), *v.MemoryThrottlingFactor, "must be above 0 and at most 1")
	}
	if t := v.Tracing; t != nil && t.SamplingRatePerMillion != nil {
		within(v, at("tracing", "samplingRatePerMillion"), *t.SamplingRatePerMillion, 0, 1_000_000)
	}
}

// zero sets a field that has its zero value, empty one that is nil.
func zero[T comparable](field *T, value T) {
	var none T
	if *field == none {
		*field = value
	}
}

func empty[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
