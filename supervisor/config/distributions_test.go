package config

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// distribution is what an installer gives a kubelet by default, with example values where it takes them from a cluster.
type distribution struct {
	name string
	// source is the repository and the commit that the values are from.
	source string
	file   string // the configuration file, without kind and version
	args   string // the command line, without --config
	want   string // the warnings, joined with |
	err    string // part of the error, of flags that a kubelet v1.36 refuses too
}

const (
	// goType are the fields of the Go type that are written even if they are empty.
	goType = `
authentication: {anonymous: {}, webhook: {cacheTTL: 0s}, x509: {}}
authorization: {webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`
	legacySuites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305," +
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384," +
		"TLS_RSA_WITH_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_GCM_SHA256"
	noEffect = "settings that have no effect: "
	talos    = `
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 0s}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupRoot: /
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failSwapOn: false
kubeletCgroups: /podruntime/kubelet
logging: {flushFrequency: 0, format: json, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
oomScoreAdj: -450
port: 10250
protectKernelDefaults: true
resolvConf: /system/resolved/resolv.conf
rotateCertificates: true
seccompDefault: true
serializeImagePulls: false
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 5m0s
systemCgroups: /system
systemReserved: {cpu: 50m, ephemeral-storage: 256Mi, memory: 384Mi, pid: "100"}
tlsMinVersion: VersionTLS13
`
	typhoon = `
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDNS: [10.3.0.10]
clusterDomain: cluster.local
healthzPort: 0
readOnlyPort: 0
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
serializeImagePulls: false
shutdownGracePeriod: 45s
shutdownGracePeriodCriticalPods: 30s
staticPodPath: /etc/kubernetes/manifests
volumePluginDir: /var/lib/kubelet/volumeplugins
`
	kubespray = `
address: "::"
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: /etc/kubernetes/ssl/ca.crt}}
authorization: {mode: Webhook}
cgroupDriver: systemd
clusterDomain: cluster.local
containerLogMaxFiles: 5
containerLogMaxSize: 10Mi
containerRuntimeEndpoint : unix:///var/run/containerd/containerd.sock
eventRecordQPS: 50
failCgroupV1: true
failSwapOn: true
healthzBindAddress: "127.0.0.1"
healthzPort: 10248
kubeReserved: {cpu: "100m", memory: "256Mi", ephemeral-storage: "500Mi", pid: "1000"}
kubeletCgroups: /system.slice/kubelet.service
maxParallelImagePulls: 1
maxPods: 110
nodeStatusUpdateFrequency: "10s"
podPidsLimit: -1
readOnlyPort: 0
resolvConf: "/etc/resolv.conf"
rotateCertificates: true
shutdownGracePeriod: 60s
shutdownGracePeriodCriticalPods: 20s
staticPodPath: /etc/kubernetes/manifests
systemReserved: {cpu: "500m", memory: "512Mi", ephemeral-storage: "500Mi", pid: "1000"}
`
	kubesprayArgs = "--v=2 --node-ip=10.0.0.1 --hostname-override=node1 --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf " +
		"--kubeconfig=/etc/kubernetes/kubelet.conf --runtime-cgroups=/system.slice/containerd.service"
)

var distributions = []distribution{
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
		name: "microk8s", source: "canonical/microk8s@d099c907d3646a2dae3d3e33f07aef5a5bc8a090 microk8s-resources/default-args/kubelet",
		args: "--kubeconfig=/snap/d/credentials/kubelet.config --cert-dir=/snap/d/certs --client-ca-file=/snap/d/certs/ca.crt --anonymous-auth=false " +
			"--root-dir=/snap/c/var/lib/kubelet --fail-swap-on=false --eviction-hard=memory.available<100Mi,nodefs.available<1Gi,imagefs.available<1Gi " +
			"--container-runtime-endpoint=/snap/c/run/containerd.sock --containerd=/snap/c/run/containerd.sock " +
			"--node-labels=microk8s.io/cluster=true,node.kubernetes.io/microk8s-controlplane=microk8s-controlplane --authentication-token-webhook=true " +
			"--read-only-port=0 --tls-cipher-suites=" + legacySuites + " --serialize-image-pulls=false",
		want: noEffect + "--containerd",
	},
	{
		name: "k3s", source: "k3s-io/k3s@2614da01e7f1027a13fd25d5dccc83f21f9c2374 pkg/daemons/agent/agent.go, agent_linux.go",
		file: goType + `
address: 0.0.0.0
allowedUnsafeSysctls: [net.ipv4.ip_forward, net.ipv6.conf.all.forwarding]
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 2m0s, enabled: true}, x509: {clientCAFile: /k3s/client-ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}}
cgroupDriver: cgroupfs
clusterDNS: [10.43.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock
cpuManagerReconcilePeriod: 10s
evictionHard: {imagefs.available: 5%, nodefs.available: 5%}
evictionMinimumReclaim: {imagefs.available: 10%, nodefs.available: 10%}
evictionPressureTransitionPeriod: 5m0s
failSwapOn: false
fileCheckFrequency: 20s
healthzBindAddress: 127.0.0.1
httpCheckFrequency: 20s
imageMinimumGCAge: 2m0s
kubeletCgroups: /k3s
logging: {flushFrequency: 5s, format: text, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
nodeStatusReportFrequency: 5m0s
nodeStatusUpdateFrequency: 10s
runtimeRequestTimeout: 2m0s
serializeImagePulls: false
staticPodPath: /var/lib/rancher/k3s/agent/pod-manifests
streamingConnectionIdleTimeout: 4h0m0s
syncFrequency: 1m0s
tlsCertFile: /k3s/serving-kubelet.crt
tlsPrivateKeyFile: /k3s/serving-kubelet.key
volumeStatsAggPeriod: 1m0s
`,
		args: "--cloud-provider=external --hostname-override=node1 --kubeconfig=/k3s/kubelet.kubeconfig --node-ip=10.0.0.1 --node-labels= --read-only-port=0",
	},
	{
		name: "RKE2", source: "rancher/rke2@6ce1a8019e9d0b81eb7a715edbc2b8ac12d26da0 pkg/executor/staticpod/staticpod.go, over the configuration of k3s",
		args: "--volume-plugin-dir=/var/lib/kubelet/volumeplugins --file-check-frequency=5s --sync-frequency=30s --cloud-provider=external " +
			"--hostname-override=node1 --kubeconfig=/rke2/kubelet.kubeconfig --node-ip=10.0.0.1,fd00::1 --node-labels= --read-only-port=0",
		want: noEffect + "syncFrequency, volumePluginDir",
	},
	{
		name: "k0s", source: "k0sproject/k0s@dff90cee9a6e8e22c6d0f3efef0f9a77fc223be4 pkg/component/controller/workerconfig/reconciler.go, worker/kubelet.go",
		file: goType + `
authentication: {anonymous: {}, webhook: {cacheTTL: 0s}, x509: {clientCAFile: /run/k0s/kubelet/ca.crt}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/k0s/containerd.sock
eventRecordQPS: 0
failSwapOn: false
kubeReservedCgroup: system.slice
kubeletCgroups: /system.slice/containerd.service
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
serverTLSBootstrap: true
staticPodURL: http://127.0.0.1:12345/manifests
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]
tlsMinVersion: VersionTLS12
volumePluginDir: /usr/libexec/k0s/kubelet-plugins/volume/exec
`,
		args: "--root-dir=/var/lib/k0s/kubelet --kubeconfig=/var/lib/k0s/kubelet.conf --v=1 --cert-dir=/var/lib/k0s/kubelet/pki " +
			"--runtime-cgroups=/system.slice/containerd.service --containerd=/run/k0s/containerd.sock --hostname-override=node1",
		want: noEffect + "--containerd, volumePluginDir",
	},
	{
		name: "kubeadm", source: "kubernetes/kubernetes@v1.36.3 cmd/kubeadm/app/componentconfigs/kubelet.go",
		file: goType + `
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
healthzBindAddress: 127.0.0.1
healthzPort: 10248
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`,
		args: "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf " +
			"--container-runtime-endpoint=unix:///run/containerd/containerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.10",
		want: noEffect + "--pod-infra-container-image",
	},
	{
		name: "kops", source: "kubernetes/kops@268927e26409f861634e18f3632c9dd483c350cf nodeup/pkg/model/tests/kubelet/featuregates/tasks.yaml, " +
			"without the gates and the flag that kubelets lost",
		file: goType + `
authentication: {anonymous: {}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: /srv/kubernetes/ca.crt}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
cgroupDriver: systemd
cgroupRoot: /
clusterDNS: [100.64.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
enableDebuggingHandlers: true
evictionHard: {imagefs.available: 10%, imagefs.inodesFree: 5%, memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}
protectKernelDefaults: true
resolvConf: /run/systemd/resolve/resolv.conf
shutdownGracePeriod: 30s
shutdownGracePeriodCriticalPods: 10s
staticPodPath: /etc/kubernetes/manifests
tlsCertFile: /srv/kubernetes/kubelet-server.crt
tlsPrivateKeyFile: /srv/kubernetes/kubelet-server.key
volumePluginDir: /usr/libexec/kubernetes/kubelet-plugins/volume/exec/
`,
		args: "--cloud-provider=external --kubeconfig=/var/lib/kubelet/kubeconfig --runtime-request-timeout=15m0s --v=2",
	},
	{
		name: "kops, with a flag that kubelets lost", source: "the same", args: "--register-schedulable=true", err: "unknown flag: --register-schedulable",
	},
	{
		name: "kops, with gates that kubelets lost", source: "the same", file: "featureGates: {ExperimentalCriticalPodAnnotation: true}", err: "unknown feature gate",
	},
	{
		name: "kubespray", source: "kubernetes-sigs/kubespray@46dbdd3994b32640bcd806b0097f50e8fdf1d514 roles/kubernetes/node/templates",
		file: kubespray + "clusterDNS: [169.254.25.10]\n", args: kubesprayArgs,
	},
	{
		name: "kubespray, hardened", source: "the same, docs/operations/hardening.md",
		file: kubespray + `
clusterDNS: [169.254.25.10]
eventRecordQPS: 1
featureGates: {RotateKubeletServerCertificate: true}
makeIPTablesUtilChains: true
protectKernelDefaults: true
seccompDefault: true
serverTLSBootstrap: true
streamingConnectionIdleTimeout: 5m
tlsCipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305]
tlsMinVersion: VersionTLS12
`, args: kubesprayArgs,
	},
	{
		name: "kubespray, dns_mode manual", source: "the same", file: kubespray + "clusterDNS: [dns.example.com]\n", args: kubesprayArgs,
		want: `/etc/k: clusterDNS[0]: "dns.example.com": must be an IP address: it is left out`,
	},
	{
		name: "Talos", source: "siderolabs/talos@ad8823176e75b9cd07647ddde13c34f2ab77c663 internal/app/machined/pkg/controllers/k8s/kubelet_spec.go",
		file: goType + talos,
		args: "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig --kubeconfig=/etc/kubernetes/kubeconfig-kubelet --cert-dir=/var/lib/kubelet/pki " +
			"--hostname-override=node1 --node-ip=10.0.0.1",
	},
	{
		name: "Typhoon, worker", source: "poseidon/typhoon@214281702f6c22865c011f7d65cde9950660786b aws/fedora-coreos/kubernetes/workers/butane/worker.yaml",
		file: typhoon,
		args: "--bootstrap-kubeconfig=/etc/kubernetes/kubeconfig --container-runtime-endpoint=unix:///run/containerd/containerd.sock " +
			"--kubeconfig=/var/lib/kubelet/kubeconfig --node-labels=node.kubernetes.io/node --node-labels=a=b --register-with-taints= --provider-id=aws:///a/i-1",
		want: noEffect + "volumePluginDir",
	},
	{
		name: "Typhoon, controller", source: "the same, butane/controller.yaml: systemd takes the quotes away",
		file: typhoon,
		args: "--kubeconfig=/var/lib/kubelet/kubeconfig --node-labels=node.kubernetes.io/controller=true " +
			"--register-with-taints=node-role.kubernetes.io/controller=:NoSchedule",
		want: noEffect + "volumePluginDir",
	},
	{
		name: "Typhoon, controller, with its quotes", source: "the same", args: `--node-labels=node.kubernetes.io/controller="true"`, err: "--node-labels: ",
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
		want: noEffect + "volumePluginDir",
	},
	{
		name: "kind, IPv6", source: "kubernetes-sigs/kind@0033147efdc648e0d1433e19f9bd0d8465141b7d pkg/cluster/internal/kubeadm/config.go",
		file: `
address: "::"
cgroupDriver: systemd
cgroupRoot: /kubelet
evictionHard: {imagefs.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%"}
failSwapOn: false
healthzBindAddress: "::"
imageGCHighThresholdPercent: 100
`,
		args: "--kubeconfig=/k --node-ip=fc00::2 --provider-id=kind://docker/kind/kind-control-plane --node-labels=",
	},
	{
		name: "minikube", source: "kubernetes/minikube@27772aae18aea9dd2357203104cdfa4371adad86 pkg/minikube/bootstrapper/bsutil/ktmpl/v1beta4.go",
		file: `
authentication: {x509: {clientCAFile: /var/lib/minikube/certs/ca.crt}}
cgroupDriver: systemd
clusterDomain: "cluster.local"
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {imagefs.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%"}
failSwapOn: false
hairpinMode: hairpin-veth
imageGCHighThresholdPercent: 100
runtimeRequestTimeout: 15m
staticPodPath: /etc/kubernetes/manifests
`,
		args: "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --hostname-override=minikube --kubeconfig=/etc/kubernetes/kubelet.conf --node-ip=192.168.49.2",
		want: noEffect + "hairpinMode",
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
		name: "a role that binds the health endpoint to a name", source: "lgphone/ansible-k8s-manager, healthzBindAddress: {{ inventory_hostname }}",
		file: "healthzBindAddress: node1\n",
	},
	{
		name: "GKE, old", source: "a flag that kubelets have and do not act on", args: "--experimental-mounter-path=/home/kubernetes/containerized_mounter/mounter",
		want: noEffect + "--experimental-mounter-path",
	},
	{
		name: "upstream's specification of drop-ins", source: "kubernetes/kubernetes@v1.36.3 test/e2e_node/kubelet_config_dir_test.go, merged",
		file: `
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 6m, cacheUnauthorizedTTL: 40s}}
clusterDNS: [192.168.1.1, 192.168.1.5, 192.168.1.8]
cpuManagerReconcilePeriod: 1s
featureGates: {DynamicResourceAllocation: true, KubeletServiceAccountTokenForCredentialProviders: true, PodAndContainerStatsFromCRI: false}
port: 8080
readOnlyPort: 10257
shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 19}, {priority: 2, shutdownGracePeriodSeconds: 41}]
staticPodURLHeader: {kubelet-api-support: ["Authorization: 8945AFSG1", "X-Custom-Header: 987"]}
systemReserved: {memory: 2Gi}
`,
		want: noEffect + "cpuManagerReconcilePeriod, staticPodURLHeader (needs staticPodURL)",
	},
}

// TestDistributions: what installers write starts this agent, or is refused for the reason that a kubelet has. A key
// that comes twice in an entry has its last value, as in a file that an installer writes only once.
func TestDistributions(t *testing.T) {
	for _, d := range distributions {
		t.Run(d.name, func(t *testing.T) {
			if d.source == "" {
				t.Error("it has no source")
			}
			flags, fs := NewFlags(), pflag.NewFlagSet("test", pflag.ContinueOnError)
			fs.SetOutput(io.Discard)
			flags.AddTo(fs)
			files := map[string]string{}
			args := strings.Fields(d.args)
			if d.file != "" {
				files["etc/k"], args = lastOnes(t, d.file), append(args, "--config=/etc/k")
			}
			var c Config
			err := fs.Parse(args)
			if err == nil {
				c, err = load(t, files, args...)
			}
			switch {
			case d.err != "":
				if err == nil || !strings.Contains(err.Error(), d.err) {
					t.Errorf("%v, want %s", err, d.err)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			if got := strings.Join(c.Warnings(), "|"); got != d.want {
				t.Errorf("warns of\n%s\nwant\n%s", got, d.want)
			}
		})
	}
}

// TestLostFlags: flags that installers gave to old kubelets are unknown to a kubelet v1.36, and here.
func TestLostFlags(t *testing.T) {
	for name := range strings.FieldsSeq("azure-container-registry-config cloud-config container-runtime dynamic-config-dir " +
		"experimental-check-node-capabilities-before-mount network-plugin pod-sysctls register-schedulable") {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		NewFlags().AddTo(fs)
		if fs.Lookup(name) != nil {
			t.Errorf("--%s is known", name)
		}
	}
}

// lastOnes is a file with each key once, its last.
func lastOnes(t *testing.T, file string) string {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(file), &tree); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
