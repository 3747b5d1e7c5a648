package config

import (
	"maps"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"
	logs "k8s.io/component-base/logs/api/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// kc is short for what the setters below change.
type kc = *kubelet.KubeletConfiguration

// fieldFlag is a flag over one field of KubeletConfiguration.
type fieldFlag[T any] struct {
	name, field string
	set         func(kc, T)
}

// over makes the setter of a plain field, overPtr that of a pointer, and
// overDuration that of a duration.
func over[T any](field func(kc) *T) func(kc, T) {
	return func(c kc, v T) { *field(c) = v }
}

func overPtr[T any](field func(kc) **T) func(kc, T) {
	return func(c kc, v T) { *field(c) = &v }
}

func overDuration(field func(kc) *metav1.Duration) func(kc, time.Duration) {
	return func(c kc, v time.Duration) { field(c).Duration = v }
}

var boolFlags = []fieldFlag[bool]{
	{"anonymous-auth", "authentication.anonymous.enabled",
		overPtr(func(c kc) **bool { return &c.Authentication.Anonymous.Enabled })},
	{"authentication-token-webhook", "authentication.webhook.enabled",
		overPtr(func(c kc) **bool { return &c.Authentication.Webhook.Enabled })},
	{"cgroups-per-qos", "cgroupsPerQOS", overPtr(func(c kc) **bool { return &c.CgroupsPerQOS })},
	{"contention-profiling", "enableContentionProfiling", over(func(c kc) *bool { return &c.EnableContentionProfiling })},
	{"cpu-cfs-quota", "cpuCFSQuota", overPtr(func(c kc) **bool { return &c.CPUCFSQuota })},
	{"enable-controller-attach-detach", "enableControllerAttachDetach",
		overPtr(func(c kc) **bool { return &c.EnableControllerAttachDetach })},
	{"enable-debugging-handlers", "enableDebuggingHandlers",
		overPtr(func(c kc) **bool { return &c.EnableDebuggingHandlers })},
	{"enable-server", "enableServer", overPtr(func(c kc) **bool { return &c.EnableServer })},
	{"fail-cgroupv1", "failCgroupV1", overPtr(func(c kc) **bool { return &c.FailCgroupV1 })},
	{"fail-swap-on", "failSwapOn", overPtr(func(c kc) **bool { return &c.FailSwapOn })},
	{"kernel-memcg-notification", "kernelMemcgNotification", over(func(c kc) *bool { return &c.KernelMemcgNotification })},
	{"local-storage-capacity-isolation", "localStorageCapacityIsolation",
		overPtr(func(c kc) **bool { return &c.LocalStorageCapacityIsolation })},
	{"log-json-split-stream", "logging.options.json.splitStream",
		over(func(c kc) *bool { return &c.Logging.Options.JSON.SplitStream })},
	{"log-text-split-stream", "logging.options.text.splitStream",
		over(func(c kc) *bool { return &c.Logging.Options.Text.SplitStream })},
	{"make-iptables-util-chains", "makeIPTablesUtilChains",
		overPtr(func(c kc) **bool { return &c.MakeIPTablesUtilChains })},
	{"protect-kernel-defaults", "protectKernelDefaults", over(func(c kc) *bool { return &c.ProtectKernelDefaults })},
	{"register-node", "registerNode", overPtr(func(c kc) **bool { return &c.RegisterNode })},
	{"rotate-certificates", "rotateCertificates", over(func(c kc) *bool { return &c.RotateCertificates })},
	{"rotate-server-certificates", "serverTLSBootstrap", over(func(c kc) *bool { return &c.ServerTLSBootstrap })},
	{"runonce", "runOnce", over(func(c kc) *bool { return &c.RunOnce })},
	{"seccomp-default", "seccompDefault", overPtr(func(c kc) **bool { return &c.SeccompDefault })},
	{"serialize-image-pulls", "serializeImagePulls", overPtr(func(c kc) **bool { return &c.SerializeImagePulls })},
}

var stringFlags = []fieldFlag[string]{
	{"address", "address", over(func(c kc) *string { return &c.Address })},
	{"authorization-mode", "authorization.mode", func(c kc, v string) {
		c.Authorization.Mode = kubelet.KubeletAuthorizationMode(v)
	}},
	{"cgroup-driver", "cgroupDriver", over(func(c kc) *string { return &c.CgroupDriver })},
	{"cgroup-root", "cgroupRoot", over(func(c kc) *string { return &c.CgroupRoot })},
	{"client-ca-file", "authentication.x509.clientCAFile",
		over(func(c kc) *string { return &c.Authentication.X509.ClientCAFile })},
	{"cluster-domain", "clusterDomain", over(func(c kc) *string { return &c.ClusterDomain })},
	{"container-log-max-size", "containerLogMaxSize", over(func(c kc) *string { return &c.ContainerLogMaxSize })},
	{"container-runtime-endpoint", "containerRuntimeEndpoint",
		over(func(c kc) *string { return &c.ContainerRuntimeEndpoint })},
	{"cpu-manager-policy", "cpuManagerPolicy", over(func(c kc) *string { return &c.CPUManagerPolicy })},
	{"hairpin-mode", "hairpinMode", over(func(c kc) *string { return &c.HairpinMode })},
	{"healthz-bind-address", "healthzBindAddress", over(func(c kc) *string { return &c.HealthzBindAddress })},
	{"image-service-endpoint", "imageServiceEndpoint", over(func(c kc) *string { return &c.ImageServiceEndpoint })},
	{"kube-api-content-type", "contentType", over(func(c kc) *string { return &c.ContentType })},
	{"kube-reserved-cgroup", "kubeReservedCgroup", over(func(c kc) *string { return &c.KubeReservedCgroup })},
	{"kubelet-cgroups", "kubeletCgroups", over(func(c kc) *string { return &c.KubeletCgroups })},
	{"logging-format", "logging.format", over(func(c kc) *string { return &c.Logging.Format })},
	{"log-format", "logging.format", over(func(c kc) *string { return &c.Logging.Format })}, // ours, shorter
	{"manifest-url", "staticPodURL", over(func(c kc) *string { return &c.StaticPodURL })},
	{"memory-manager-policy", "memoryManagerPolicy", over(func(c kc) *string { return &c.MemoryManagerPolicy })},
	{"pod-cidr", "podCIDR", over(func(c kc) *string { return &c.PodCIDR })},
	{"pod-manifest-path", "staticPodPath", over(func(c kc) *string { return &c.StaticPodPath })},
	{"provider-id", "providerID", over(func(c kc) *string { return &c.ProviderID })},
	{"reserved-cpus", "reservedSystemCPUs", over(func(c kc) *string { return &c.ReservedSystemCPUs })},
	{"resolv-conf", "resolvConf", overPtr(func(c kc) **string { return &c.ResolverConfig })},
	{"system-cgroups", "systemCgroups", over(func(c kc) *string { return &c.SystemCgroups })},
	{"system-reserved-cgroup", "systemReservedCgroup", over(func(c kc) *string { return &c.SystemReservedCgroup })},
	{"tls-cert-file", "tlsCertFile", over(func(c kc) *string { return &c.TLSCertFile })},
	{"tls-min-version", "tlsMinVersion", over(func(c kc) *string { return &c.TLSMinVersion })},
	{"tls-private-key-file", "tlsPrivateKeyFile", over(func(c kc) *string { return &c.TLSPrivateKeyFile })},
	{"topology-manager-policy", "topologyManagerPolicy", over(func(c kc) *string { return &c.TopologyManagerPolicy })},
	{"topology-manager-scope", "topologyManagerScope", over(func(c kc) *string { return &c.TopologyManagerScope })},
	{"volume-plugin-dir", "volumePluginDir", over(func(c kc) *string { return &c.VolumePluginDir })},
}

var int32Flags = []fieldFlag[int32]{
	{"container-log-max-files", "containerLogMaxFiles", overPtr(func(c kc) **int32 { return &c.ContainerLogMaxFiles })},
	{"event-burst", "eventBurst", over(func(c kc) *int32 { return &c.EventBurst })},
	{"event-qps", "eventRecordQPS", overPtr(func(c kc) **int32 { return &c.EventRecordQPS })},
	{"eviction-max-pod-grace-period", "evictionMaxPodGracePeriod",
		over(func(c kc) *int32 { return &c.EvictionMaxPodGracePeriod })},
	{"healthz-port", "healthzPort", overPtr(func(c kc) **int32 { return &c.HealthzPort })},
	{"image-gc-high-threshold", "imageGCHighThresholdPercent",
		overPtr(func(c kc) **int32 { return &c.ImageGCHighThresholdPercent })},
	{"image-gc-low-threshold", "imageGCLowThresholdPercent",
		overPtr(func(c kc) **int32 { return &c.ImageGCLowThresholdPercent })},
	{"kube-api-burst", "kubeAPIBurst", over(func(c kc) *int32 { return &c.KubeAPIBurst })},
	{"kube-api-qps", "kubeAPIQPS", overPtr(func(c kc) **int32 { return &c.KubeAPIQPS })},
	{"max-pods", "maxPods", over(func(c kc) *int32 { return &c.MaxPods })},
	{"node-status-max-images", "nodeStatusMaxImages", overPtr(func(c kc) **int32 { return &c.NodeStatusMaxImages })},
	{"oom-score-adj", "oomScoreAdj", overPtr(func(c kc) **int32 { return &c.OOMScoreAdj })},
	{"pods-per-core", "podsPerCore", over(func(c kc) *int32 { return &c.PodsPerCore })},
	{"port", "port", over(func(c kc) *int32 { return &c.Port })},
	{"read-only-port", "readOnlyPort", over(func(c kc) *int32 { return &c.ReadOnlyPort })},
	{"registry-burst", "registryBurst", over(func(c kc) *int32 { return &c.RegistryBurst })},
	{"registry-qps", "registryPullQPS", overPtr(func(c kc) **int32 { return &c.RegistryPullQPS })},
}

var int64Flags = []fieldFlag[int64]{
	{"max-open-files", "maxOpenFiles", over(func(c kc) *int64 { return &c.MaxOpenFiles })},
	{"pod-max-pids", "podPidsLimit", overPtr(func(c kc) **int64 { return &c.PodPidsLimit })},
}

var durationFlags = []fieldFlag[time.Duration]{
	{"authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL",
		overDuration(func(c kc) *metav1.Duration { return &c.Authentication.Webhook.CacheTTL })},
	{"authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL",
		overDuration(func(c kc) *metav1.Duration { return &c.Authorization.Webhook.CacheAuthorizedTTL })},
	{"authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL",
		overDuration(func(c kc) *metav1.Duration { return &c.Authorization.Webhook.CacheUnauthorizedTTL })},
	{"cpu-cfs-quota-period", "cpuCFSQuotaPeriod", func(c kc, v time.Duration) {
		c.CPUCFSQuotaPeriod = &metav1.Duration{Duration: v}
	}},
	{"cpu-manager-reconcile-period", "cpuManagerReconcilePeriod",
		overDuration(func(c kc) *metav1.Duration { return &c.CPUManagerReconcilePeriod })},
	{"eviction-pressure-transition-period", "evictionPressureTransitionPeriod",
		overDuration(func(c kc) *metav1.Duration { return &c.EvictionPressureTransitionPeriod })},
	{"file-check-frequency", "fileCheckFrequency",
		overDuration(func(c kc) *metav1.Duration { return &c.FileCheckFrequency })},
	{"http-check-frequency", "httpCheckFrequency",
		overDuration(func(c kc) *metav1.Duration { return &c.HTTPCheckFrequency })},
	{"log-flush-frequency", "logging.flushFrequency", func(c kc, v time.Duration) {
		c.Logging.FlushFrequency = logs.TimeOrMetaDuration{Duration: metav1.Duration{Duration: v}, SerializeAsString: true}
	}},
	{"minimum-image-ttl-duration", "imageMinimumGCAge",
		overDuration(func(c kc) *metav1.Duration { return &c.ImageMinimumGCAge })},
	{"node-status-update-frequency", "nodeStatusUpdateFrequency",
		overDuration(func(c kc) *metav1.Duration { return &c.NodeStatusUpdateFrequency })},
	{"runtime-request-timeout", "runtimeRequestTimeout",
		overDuration(func(c kc) *metav1.Duration { return &c.RuntimeRequestTimeout })},
	{"streaming-connection-idle-timeout", "streamingConnectionIdleTimeout",
		overDuration(func(c kc) *metav1.Duration { return &c.StreamingConnectionIdleTimeout })},
	{"sync-frequency", "syncFrequency", overDuration(func(c kc) *metav1.Duration { return &c.SyncFrequency })},
	{"volume-stats-agg-period", "volumeStatsAggPeriod",
		overDuration(func(c kc) *metav1.Duration { return &c.VolumeStatsAggPeriod })},
}

var listFlags = []fieldFlag[[]string]{
	{"allowed-unsafe-sysctls", "allowedUnsafeSysctls", over(func(c kc) *[]string { return &c.AllowedUnsafeSysctls })},
	{"cluster-dns", "clusterDNS", over(func(c kc) *[]string { return &c.ClusterDNS })},
	{"enforce-node-allocatable", "enforceNodeAllocatable",
		over(func(c kc) *[]string { return &c.EnforceNodeAllocatable })},
	{"tls-cipher-suites", "tlsCipherSuites", over(func(c kc) *[]string { return &c.TLSCipherSuites })},
}

var mapFlags = []struct {
	fieldFlag[map[string]string]
	separator string
}{
	{fieldFlag[map[string]string]{"cpu-manager-policy-options", "cpuManagerPolicyOptions",
		over(func(c kc) *map[string]string { return &c.CPUManagerPolicyOptions })}, "="},
	{fieldFlag[map[string]string]{
		"eviction-hard", "evictionHard", over(func(c kc) *map[string]string { return &c.EvictionHard }),
	}, "<"},
	{fieldFlag[map[string]string]{
		"eviction-minimum-reclaim", "evictionMinimumReclaim",
		over(func(c kc) *map[string]string { return &c.EvictionMinimumReclaim }),
	}, "="},
	{fieldFlag[map[string]string]{
		"eviction-soft", "evictionSoft", over(func(c kc) *map[string]string { return &c.EvictionSoft }),
	}, "<"},
	{fieldFlag[map[string]string]{"eviction-soft-grace-period", "evictionSoftGracePeriod",
		over(func(c kc) *map[string]string { return &c.EvictionSoftGracePeriod })}, "="},
	{fieldFlag[map[string]string]{
		"kube-reserved", "kubeReserved", over(func(c kc) *map[string]string { return &c.KubeReserved }),
	}, "="},
	{fieldFlag[map[string]string]{
		"qos-reserved", "qosReserved", over(func(c kc) *map[string]string { return &c.QOSReserved }),
	}, "="},
	{fieldFlag[map[string]string]{
		"system-reserved", "systemReserved", over(func(c kc) *map[string]string { return &c.SystemReserved }),
	}, "="},
	{fieldFlag[map[string]string]{"topology-manager-policy-options", "topologyManagerPolicyOptions",
		over(func(c kc) *map[string]string { return &c.TopologyManagerPolicyOptions })}, "="},
}

// add defines the flags of one table and notes what they override.
func add[T any](f *Flags, table []fieldFlag[T], define func(name, usage string) *T) {
	for _, flag := range table {
		value := define(flag.name, "overrides "+flag.field+" of the configuration file")
		f.overrides = append(f.overrides, override{
			flag: flag.name, field: flag.field,
			apply: func(c kc) { flag.set(c, *value) },
		})
	}
}

func (f *Flags) addOverrides(fs *pflag.FlagSet) {
	add(f, boolFlags, func(name, usage string) *bool { return fs.Bool(name, false, usage) })
	add(f, stringFlags, func(name, usage string) *string { return fs.String(name, "", usage) })
	add(f, int32Flags, func(name, usage string) *int32 { return fs.Int32(name, 0, usage) })
	add(f, int64Flags, func(name, usage string) *int64 { return fs.Int64(name, 0, usage) })
	add(f, durationFlags, func(name, usage string) *time.Duration { return fs.Duration(name, 0, usage) })
	add(f, listFlags, func(name, usage string) *[]string { return fs.StringSlice(name, nil, usage) })
	for _, flag := range mapFlags {
		add(f, []fieldFlag[map[string]string]{flag.fieldFlag}, func(name, usage string) *map[string]string {
			value := new(map[string]string)
			var set pflag.Value = cliflag.NewMapStringString(value)
			if flag.separator == "<" {
				set = cliflag.NewLangleSeparatedMapStringString(value)
			}
			fs.Var(set, name, usage)
			return value
		})
	}
	add(f, []fieldFlag[map[string]bool]{{"feature-gates", "featureGates", func(c kc, gates map[string]bool) {
		// Gates add to the file's, where other maps replace it.
		if c.FeatureGates == nil {
			c.FeatureGates = map[string]bool{}
		}
		maps.Copy(c.FeatureGates, gates)
	}}}, func(name, usage string) *map[string]bool {
		value := new(map[string]bool)
		fs.Var(cliflag.NewMapStringBool(value), name, usage)
		return value
	})
	var header map[string][]string
	addValue(f, "manifest-url-header", "staticPodURLHeader",
		headerValue{cliflag.NewColonSeparatedMultimapStringString(&header)}, func(c kc) { c.StaticPodURLHeader = header })
	taints, memory := &taintsValue{}, &reservedMemoryValue{}
	addValue(f, "register-with-taints", "registerWithTaints", taints, func(c kc) {
		c.RegisterWithTaints = append([]v1.Taint(nil), taints.taints...)
	})
	addValue(f, "reserved-memory", "reservedMemory", memory, func(c kc) { c.ReservedMemory = memory.reservations })

	var verbosity logs.VerbosityLevel
	fs.VarP(logs.VerbosityLevelPflag(&verbosity), "v", "v", "overrides logging.verbosity of the configuration file")
	f.overrides = append(f.overrides, override{"v", "logging.verbosity", func(c kc) { c.Logging.Verbosity = verbosity }})
	var vmodule logs.VModuleConfiguration
	addValue(f, "vmodule", "logging.vmodule", logs.VModuleConfigurationPflag(&vmodule), func(c kc) {
		c.Logging.VModule = vmodule
	})
	for name, options := range map[string]func(kc) *logs.OutputRoutingOptions{
		"text": func(c kc) *logs.OutputRoutingOptions { return &c.Logging.Options.Text.OutputRoutingOptions },
		"json": func(c kc) *logs.OutputRoutingOptions { return &c.Logging.Options.JSON.OutputRoutingOptions },
	} {
		size := new(logs.OutputRoutingOptions)
		addValue(f, "log-"+name+"-info-buffer-size", "logging.options."+name+".infoBufferSize", &size.InfoBufferSize,
			func(c kc) { options(c).InfoBufferSize = size.InfoBufferSize })
	}
}

func addValue(f *Flags, name, field string, value pflag.Value, apply func(kc)) {
	f.fs.Var(value, name, "overrides "+field+" of the configuration file")
	f.overrides = append(f.overrides, override{name, field, apply})
}
