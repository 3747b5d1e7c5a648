package config

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/tests/check"
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

// distributions are what is held against the start.
var distributions = slices.Concat(managed, installed)

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
				check.Says(t, err, d.err, "the error")
				return
			case err != nil:
				t.Fatal(err)
			}
			check.Equal(t, strings.Join(c.Warnings(), "|"), d.want, "warns of")
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
	check.Fatal(t, yaml.Unmarshal([]byte(file), &tree))
	out := check.Value(yaml.Marshal(tree))(t)
	return string(out)
}
