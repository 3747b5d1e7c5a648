package config

// installed are those of installers that people run.
var installed = []distribution{
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
		name: "kubeadm, with a criSocket of one slash", source: "kubeadm-flags.env of “Home Assistant on Kubernetes on Raspberry Pi 5 (Alfred)”, 2025-02-22",
		args: "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf " +
			"--container-runtime-endpoint=unix:/run/containerd/containerd.sock --pod-infra-container-image=registry.k8s.io/pause:3.10",
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
`, args: kubesprayArgs, want: noEffect + "streamingConnectionIdleTimeout",
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
		want: noEffect + "streamingConnectionIdleTimeout",
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
		name: "a role that binds the health endpoint to a name", source: "lgphone/ansible-k8s-manager, healthzBindAddress: {{ inventory_hostname }}",
		file: "healthzBindAddress: node1\n",
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
