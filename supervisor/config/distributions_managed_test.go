package config

// managed are those of clouds, which run the machines.
var managed = []distribution{
	{
		name: "EKS AL2023", source: "awslabs/amazon-eks-ami@01375496231add8265f3fb1bc6e1e90d083b980b nodeadm/internal/kubelet/config.go",
		file: `
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 2m0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}}
cgroupDriver: systemd
cgroupRoot: /
clusterDNS: [172.20.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}
featureGates: {DynamicResourceAllocation: true, RotateKubeletServerCertificate: true}
hairpinMode: hairpin-veth
kubeReserved: {cpu: 70m, ephemeral-storage: 1Gi, memory: 574Mi}
kubeReservedCgroup: /runtime
logging: {verbosity: 2}
maxPods: 29
protectKernelDefaults: true
providerID: aws:///us-west-2a/i-0123456789
readOnlyPort: 0
serializeImagePulls: false
serverTLSBootstrap: true
systemReservedCgroup: /system
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_RSA_WITH_AES_128_GCM_SHA256, TLS_RSA_WITH_AES_256_GCM_SHA384]
`,
		args: "--node-ip=10.0.0.1 --cloud-provider=external --hostname-override=ip-10-0-0-1.us-west-2.compute.internal --kubeconfig=/var/lib/kubelet/kubeconfig",
		want: noEffect + "hairpinMode",
	},
	{
		name: "AKS", source: "Azure/AgentBaker@00c62dfe00fe77172fc8d298d0bcf8cb04c4a09c e2e/node_config.go, without the flags that kubelets lost",
		args: "--address=0.0.0.0 --anonymous-auth=false --authentication-token-webhook=true --authorization-mode=Webhook --cgroups-per-qos=true " +
			"--client-ca-file=/etc/kubernetes/certs/ca.crt --cloud-provider=external --cluster-dns=10.0.0.10 --cluster-domain=cluster.local " +
			"--enforce-node-allocatable=pods --event-qps=0 --eviction-hard=memory.available<750Mi,nodefs.available<10%,nodefs.inodesFree<5% " +
			"--feature-gates=RotateKubeletServerCertificate=true --image-gc-high-threshold=85 --image-gc-low-threshold=80 " +
			"--kube-reserved=cpu=100m,memory=1638Mi --kubeconfig=/var/lib/kubelet/kubeconfig --max-pods=110 --node-status-update-frequency=10s " +
			"--pod-infra-container-image=mcr.microsoft.com/oss/v2/kubernetes/pause:3.6 --pod-manifest-path=/etc/kubernetes/manifests --pod-max-pids=-1 " +
			"--protect-kernel-defaults=true --read-only-port=0 --resolv-conf=/run/systemd/resolve/resolv.conf --rotate-certificates=true " +
			"--rotate-server-certificates=true --streaming-connection-idle-timeout=4h --tls-cert-file=/etc/kubernetes/certs/kubeletserver.crt " +
			"--tls-cipher-suites=" + legacySuites + " --tls-private-key-file=/etc/kubernetes/certs/kubeletserver.key",
		want: noEffect + "--pod-infra-container-image",
	},
	{
		name: "AKS, with flags that kubelets lost", source: "the same", args: "--network-plugin=kubenet", err: "unknown flag: --network-plugin",
	},
	{
		name: "Bottlerocket", source: "bottlerocket-os/bottlerocket-core-kit@097546f310f849e985db52a0435caa86108467ba packages/kubernetes-1.33/kubelet-config",
		file: `
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 2m0s, enabled: true}, x509: {clientCAFile: "/etc/kubernetes/pki/ca.crt"}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}}
cgroupDriver: systemd
cgroupRoot: "/"
clusterDNS: [10.100.0.10]
clusterDomain: cluster.local
cpuCFSQuota: true
cpuManagerPolicy: none
enableDebuggingHandlers: false
failSwapOn: false
featureGates: {DynamicResourceAllocation: true}
hairpinMode: hairpin-veth
kubeReserved: {cpu: "70m", memory: "574Mi", ephemeral-storage: "1Gi"}
kubeReservedCgroup: "/runtime"
maxPods: 110
podPidsLimit: 1048576
protectKernelDefaults: true
readOnlyPort: 0
resolvConf: "/run/netdog/resolv.conf"
runtimeRequestTimeout: 15m
seccompDefault: false
serializeImagePulls: false
serverTLSBootstrap: true
staticPodPath: "/etc/kubernetes/static-pods/"
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]
volumePluginDir: "/var/lib/kubelet/plugins/volume/exec"
`,
		want: noEffect + "hairpinMode, volumePluginDir",
	},
	{
		name: "Gardener", source: "gardener/gardener@0a555d1eb50fece9fef7585622d2e02b807aef4a pkg/component/extensions/operatingsystemconfig/original/components/kubelet",
		file: goType + `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 2m0s, enabled: true}, x509: {clientCAFile: /var/lib/kubelet/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}}
cgroupDriver: systemd
cgroupRoot: /
cgroupsPerQOS: true
clusterDNS: [100.64.0.10]
clusterDomain: cluster.local
containerLogMaxSize: 100Mi
cpuCFSQuota: true
cpuManagerPolicy: none
cpuManagerReconcilePeriod: 10s
enableControllerAttachDetach: true
enableDebuggingHandlers: true
enableServer: true
enforceNodeAllocatable: [pods]
eventBurst: 50
eventRecordQPS: 50
evictionHard: {imagefs.available: 5%, imagefs.inodesFree: 5%, memory.available: 100Mi, nodefs.available: 5%, nodefs.inodesFree: 5%}
evictionMaxPodGracePeriod: 90
evictionMinimumReclaim: {imagefs.available: 0Mi, imagefs.inodesFree: 0Mi, memory.available: 0Mi, nodefs.available: 0Mi, nodefs.inodesFree: 0Mi}
evictionPressureTransitionPeriod: 4m0s
evictionSoft: {imagefs.available: 10%, imagefs.inodesFree: 10%, memory.available: 200Mi, nodefs.available: 10%, nodefs.inodesFree: 10%}
evictionSoftGracePeriod: {imagefs.available: 1m30s, imagefs.inodesFree: 1m30s, memory.available: 1m30s, nodefs.available: 1m30s, nodefs.inodesFree: 1m30s}
failSwapOn: true
fileCheckFrequency: 20s
hairpinMode: promiscuous-bridge
httpCheckFrequency: 20s
imageGCHighThresholdPercent: 50
imageGCLowThresholdPercent: 40
imageMinimumGCAge: 2m0s
kubeAPIBurst: 50
kubeAPIQPS: 50
kubeReserved: {cpu: 80m, memory: 1Gi}
maxOpenFiles: 1000000
maxPods: 110
protectKernelDefaults: true
registerWithTaints: [{effect: NoSchedule, key: node.gardener.cloud/critical-components-not-ready}]
resolvConf: /etc/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 2m0s
serializeImagePulls: true
serverTLSBootstrap: true
streamingConnectionIdleTimeout: 5m0s
syncFrequency: 1m0s
volumePluginDir: /var/lib/kubelet/volumeplugins
volumeStatsAggPeriod: 1m0s
`,
		args: "--bootstrap-kubeconfig=/b --kubeconfig=/k --node-labels=worker.gardener.cloud/kubernetes-version=1.36.0 --node-labels=a=b " +
			"--container-runtime-endpoint=unix:///run/containerd/containerd.sock --runtime-cgroups=/system.slice/containerd.service --v=2 --node-ip=::",
		want: noEffect + "streamingConnectionIdleTimeout, volumePluginDir",
	},
	{
		name: "OpenShift", source: "openshift/machine-config-operator@0195012bfa71f99a5eee4d8a4854b693ee1b4452 templates/worker/01-worker-kubelet/_base/units/kubelet.service.yaml",
		args: "--node-labels=node-role.kubernetes.io/worker,node.openshift.io/os_id=rhcos --node-ip= --minimum-container-ttl-duration=6m0s",
		err:  "--node-labels: node-role.kubernetes.io/worker=: a node cannot set labels", // OpenShift has a kubelet of its own
	},
	{
		name: "OpenShift, the labels aside", source: "the same",
		args: "--node-labels=node.openshift.io/os_id=rhcos --node-ip= --minimum-container-ttl-duration=6m0s --container-runtime-endpoint=/var/run/crio/crio.sock " +
			"--runtime-cgroups=/system.slice/crio.service --cloud-provider= --provider-id= --system-reserved=cpu=500m,memory=1Gi --v=2",
	},
	{
		name: "GKE, old", source: "a flag that kubelets have and do not act on", args: "--experimental-mounter-path=/home/kubernetes/containerized_mounter/mounter",
		want: noEffect + "--experimental-mounter-path",
	},
}
