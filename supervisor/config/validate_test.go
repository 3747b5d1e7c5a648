package config

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestValidate changes one thing of a good configuration; an empty want is one
// that is still good.
func TestValidate(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"port: -1", "port: -1: must be from 1 to 65535"},
		{"readOnlyPort: 65536", "readOnlyPort: 65536: must be from 0"},
		{"readOnlyPort: 10255", ""},
		{"healthzPort: -1", "healthzPort: -1"},
		{"address: here", `address: "here": must be an IP address`},
		{"healthzBindAddress: '::'", ""},
		{"oomScoreAdj: 1001", "oomScoreAdj: 1001: must be from -1000 to 1000"},
		{"nodeLeaseDurationSeconds: -1", "nodeLeaseDurationSeconds: -1: must be at least 1"},
		{"eventRecordQPS: -1", "eventRecordQPS"},
		{"eventBurst: -1", "eventBurst"},
		{"kubeAPIQPS: -1", "kubeAPIQPS"},
		{"kubeAPIBurst: -1", "kubeAPIBurst"},
		{"registryPullQPS: -1", "registryPullQPS"},
		{"registryPullQPS: 0", ""},
		{"registryBurst: -1", "registryBurst"},
		{"nodeStatusMaxImages: -2", "nodeStatusMaxImages: -2: must be at least -1"},
		{"maxOpenFiles: -1", "maxOpenFiles"},
		{"maxPods: -1", "maxPods"},
		{"podsPerCore: -1", "podsPerCore"},
		{"iptablesDropBit: 32", "iptablesDropBit"},
		{"iptablesMasqueradeBit: -1", "iptablesMasqueradeBit"},
		{"memoryThrottlingFactor: 0.0", "memoryThrottlingFactor: 0: must be above 0"},
		{"memoryThrottlingFactor: 1.1", "memoryThrottlingFactor"},
		{"containerLogMonitorInterval: 2s", `containerLogMonitorInterval: "2s": must be at least 3s`},
		{"imageMinimumGCAge: -1s", "imageMinimumGCAge"},
		{"imageMaximumGCAge: 1m", "must be above imageMinimumGCAge, 2m0s"},
		{"imageMaximumGCAge: 1h", ""},
		{"imageGCHighThresholdPercent: 101", "imageGCHighThresholdPercent: 101"},
		{"imageGCHighThresholdPercent: 80", "must be below imageGCHighThresholdPercent, 80"},
		{"cpuCFSQuotaPeriod: 2s", `cpuCFSQuotaPeriod: "2s": must be from 1ms to 1s`},
		{"cpuCFSQuotaPeriod: 10ms", ""},
		{"cpuCFSQuotaPeriod: 10ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: false}", "needs feature gate CustomCPUCFSQuotaPeriod"},
		{"crashLoopBackOff: {maxContainerRestartPeriod: 500ms}", "must be from 1s to 5m0s"},
		{"crashLoopBackOff: {maxContainerRestartPeriod: 10s}\nfeatureGates: {KubeletCrashLoopBackOffMax: false}", "needs feature gate KubeletCrashLoopBackOffMax"},
		{"cpuManagerPolicy: Dynamic", `supported values: "none", "static", "dynamic"`},
		{"memoryManagerPolicy: none", "memoryManagerPolicy"},
		{"topologyManagerPolicy: x", "topologyManagerPolicy"},
		{"topologyManagerScope: x", "topologyManagerScope"},
		{"hairpinMode: x", "hairpinMode"},
		{"authorization: {mode: RBAC}", "authorization.mode"},
		{"memorySwap: {swapBehavior: All}", "memorySwap.swapBehavior"},
		{"memoryReservationPolicy: TieredReservation", "needs feature gate MemoryQoS"},
		{"memoryReservationPolicy: TieredReservation\nfeatureGates: {MemoryQoS: true}", ""},
		{"tlsMinVersion: '1.2'", "tlsMinVersion"},
		{"tlsCipherSuites: [NOPE]", "tlsCipherSuites[0]"},
		{"tlsCurvePreferences: [29, 23]", ""},
		{"tlsCurvePreferences: [29, 29]", "tlsCurvePreferences: [29,29]: must be CurveIDs of Go's crypto/tls, like 29: duplicate"},
		{"tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]", ""},
		{"tlsCipherSuites: [TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305]", ""},
		{"enableSystemLogQuery: true\nenableSystemLogHandler: false", "needs enableSystemLogHandler"},
		{"clusterDomain: cluster.local", ""},
		{"podCIDR: '10.0.0.0/24,fd00::/64'", ""},
		{"tracing: {endpoint: 'http://x'}", "tracing.endpoint"},
		{"tracing: {endpoint: 'localhost:4317', samplingRatePerMillion: 100}", ""},
		{"tracing: {samplingRatePerMillion: 2000000}", "tracing.samplingRatePerMillion"},
		{"showHiddenMetricsForVersion: '1.30'", "showHiddenMetricsForVersion"},
		{"showHiddenMetricsForVersion: '1.35'", ""},
		{"containerRuntimeEndpoint: tcp://x", "must be a unix socket"},
		{"containerRuntimeEndpoint: unix://run/x", "the socket's path must be absolute"},
		{"containerRuntimeEndpoint: unix:run/x", "the socket's path must be absolute"},
		{"containerRuntimeEndpoint: unix:/run/x\nimageServiceEndpoint: unix:/run/y", ""},
		{"imageServiceEndpoint: x", "imageServiceEndpoint"},
		{"allowedUnsafeSysctls: ['kernel.*.x']", "allowedUnsafeSysctls[0]"},
		{"allowedUnsafeSysctls: ['kernel.msg*', net.ipv4.route.min_pmtu, net/ipv4/ip_forward, 'net.*', user.max_user_namespaces]", ""},
		{"allowedUnsafeSysctls: [kernel.sem, vm.swappiness]", "allowedUnsafeSysctls[1]"},
		{"allowedUnsafeSysctls: ['kernel.*']", "allowedUnsafeSysctls[0]"},
		{"containerLogMaxSize: much", "containerLogMaxSize"},
		{"containerLogMaxSize: '-1'", ""},
		{"containerLogMaxFiles: 1", "containerLogMaxFiles: 1: must be at least 2"},
		{"containerLogMaxWorkers: 0", "containerLogMaxWorkers"},
		{"podLogsDir: /var/../x", "podLogsDir"},
		{"podLogsDir: /var/log/pods/", ""},
		{"podLogsDir: /ä", "must be ASCII"},
		{"logging: {format: xml}", "logging.format"},
		{"logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}", "logging.vmodule: only for format text"},
		{"logging: {options: {text: {splitStream: true}}}", "needs feature gate LoggingAlphaOptions"},
		{"logging: {flushFrequency: -1s}", "logging.flushFrequency"},
		{"maxParallelImagePulls: 0", "maxParallelImagePulls: 0: must be at least 1"},
		{"maxParallelImagePulls: 3\nserializeImagePulls: true", "needs serializeImagePulls: false"},
		{"imagePullCredentialsVerificationPolicy: Ask", "imagePullCredentialsVerificationPolicy"},
		{"preloadedImagesVerificationAllowlist: [a]", "only for imagePullCredentialsVerificationPolicy"},
		{"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['a:1']", "preloadedImagesVerificationAllowlist[0]"},
		{"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['r.example/']", "preloadedImagesVerificationAllowlist[0]"},
		{"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['r:5000/a', 'r/*']", ""},
		{"enforceNodeAllocatable: [pods, pods]", `enforceNodeAllocatable[1]: "pods": given twice`},
		{"enforceNodeAllocatable: [all]", "enforceNodeAllocatable[0]"},
		{"enforceNodeAllocatable: [none, pods]", "none cannot be combined with other values"},
		{"enforceNodeAllocatable: [system-reserved]", "systemReservedCgroup: must be given"},
		{"enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\nkubeReservedCgroup: /k", "cannot be combined"},
		{"cgroupsPerQOS: false", "needs cgroupsPerQOS"},
		{"cgroupsPerQOS: false\nenforceNodeAllocatable: []", ""},
		{"systemCgroups: /s", "cgroupRoot: must be given"},
		{"systemCgroups: /\ncgroupRoot: /", "cannot be the root"},
		{"systemReserved: {disk: 1}", "systemReserved[disk]"},
		{"kubeReserved: {cpu: -1}", "kubeReserved[cpu]: -1: must be a string"},
		{"kubeReserved: {cpu: '-1'}", `kubeReserved[cpu]: "-1": must be a quantity of at least 0`},
		{"evictionHard: {memory.available: '0'}", "must be above 0; 0% switches the threshold off"},
		{"evictionHard: {memory.available: 101%}", "must be from 0% to 100%"},
		{"evictionHard: {memory.available: NaN%}", "must be from 0% to 100%"},
		{"evictionHard: {memory.available: lots}", "must be a quantity or a percentage"},
		{"evictionSoft: {memory.available: 1Gi}", "evictionSoftGracePeriod[memory.available]: must be given"},
		{"evictionSoftGracePeriod: {memory.available: soon}", "must be a duration"},
		{"evictionSoft: {memory.available: 0%, nodefs.available: 100%}", ""},
		{"evictionSoft: {x: 0%}", "evictionSoft[x]"},
		{"evictionSoft: {memory.available: 0.0%}", "evictionSoftGracePeriod[memory.available]: must be given"},
		{"evictionMinimumReclaim: {x: 1Gi}", "evictionMinimumReclaim[x]"},
		{"evictionMinimumReclaim: {memory.available: 0%}", `evictionMinimumReclaim[memory.available]: "0%": must be above 0%`},
		{"evictionMinimumReclaim: {memory.available: 0.0%}", "must be above 0%"},
		{"evictionMinimumReclaim: {memory.available: -5%}", "must be above 0%"},
		{"evictionMinimumReclaim: {memory.available: NaN%}", "must be above 0%"},
		{"evictionMinimumReclaim: {memory.available: '-1'}", "must be a quantity or a percentage"},
		{"evictionMinimumReclaim: {memory.available: '0', nodefs.available: 100%, pid.available: 150%}", ""},
		{"reservedSystemCPUs: a-b", "reservedSystemCPUs"},
		{"reservedSystemCPUs: 0-1\nkubeReservedCgroup: /k", "cannot be combined with"},
		{"reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]", "reservedMemory[0].limits[cpu]"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: 0}}]", "must be above 0"},
		{"memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: -1}}]", "must be above 0"},
		{"topologyManagerPolicy: restricted\ntopologyManagerPolicyOptions: {x: 'true'}", "topologyManagerPolicyOptions"},
		{"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]", "reservedMemory[1].limits[memory]"},
		{"qosReserved: {memory: '10'}", "must be from 0% to 100%"},
		{"qosReserved: {cpu: 10%}", "qosReserved[cpu]"},
		{"qosReserved: {memory: 10%}\nfeatureGates: {QOSReserved: true}", ""},
		{"userNamespaces: {idsPerPod: 1000}", "userNamespaces.idsPerPod"},
		{"shutdownGracePeriod: 500ms", "must be 0 or at least 1s"},
		{"shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 20s", "must be at most shutdownGracePeriod, 10s"},
		{"shutdownGracePeriod: 30s\nshutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 5}]", "cannot be combined with shutdownGracePeriod"},
		{"registerWithTaints: [{key: a, effect: Never}]", "registerWithTaints[0].effect"},
		{"registerWithTaints: [{key: 'a b', effect: NoSchedule}]", "registerWithTaints[0].key"},
		{"featureGates: {Nope: true}", "featureGates[Nope]: true: unknown feature gate"},
		{"featureGates: {nodeswap: true}", "did you mean NodeSwap?"},
		{"featureGates: {NodeSwap: false}", "featureGates[NodeSwap]: false: locked to true"},
		{"featureGates: {NodeSwap: true}", ""},
		{"featureGates: {PodLevelResourcesFixDefaulting: true, PodLevelResourcesFixKubeletQOSClass: false, EtcdRangeStream: true}", ""}, // of v1.37
		{"featureGates: {AllAlpha: true}", ""},
		{"featureGates: {AllBeta: false}", ""},
		{"featureGates: {NodeDeclaredFeatures: false}", "needs feature gate NodeDeclaredFeatures, which is off"},
		{"serverTLSBootstrap: true\nfeatureGates: {RotateKubeletServerCertificate: false}", "needs feature gate RotateKubeletServerCertificate"},
	} {
		t.Run(c.file, func(t *testing.T) {
			_, err := load(t, map[string]string{"etc/k": c.file}, "--config=/etc/k")
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantError(t, err, c.want)
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	_, err := load(t, map[string]string{"etc/k": "port: -1\nmaxPods: -1\nhairpinMode: x"}, "--config=/etc/k", "--healthz-port=-1", "--runtime=x")
	wantError(t, err, "invalid configuration, 5 errors: ", "/etc/k: port: -1", "/etc/k: maxPods: -1", "/etc/k: hairpinMode", "--healthz-port: healthzPort: -1", "--runtime: x")
}

func TestGates(t *testing.T) {
	if !(Gates{}).on("NodeSwap") || (Gates{}).on("EventedPLEG") {
		t.Error("wrong defaults")
	}
	all := Gates{set: map[string]bool{"AllAlpha": true, "CSIVolumeHealth": false}}
	if !all.on("EventedPLEG") || all.on("CSIVolumeHealth") {
		t.Error("AllAlpha, but for one that is given")
	}
	defer func() {
		if recover() == nil {
			t.Error("asking for an unknown gate must panic")
		}
	}()
	Gates{}.Enabled("Nope")
}

func TestSegments(t *testing.T) {
	for path, want := range map[string]string{
		"a": "a", "a.b": "a|b", "a[b.c].d": "a|b.c|d", "a[0][1]": "a|0|1", "a[x]": "a|x",
	} {
		check.Equal(t, strings.Join(segments(path), "|"), want, "%s", path)
	}
}
