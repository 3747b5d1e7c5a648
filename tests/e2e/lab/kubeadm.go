package lab

import (
	"fmt"
	"strings"
)

// KubeadmVersion is what kubeadm is told to set up, so that it does not ask the internet.
const KubeadmVersion = "v1.36.3"

// BootstrapToken is one that kubeadm makes and joins with.
const BootstrapToken = "abcdef.0123456789abcdef"

// KubeadmDiscovery is the file by which `kubeadm join` finds a cluster: the apiserver's URL, and the file of the
// authority's certificate.
func KubeadmDiscovery(url, caFile string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster: {server: "%s", certificate-authority: "%s"}
contexts:
- name: lab
  context: {cluster: lab, user: nobody}
users:
- name: nobody
  user: {}
current-context: lab
`, url, caFile)
}

// KubeadmCluster is a cluster's configuration for kubeadm, at an address, with more lines of its kubelets' configuration.
func KubeadmCluster(address, settings string) string {
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: `+BootstrapToken+`
  groups: [system:bootstrappers:kubeadm:default-node-token]
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: `+KubeadmVersion+`
controlPlaneEndpoint: %s
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
`, address) + RoomForAll + settings
}

// KubeadmJoin is the configuration by which `kubeadm join` makes a node of that name, with the file of [KubeadmDiscovery], a
// runtime's endpoint and arguments of the kubelet, each as NAME=VALUE.
func KubeadmJoin(discoveryFile, name, endpoint string, args ...string) string {
	text := fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  file: {kubeConfigPath: "%s"}
  tlsBootstrapToken: `+BootstrapToken+`
timeouts: {tlsBootstrap: 10m0s, kubeletHealthCheck: 10m0s}
nodeRegistration:
  name: %s
  criSocket: %s
  ignorePreflightErrors: [all]
  kubeletExtraArgs:
`, discoveryFile, name, endpoint)
	for _, arg := range args {
		flag, value, _ := strings.Cut(arg, "=")
		text += fmt.Sprintf("  - {name: %s, value: %q}\n", flag, value)
	}
	return text
}

// RoomForAll are settings by which no pod is evicted, and no image removed, for what else is on the machine.
const RoomForAll = `imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
`
