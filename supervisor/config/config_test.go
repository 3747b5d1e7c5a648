package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/spf13/pflag"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/tests/check"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// load reads files (path without the leading slash → content below the head)
// and a command line.
func load(t testing.TB, files map[string]string, args ...string) (Config, error) {
	t.Helper()
	flags := NewFlags()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("parse %v: %v", args, err)
	}
	root := fstest.MapFS{}
	for name, content := range files {
		if !strings.HasPrefix(content, "!") {
			content = head + content
		}
		root[name] = &fstest.MapFile{Data: []byte(strings.TrimPrefix(content, "!"))}
	}
	return Load(flags, root, "/work")
}

func good(t testing.TB, files map[string]string, args ...string) Config {
	t.Helper()
	c := check.Value(load(t, files, args...))(t)
	return c
}

// documentedDefaults are those of KubeletConfiguration v1beta1, v1.36, as the
// configuration file would say them.
const documentedDefaults = `
address: 0.0.0.0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true, cacheTTL: 2m0s}, x509: {}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 5m0s, cacheUnauthorizedTTL: 30s}}
cgroupDriver: cgroupfs
cgroupsPerQOS: true
configMapAndSecretChangeDetectionStrategy: Watch
containerLogMaxFiles: 5
containerLogMaxSize: 10Mi
containerLogMaxWorkers: 1
containerLogMonitorInterval: 10s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
contentType: application/vnd.kubernetes.protobuf
cpuCFSQuota: true
cpuCFSQuotaPeriod: 100ms
cpuManagerPolicy: none
cpuManagerReconcilePeriod: 10s
crashLoopBackOff: {maxContainerRestartPeriod: 5m0s}
enableControllerAttachDetach: true
enableDebugFlagsHandler: true
enableDebuggingHandlers: true
enableProfilingHandler: true
enableServer: true
enableSystemLogHandler: true
enableSystemLogQuery: false
enforceNodeAllocatable: [pods]
eventBurst: 100
eventRecordQPS: 50
evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}
evictionPressureTransitionPeriod: 5m0s
failCgroupV1: true
failSwapOn: true
fileCheckFrequency: 20s
hairpinMode: promiscuous-bridge
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 20s
imageGCHighThresholdPercent: 85
imageGCLowThresholdPercent: 80
imageMaximumGCAge: 0s
imageMinimumGCAge: 2m0s
imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages
iptablesDropBit: 15
iptablesMasqueradeBit: 14
kubeAPIBurst: 100
kubeAPIQPS: 50
localStorageCapacityIsolation: true
logging: {flushFrequency: 5s, format: text, verbosity: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}}
makeIPTablesUtilChains: true
maxOpenFiles: 1000000
maxPods: 110
memoryManagerPolicy: None
memoryReservationPolicy: None
memorySwap: {}
memoryThrottlingFactor: 0.9
mergeDefaultEvictionSettings: false
nodeLeaseDurationSeconds: 40
nodeStatusMaxImages: 50
nodeStatusReportFrequency: 5m0s
nodeStatusUpdateFrequency: 10s
oomScoreAdj: -999
podLogsDir: /var/log/pods
podPidsLimit: -1
port: 10250
registerNode: true
registryBurst: 10
registryPullQPS: 5
resolvConf: /etc/resolv.conf
runtimeRequestTimeout: 2m0s
seccompDefault: false
serializeImagePulls: true
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
streamingConnectionIdleTimeout: 4h0m0s
syncFrequency: 1m0s
topologyManagerPolicy: none
topologyManagerScope: container
volumePluginDir: /usr/libexec/kubernetes/kubelet-plugins/volume/exec/
volumeStatsAggPeriod: 1m0s
`

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	var want map[string]any
	check.Fatal(t, yaml.Unmarshal([]byte(head+documentedDefaults), &want))
	for name, files := range map[string]map[string]string{"no file": nil, "an empty file": {"etc/k": ""}} {
		var args []string
		if files != nil {
			args = []string{"--config=/etc/k"}
		}
		got := asTree(t, good(t, files, args...).Kubelet())
		for field := range merged(got, want) {
			if !reflect.DeepEqual(got[field], want[field]) {
				t.Errorf("%s: default of %s is %v, documented is %v", name, field, got[field], want[field])
			}
		}
	}
}

// TestDefault: it is what is loaded without flags and files.
func TestDefault(t *testing.T) {
	check.Deep(t, Default(), good(t, nil), "got")
}

func merged(maps ...map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func asTree(t testing.TB, k *kubelet.KubeletConfiguration) map[string]any {
	t.Helper()
	b := check.Value(yaml.Marshal(k))(t)
	var tree map[string]any
	check.Fatal(t, yaml.Unmarshal(b, &tree))
	return tree
}

// TestDefaultsThatDepend are those that follow another field or a gate.
func TestDefaultsThatDepend(t *testing.T) {
	for _, c := range []struct {
		file string
		got  func(*kubelet.KubeletConfiguration) any
		want any
	}{
		{"nodeStatusUpdateFrequency: 7s", func(k *kubelet.KubeletConfiguration) any { return k.NodeStatusReportFrequency.Duration }, 7 * time.Second},
		{"nodeStatusUpdateFrequency: 7s\nnodeStatusReportFrequency: 9s", func(k *kubelet.KubeletConfiguration) any { return k.NodeStatusReportFrequency.Duration }, 9 * time.Second},
		{"maxParallelImagePulls: 5", func(k *kubelet.KubeletConfiguration) any { return *k.SerializeImagePulls }, false},
		{"maxParallelImagePulls: 1", func(k *kubelet.KubeletConfiguration) any { return *k.SerializeImagePulls }, true},
		{"podPidsLimit: -7", func(k *kubelet.KubeletConfiguration) any { return *k.PodPidsLimit }, int64(-1)},
		{"podPidsLimit: 0", func(k *kubelet.KubeletConfiguration) any { return *k.PodPidsLimit }, int64(0)},
		{"featureGates: {KubeletCrashLoopBackOffMax: false}", func(k *kubelet.KubeletConfiguration) any { return k.CrashLoopBackOff.MaxContainerRestartPeriod == nil }, true},
		{"featureGates: {KubeletEnsureSecretPulledImages: false}", func(k *kubelet.KubeletConfiguration) any {
			return k.ImagePullCredentialsVerificationPolicy
		}, kubelet.ImagePullCredentialsVerificationPolicy("")},
		{"evictionHard: {memory.available: 1Gi}", func(k *kubelet.KubeletConfiguration) any { return len(k.EvictionHard) }, 1},
		{"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true", func(k *kubelet.KubeletConfiguration) any {
			return fmt.Sprintf("%d %s", len(k.EvictionHard), k.EvictionHard["memory.available"])
		}, "5 1Gi"},
		{"resolvConf: ''", func(k *kubelet.KubeletConfiguration) any { return *k.ResolverConfig }, ""},
		{"healthzPort: 0", func(k *kubelet.KubeletConfiguration) any { return *k.HealthzPort }, int32(0)},
		{"enforceNodeAllocatable: []", func(k *kubelet.KubeletConfiguration) any { return len(k.EnforceNodeAllocatable) }, 0},
		{"userNamespaces: {}", func(k *kubelet.KubeletConfiguration) any { return *k.UserNamespaces.IDsPerPod }, int64(65536)},
	} {
		check.Equal(t, c.got(good(t, map[string]string{"etc/k": c.file}, "--config=/etc/k").Kubelet()), c.want, "%s", c.file)
	}
}

func TestLaterWins(t *testing.T) {
	files := map[string]string{
		"etc/k/config.yaml":     "maxPods: 1\nclusterDNS: [10.0.0.1]\nstaticPodPath: pods\nregistryBurst: 3\nfeatureGates: {NodeSwap: true, ContainerCheckpoint: false}\nsystemReserved: {cpu: 500m, memory: 1Gi}\nkubeReserved: {cpu: 500m, memory: 1Gi}",
		"etc/k/d/20.conf":       "maxPods: 3\nregistryBurst: null",
		"etc/k/d/10.conf":       "maxPods: 2\nclusterDNS: [10.0.0.2]\nsystemReserved: {cpu: 200m}\nresolvConf: r.conf",
		"etc/k/d/sub/00.conf":   "podsPerCore: 4",
		"etc/k/d/README":        "!not YAML: [",
		"etc/k/d/10.conf.saved": "!nor this: [",
	}
	c := good(t, files, "--config=/etc/k/config.yaml", "--config_dir", "/etc/k/d")
	k := c.Kubelet()
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"last drop-in", k.MaxPods, int32(3)},
		{"list replaced", fmt.Sprint(k.ClusterDNS), "[10.0.0.2]"},
		{"map merged", fmt.Sprint(k.SystemReserved), "map[cpu:200m memory:1Gi]"},
		{"null gives the default", k.RegistryBurst, int32(10)},
		{"subdirectory", k.PodsPerCore, int32(4)},
		{"relative to the file", c.Kubelet().StaticPodPath, "/etc/k/pods"},
		{"relative to the drop-in", c.ResolvConf(), "/etc/k/d/r.conf"},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}
	c = good(t, files, "--config=/etc/k/config.yaml", "--config-dir=/etc/k/d", "--max-pods=0", "--feature-gates=ContainerCheckpoint=true,EventedPLEG=true",
		"--kube-reserved=cpu=100m", "--cluster-dns=1.1.1.1,2.2.2.2", "--cluster-dns=3.3.3.3", "--pod-manifest-path=here", "--v=4",
		"--eviction-hard=memory.available<5%", "--register-with-taints=a=b:NoSchedule,c:NoExecute", "--manifest-url=http://h/p", "--manifest-url-header=a:b,a:c", "--manifest-url-header", "d:e:f", "--reserved-memory=0:memory=1Gi;1:memory=2Gi")
	k = c.Kubelet()
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"zero by flag stays zero", k.MaxPods, int32(0)},
		{"gates add up", fmt.Sprint(c.Gates().Given()), "map[ContainerCheckpoint:true EventedPLEG:true NodeSwap:true]"},
		{"gate on", c.Gates().on("EventedPLEG"), true},
		{"other maps are replaced", fmt.Sprint(k.KubeReserved), "map[cpu:100m]"},
		{"list flag", fmt.Sprint(k.ClusterDNS), "[1.1.1.1 2.2.2.2 3.3.3.3]"},
		{"relative to the working directory", c.Kubelet().StaticPodPath, "/work/here"},
		{"verbosity", c.Verbosity(), 4},
		{"eviction", fmt.Sprint(k.EvictionHard), "map[memory.available:5%]"},
		{"taints", fmt.Sprintf("%d %s", len(c.RegisterWithTaints()), c.RegisterWithTaints()[1].ToString()), "2 c:NoExecute"},
		{"headers", fmt.Sprint(k.StaticPodURLHeader), "map[a:[b c] d:[e:f]]"},
		{"headers masked", fmt.Sprint(c.Shown().StaticPodURLHeader), "map[a:[<masked>] d:[<masked>]]"},
		{"password masked", good(t, nil, "--manifest-url=https://me:secret@h/p").Shown().StaticPodURL, "https://me:xxxxx@h/p"},
		{"password masked in the flag", ShownFlag("manifest-url", "https://me:secret@h/p"), "https://me:xxxxx@h/p"},
		{"another flag", ShownFlag("storage-driver-password", "secret"), "<masked>"},
		{"no secret", ShownFlag("node-ip", "10.0.0.1"), "10.0.0.1"},
		{"command", strings.Join(ShownCommand([]string{"kubelet", "--manifest-url", "http://me:secret@h/p", "--v=4",
			"--manifest_url_header=A:secret", "--node-ip", "10.0.0.1", "--manifest-url=http://h/p", "--storage-driver-password", "secret",
			"--manifest-url-header", "A:secret", "--check", "rest"}), " "),
			"kubelet --manifest-url http://me:xxxxx@h/p --v=4 --manifest_url_header=<masked> --node-ip 10.0.0.1 " +
				"--manifest-url=http://h/p --storage-driver-password <masked> --manifest-url-header <masked> --check rest"},
		{"reserved memory", len(k.ReservedMemory), 2},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}
}

func TestDropinKeepsDefaultEvictions(t *testing.T) {
	c := good(t, map[string]string{"etc/k": "", "d/a.conf": "evictionHard: {memory.available: 200Mi}"}, "--config=/etc/k", "--config-dir=/d")
	if got := c.Kubelet().EvictionHard; len(got) != 5 || got["memory.available"] != "200Mi" {
		t.Errorf("%v", got)
	}
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		want  []string
	}{
		"missing":         {nil, []string{"--config=/etc/k"}, []string{"/etc/k: no such file"}},
		"directory":       {map[string]string{"etc/k/x": ""}, []string{"--config=/etc/k"}, []string{"/etc/k: is not a regular file"}},
		"missing drop-in": {nil, []string{"--config-dir=/d"}, []string{"/d: cannot be read as --config-dir"}},
		"empty":           {map[string]string{"etc/k": "!"}, []string{"--config=/etc/k"}, []string{"/etc/k: the document is empty"}},
		"too long":        {map[string]string{"etc/k": "!" + strings.Repeat("#", maxFile+1)}, []string{"--config=/etc/k"}, []string{"/etc/k: 1048577 bytes long"}},
		"wrong type":      {map[string]string{"etc/k": "maxPods: many\nsyncFrequency: 10"}, []string{"--config=/etc/k"}, []string{"2 errors", `/etc/k: maxPods: "many": must be a whole number`, "/etc/k: syncFrequency: 10: must be a duration"}},
		"wrong kind":      {map[string]string{"etc/k": "!apiVersion: v1\nkind: Pod"}, []string{"--config=/etc/k"}, []string{`/etc/k: kind: "Pod": must be KubeletConfiguration`, `/etc/k: apiVersion: "v1": must be kubelet.config.k8s.io/v1beta1`}},
		"no kind":         {map[string]string{"etc/k": "!maxPods: 5"}, []string{"--config=/etc/k"}, []string{"/etc/k: kind: must be given", "/etc/k: apiVersion: must be given"}},
		"from a drop-in":  {map[string]string{"etc/k": "maxPods: 5", "d/a.conf": "maxPods: -1"}, []string{"--config=/etc/k", "--config-dir=/d"}, []string{"/d/a.conf: maxPods: -1: must be at least 0"}},
		"from a flag":     {map[string]string{"etc/k": "maxPods: 5"}, []string{"--config=/etc/k", "--max-pods=-2"}, []string{"--max-pods: maxPods: -2: must be at least 0"}},
		"from each": {map[string]string{"etc/k": "port: 70000\nfeatureGates: {Nope: true}"}, []string{"--config=/etc/k", "--feature-gates=Nada=true"},
			[]string{"/etc/k: featureGates[Nope]: true: unknown feature gate", "--feature-gates: featureGates[Nada]: true: unknown feature gate"}},
		"map key": {map[string]string{"etc/k": "evictionHard: {memory.available: 1Gi}", "d/a.conf": "evictionHard: {memory.avail: 1Gi}"}, []string{"--config=/etc/k", "--config-dir=/d"},
			[]string{`/d/a.conf: evictionHard[memory.avail]: "memory.avail": supported values`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.files, c.args...)
			wantError(t, err, c.want...)
		})
	}
}

// TestIgnoredParts: a kubelet runs with such files, and so does the agent; it warns.
func TestIgnoredParts(t *testing.T) {
	const ignored = "a part of the configuration is ignored, as by a kubelet: "
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		want  []string
	}{
		"unknown field":  {map[string]string{"etc/k": "maxPods: 6\nmaxPodz: 5"}, []string{"--config=/etc/k"}, []string{"/etc/k: maxPodz: unknown field: did you mean maxPods?"}},
		"unknown case":   {map[string]string{"etc/k": "maxPods: 6\nMaxPods: 5"}, []string{"--config=/etc/k"}, []string{"/etc/k: MaxPods: unknown field: did you mean maxPods?"}},
		"unknown inside": {map[string]string{"etc/k": "maxPods: 6\nauthentication: {webhook: {enable: {a: b}}}"}, []string{"--config=/etc/k"}, []string{"/etc/k: authentication.webhook.enable: unknown field: did you mean enabled?"}},
		"twice":          {map[string]string{"etc/k": "maxPods: 5\nmaxPods: 6"}, []string{"--config=/etc/k"}, []string{"/etc/k: maxPods: given twice"}},
		"two documents":  {map[string]string{"etc/k": "maxPods: 6\n---\nmaxPods: 7"}, []string{"--config=/etc/k"}, []string{"/etc/k: 2 YAML documents found"}},
		"drop-ins": {map[string]string{"etc/k": "maxPods: 5\na: 1", "d/a.conf": "maxPodz: 1\nmaxPods: 6"}, []string{"--config=/etc/k", "--config-dir=/d"},
			[]string{"/etc/k: a: unknown field", "/d/a.conf: maxPodz: unknown field"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := good(t, c.files, c.args...)
			check.Equal(t, g.Kubelet().MaxPods, 6, "maxPods")
			w := g.Warnings()
			check.Fatal(t, check.Is(len(w), len(c.want), "warnings %q", w))
			for i, want := range c.want {
				if !strings.HasPrefix(w[i], ignored+want) {
					t.Errorf("%q, want %q", w[i], want)
				}
			}
		})
	}
	var many strings.Builder
	for i := range 30 {
		fmt.Fprintf(&many, "field%02dx: 1\n", i)
	}
	w := good(t, map[string]string{"etc/k": many.String()}, "--config=/etc/k").Warnings()
	if len(w) != maxIgnored+1 || w[maxIgnored] != "10 more parts of the configuration are ignored" {
		t.Errorf("%d warnings: %q", len(w), w)
	}
	// What is of the wrong kind is refused by both.
	_, err := load(t, map[string]string{"etc/k": "maxPodz: 1\nmaxPods: many"}, "--config=/etc/k")
	wantError(t, err, `invalid configuration: /etc/k: maxPods: "many"`)
}

func wantError(t *testing.T, err error, want ...string) {
	t.Helper()
	var ours *Error
	if !errors.As(err, &ours) {
		t.Fatalf("error is %v", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("want\n%s\nin\n%v", w, err)
		}
	}
}

// TestGatesOfFields: the gate that a field needs to be accepted acts, if the field does.
func TestGatesOfFields(t *testing.T) {
	for _, c := range []struct{ field, gate string }{
		{"cpuCFSQuotaPeriod: 10ms", "CustomCPUCFSQuotaPeriod"},
		{"crashLoopBackOff: {maxContainerRestartPeriod: 10s}", "KubeletCrashLoopBackOffMax"},
		{"memoryReservationPolicy: TieredReservation", "MemoryQoS"},
		{"serverTLSBootstrap: true", "RotateKubeletServerCertificate"},
		{"shutdownGracePeriod: 30s", "GracefulNodeShutdown"},
		{"shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 5}]",
			"GracefulNodeShutdownBasedOnPodPriority"},
	} {
		file := c.field + "\nfeatureGates: {" + c.gate + ": "
		if w := good(t, map[string]string{"etc/k": file + "true}\n"}, "--config=/etc/k").Warnings(); len(w) != 0 {
			t.Errorf("%s with %s: %q", c.field, c.gate, w)
		}
		_, err := load(t, map[string]string{"etc/k": file + "false}\n"}, "--config=/etc/k")
		wantError(t, err, "needs feature gate "+c.gate)
		if _, acts := actsOnGate[c.gate]; !acts {
			t.Errorf("%s is named as a gate without effect", c.gate)
		}
	}
}

// TestWithoutEffect: groups of gates, gates of features that are on in a kubelet, and fields whose gate is off.
func TestWithoutEffect(t *testing.T) {
	const none = "settings that have no effect: "
	for file, want := range map[string]string{
		"featureGates: {KubeletEnsureSecretPulledImages: true, SELinuxMountReadWriteOncePod: true, EnvFiles: true}": "",
		"featureGates: {SELinuxMount: true}":                           "",
		"memoryThrottlingFactor: 0.8":                                  none + "memoryThrottlingFactor (needs feature gate MemoryQoS)",
		"memoryReservationPolicy: None":                                "",
		"featureGates: {AllAlpha: false}":                              "",
		"memoryThrottlingFactor: 0.8\nfeatureGates: {MemoryQoS: true}": "",
	} {
		c := good(t, map[string]string{"etc/k": file + "\n"}, "--config=/etc/k")
		check.Equal(t, strings.Join(c.Warnings(), "|"), want, "%s", file)
	}
	c := good(t, map[string]string{"etc/k": "featureGates: {AllAlpha: true, CSIVolumeHealth: false}\n"}, "--config=/etc/k")
	got := strings.Join(c.Warnings(), "|")
	for name, want := range map[string]bool{"EventedPLEG": true, "CSIVolumeHealth": false, "MemoryQoS": false, "EnvFiles": false} {
		if strings.Contains(got, name) != want {
			t.Errorf("%s is named: %v\n%s", name, !want, got)
		}
	}
	check.Has(t, got, "feature gates of AllAlpha that have no effect: ", "it")
}

func TestUnhelpedFlags(t *testing.T) {
	c := good(t, nil, "--pod-infra-container-image=pause", "--housekeeping-interval=5s", "--node_labels=a=b")
	if got := strings.Join(c.Warnings(), "|"); got != "settings that have no effect: --housekeeping-interval, --pod-infra-container-image" {
		t.Errorf("%q", got)
	}
	check.Equal(t, c.Options().NodeLabels["a"], "b", "underscores")
	c = good(t, map[string]string{"etc/k": "evictionHard: {memory.available: 200Mi}\nmaxPods: 7\nvolumePluginDir: /p\n"}, "--config=/etc/k")
	check.Equal(t, strings.Join(c.Warnings(), "|"), "settings that have no effect: volumePluginDir", "fields")
	c = good(t, map[string]string{"etc/k": "featureGates: {EventedPLEG: true, NodeSwap: true, ComponentFlagz: false}\nlogging: {format: json, flushFrequency: 3s}\n"},
		"--config=/etc/k", "--boot-id-file=/run/l", "--lock-file=/run/l")
	want := "settings that have no effect: --boot-id-file, featureGates[EventedPLEG], logging.flushFrequency"
	check.Equal(t, strings.Join(c.Warnings(), "|"), want, "options, gates and parts of fields")
	if w := good(t, nil).Warnings(); len(w) != 0 {
		t.Errorf("warnings for nothing: %v", w)
	}
}

// TestEveryKubeletFlagIsKnown: the list is of `kubelet --help`, v1.36.
func TestEveryKubeletFlagIsKnown(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	NewFlags().AddTo(fs)
	for name := range strings.FieldsSeq(kubeletFlags) {
		if fs.Lookup(name) == nil {
			t.Errorf("--%s is unknown", name)
		}
	}
}

func TestOptions(t *testing.T) {
	o := good(t, nil, "--root-dir=r", "--kubeconfig=k", "--lock-file=/l", "--runtime=sim", "--container-log-links-dir=links", "--device-plugins-dir=plugins", "--runtime-cgroups=/system.slice/containerd.service").Options()
	if o.RootDir != "/work/r" || o.Kubeconfig != "/work/k" || o.CertDir != DefaultCertDir || o.Runtime != RuntimeSim || o.MaxDead != -1 || o.MaxDeadPerContainer != 1 || o.ContainerLogLinks != "/work/links" || o.DevicePlugins != "/work/plugins" || o.RuntimeCgroups != "/system.slice/containerd.service" {
		t.Errorf("%+v", o)
	}
	for arg, want := range map[string]string{
		"--runtime=docker":                       "--runtime: docker: must be cri or sim",
		"--root-dir=/":                           "--root-dir: /",
		"--container-log-links-dir=/":            "--container-log-links-dir: /",
		"--device-plugins-dir=/":                 "--device-plugins-dir: /",
		"--device-plugins-dir=" + DefaultRootDir: "--device-plugins-dir: " + DefaultRootDir,
		"--cloud-provider=aws":                   "--cloud-provider: aws: must be empty or external",
		"--exit-on-lock-contention":              "--exit-on-lock-contention: needs --lock-file",
		"--node-ip=1.1.1.1,2.2.2.2":              "one address of each family",
		"--node-labels=a b=c":                    "--node-labels: a b=c",
		"--node-labels=kubernetes.io/x=y":        "a node cannot set labels of kubernetes.io",
		"--hostname-override=a_b":                "--hostname-override: a_b",
		"--image-credential-provider-config=/x":  "must be set together with --image-credential-provider-bin-dir",
		"--minimum-container-ttl-duration=-1s":   "--minimum-container-ttl-duration: -1s",
	} {
		_, err := load(t, nil, arg)
		wantError(t, err, want)
	}
	if got := fmt.Sprint(good(t, nil, "--node-labels=node.kubernetes.io/node,a=b", "--node-labels= c ,").Options().NodeLabels); got != "map[a:b c: node.kubernetes.io/node:]" {
		t.Errorf("labels without values: %s", got)
	}
	for _, arg := range []string{"--node-labels=node.kubernetes.io/x=y,topology.kubernetes.io/zone=a", "--node-ip=::", "--node-ip=1.1.1.1,fd00::1", "--cloud-provider=external"} {
		good(t, nil, arg)
	}
}

func TestFlagSyntax(t *testing.T) {
	for _, arg := range []string{
		"--max-pods=x", "--eviction-hard=memory.available=5", "--feature-gates=A=maybe", "--feature-gates=A", "--kube-reserved=cpu", "--manifest-url-header=a",
		"--register-with-taints=a", "--reserved-memory=memory=1Gi", "--reserved-memory=0:memory=x", "--sync-frequency=5", "--no-such-flag", "--v=x",
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		NewFlags().AddTo(fs)
		check.Fails(t, fs.Parse([]string{arg}), "%s was accepted", arg)
	}
}

func TestNodeName(t *testing.T) {
	check.Equal(t, check.Value(good(t, nil).NodeName(" Host.Example.COM\n"))(t), "host.example.com", "it")
	check.Equal(t, check.Value(good(t, nil, "--hostname-override=N1").NodeName("x"))(t), "n1", "it")
	check.Says(t, check.Err(good(t, nil).NodeName("a_b")), "set another one with --hostname-override", "the error")
}

func TestHelpers(t *testing.T) {
	c := good(t, map[string]string{"etc/k": `
maxPods: 50
podsPerCore: 10
maxParallelImagePulls: 4
crashLoopBackOff: {maxContainerRestartPeriod: 30s}
imageServiceEndpoint: /run/images.sock
systemReserved: {cpu: 500m}
evictionSoft: {memory.available: 10%}
evictionSoftGracePeriod: {memory.available: 1m}
evictionMinimumReclaim: {nodefs.available: 1Gi}
evictionHard: {nodefs.available: 0%, memory.available: 100Mi}
staticPodURL: http://h/p
`}, "--config=/etc/k", "--kubeconfig=/k")
	system, kube := c.Reserved()
	healthz, on := c.Healthz()
	var evictions []string
	for _, e := range c.Evictions() {
		evictions = append(evictions, fmt.Sprintf("%s hard=%v %d of 1000000000 after %v", e.Signal, e.Hard, e.Value.Of(1e9), e.Grace))
	}
	for _, check := range []struct {
		what      string
		got, want any
	}{
		{"few cores", c.MaxPods(2), 20},
		{"many cores", c.MaxPods(64), 50},
		{"pulls", c.Pulls(), Pulls{Parallel: 4, QPS: 5, Burst: 10}},
		{"pulls by default", good(t, nil).Pulls().Parallel, int32(5)},
		{"pulls one by one", good(t, nil, "--serialize-image-pulls=true").Pulls().Parallel, int32(1)},
		{"fail on cgroup v1 by default", good(t, nil).FailCgroupV1(), false},
		{"fail on cgroup v1", good(t, nil, "--fail-cgroupv1=true").FailCgroupV1(), true},
		{"pulls without limit", good(t, nil, "--serialize-image-pulls=false").Pulls().Parallel, int32(0)},
		{"crash backoff", c.CrashLoopBackOffMax(), 30 * time.Second},
		{"crash backoff by default", good(t, nil).CrashLoopBackOffMax(), 300 * time.Second},
		{"image endpoint", c.ImageEndpoint(), "/run/images.sock"},
		{"image endpoint by default", good(t, nil).ImageEndpoint(), "unix:///run/containerd/containerd.sock"},
		{"image GC", c.ImageGC(), imagecache.GCPolicy{High: 85, Low: 80, MinAge: 2 * time.Minute}},
		{"container GC", c.ContainerGC(), podgc.Default()},
		{"reserved", fmt.Sprint(system.Cpu(), len(kube)), "500m 0"},
		{"healthz", fmt.Sprint(healthz, " ", on), "127.0.0.1:10248 true"},
		{"standalone", c.Standalone(), false},
		{"register", c.RegisterNode(), true},
		{"register standalone", good(t, nil).RegisterNode(), false},
		{"evictions", strings.Join(evictions, "; "), "memory.available hard=true 104857600 of 1000000000 after 0s; memory.available hard=false 100000001 of 1000000000 after 1m0s"},
		{"run once", good(t, nil, "--runonce").RunOnce(), true},
		{"URL", c.Kubelet().StaticPodURL, "http://h/p"},
	} {
		if check.got != check.want {
			t.Errorf("%s: %v, want %v", check.what, check.got, check.want)
		}
	}
	if _, on := good(t, nil, "--healthz-port=0").Healthz(); on {
		t.Error("healthz is on at port 0")
	}
	k := c.Kubelet()
	k.EvictionHard["memory.available"] = "1Ei"
	check.Equal(t, c.Kubelet().EvictionHard["memory.available"], "100Mi", "a Config was changed from outside")
}

const kubeletFlags = `
address allowed-unsafe-sysctls anonymous-auth application-metrics-count-limit authentication-token-webhook
authentication-token-webhook-cache-ttl authorization-mode authorization-webhook-cache-authorized-ttl
authorization-webhook-cache-unauthorized-ttl boot-id-file bootstrap-kubeconfig cert-dir cgroup-driver
cgroup-root cgroups-per-qos client-ca-file cloud-provider cluster-dns cluster-domain config config-dir
container-hints container-log-max-files container-log-max-size container-runtime-endpoint containerd
containerd-namespace contention-profiling cpu-cfs-quota cpu-cfs-quota-period cpu-manager-policy
cpu-manager-policy-options cpu-manager-reconcile-period enable-controller-attach-detach
enable-debugging-handlers enable-load-reader enable-server enforce-node-allocatable event-burst event-qps
event-storage-age-limit event-storage-event-limit eviction-hard eviction-max-pod-grace-period
eviction-minimum-reclaim eviction-pressure-transition-period eviction-soft eviction-soft-grace-period
exit-on-lock-contention experimental-allocatable-ignore-eviction experimental-mounter-path fail-cgroupv1
fail-swap-on feature-gates file-check-frequency global-housekeeping-interval hairpin-mode healthz-bind-address
healthz-port hostname-override housekeeping-interval http-check-frequency image-credential-provider-bin-dir
image-credential-provider-config image-gc-high-threshold image-gc-low-threshold image-service-endpoint
kernel-memcg-notification kube-api-burst kube-api-content-type kube-api-qps kube-reserved kube-reserved-cgroup
kubeconfig kubelet-cgroups local-storage-capacity-isolation lock-file log-cadvisor-usage log-flush-frequency
log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream logging-format
machine-id-file make-iptables-util-chains manifest-url manifest-url-header max-open-files max-pods
maximum-dead-containers maximum-dead-containers-per-container memory-manager-policy
minimum-container-ttl-duration minimum-image-ttl-duration node-ip node-labels node-status-max-images
node-status-update-frequency oom-score-adj pod-cidr pod-manifest-path pod-max-pids pods-per-core port
protect-kernel-defaults provider-id qos-reserved read-only-port register-node register-with-taints
registry-burst registry-qps reserved-cpus reserved-memory resolv-conf root-dir rotate-certificates
rotate-server-certificates runonce runtime-cgroups runtime-request-timeout seccomp-default
serialize-image-pulls storage-driver-buffer-duration storage-driver-db storage-driver-host
storage-driver-password storage-driver-secure storage-driver-table storage-driver-user
streaming-connection-idle-timeout sync-frequency system-cgroups system-reserved system-reserved-cgroup
tls-cert-file tls-cipher-suites tls-min-version tls-private-key-file topology-manager-policy
topology-manager-policy-options topology-manager-scope v vmodule volume-plugin-dir volume-stats-agg-period
`

// TestEviction: a hard threshold of memory also holds for all pods together, unless another one is given for them.
func TestEviction(t *testing.T) {
	for text, want := range map[string]string{
		"evictionHard: {memory.available: 1Gi, pid.available: 5%}":                               "memory.available pid.available allocatableMemory.available",
		"evictionHard: {memory.available: 1Gi}\nenforceNodeAllocatable: [none]":                  "memory.available",
		"evictionHard: {memory.available: 1Gi, allocatableMemory.available: 2Gi}":                "allocatableMemory.available memory.available",
		"evictionHard: {pid.available: 5%}":                                                      "pid.available",
		"evictionHard: {memory.available: 1Gi}\nevictionMinimumReclaim: {memory.available: 2Gi}": "memory.available allocatableMemory.available",
	} {
		p := good(t, map[string]string{"etc/k": text}, "--config=/etc/k").Eviction()
		var signals []string
		for _, h := range p.Thresholds {
			signals = append(signals, string(h.Signal))
		}
		if got := strings.Join(signals, " "); got != want || p.NoNotices {
			t.Errorf("%s: %s, no notices %v; want %s", text, got, p.NoNotices, want)
		}
	}
	if !good(t, map[string]string{"etc/k": "kernelMemcgNotification: false"}, "--config=/etc/k").Eviction().NoNotices {
		t.Error("the kernel is asked for notices although kernelMemcgNotification is false")
	}
}
