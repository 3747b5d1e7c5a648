// Package settings compares the settings that troupe knows with those of the kubelet, from its own code:
// each is acted on, or named by the agent at its start. tests/arch holds what is said to act to the code.
package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/tests/check"
)

// load reads a configuration file and flags as the agent does.
func load(t *testing.T, file string, args ...string) (config.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("troupe", pflag.ContinueOnError)
	flags := config.NewFlags()
	flags.AddTo(fs)
	root := fstest.MapFS{"p": {Data: []byte(providers)}, "b/plugin": {Mode: 0o755}}
	if file != "" {
		root["k"] = &fstest.MapFile{Data: []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + file)}
		args = append(args, "--config=/k")
	}
	if err := fs.Parse(args); err != nil {
		return config.Config{}, err
	}
	return config.Load(flags, root, "/")
}

const noEffect = "settings that have no effect: "

// silent are the settings that a start names.
func silent(c config.Config) []string {
	for _, w := range c.Warnings() {
		if list, is := strings.CutPrefix(w, noEffect); is {
			return strings.Split(list, ", ")
		}
	}
	return nil
}

// kubeletFlags are all flags of the kubelet, the hidden ones too.
func kubeletFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	c := check.Value(options.NewKubeletConfiguration())(t)
	options.NewKubeletFlags().AddFlags(fs)
	options.AddKubeletConfigFlags(fs, c)
	options.AddGlobalFlags(fs)
	return fs
}

// ownSense are flags that mean something to every command, and that troupe has of its own.
var ownSense = []string{"help", "version"}

// providers is a configuration of credential provider plugins.
const providers = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: plugin\n" +
	"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  matchImages: [reg.io]\n  defaultCacheDuration: 1m\n"

// samples are values of flags whose default in the kubelet says nothing, or may not be given.
var samples = map[string]string{
	"config": "/k", "config-dir": "/d", "kubeconfig": "/kube", "bootstrap-kubeconfig": "/boot", "cloud-provider": "external",
	"eviction-minimum-reclaim": "imagefs.available=2Gi", "eviction-soft": "memory.available<1Gi",
	"eviction-soft-grace-period": "memory.available=30s", "feature-gates": "ComponentFlagz=true", "hostname-override": "n",
	"image-service-endpoint": "unix:///i.sock", "kube-reserved": "cpu=100m", "kube-reserved-cgroup": "/k", "system-reserved": "cpu=100m",
	"system-reserved-cgroup": "/s", "manifest-url": "http://x/", "manifest-url-header": "a:b", "node-ip": "192.0.2.1",
	"node-labels": "a=b", "pod-cidr": "10.0.0.0/24", "provider-id": "x://y", "qos-reserved": "memory=50%", "register-with-taints": "a=b:NoSchedule",
	"reserved-cpus": "0", "tls-cert-file": "/c", "tls-private-key-file": "/p", "tls-min-version": "VersionTLS12",
	"tls-cipher-suites": "TLS_AES_128_GCM_SHA256", "vmodule": "a=1", "v": "2", "cluster-dns": "10.0.0.10", "cluster-domain": "a.b",
	"allowed-unsafe-sysctls": "net.core.somaxconn", "client-ca-file": "/ca", "cgroup-root": "/", "pod-manifest-path": "/m", "kubelet-cgroups": "/k",
	"system-cgroups": "/s", "cpu-manager-policy-options": "full-pcpus-only=true", "topology-manager-policy-options": "prefer-closest-numa-nodes=true",
	"reserved-memory": "0:memory=1Gi", "authorization-mode": "Webhook",
	"experimental-mounter-path": "/m", "experimental-allocatable-ignore-eviction": "true", "enable-load-reader": "true",
	"log-cadvisor-usage": "true", "storage-driver-secure": "true", "hairpin-mode": "hairpin-veth", "sync-frequency": "2m",
	"volume-plugin-dir": "/v", "cpu-manager-reconcile-period": "1s", "make-iptables-util-chains": "false",
	"log-flush-frequency": "1s", "log-json-split-stream": "true", "log-text-split-stream": "true",
	"log-json-info-buffer-size": "1", "log-text-info-buffer-size": "1",
	"image-credential-provider-config": "/p", "image-credential-provider-bin-dir": "/b", "lock-file": "/l",
}

// beside are flags that must be given with another one.
var beside = map[string][]string{
	"eviction-soft":                     {"--eviction-soft-grace-period=memory.available=30s"},
	"eviction-soft-grace-period":        {"--eviction-soft=memory.available<1Gi"},
	"tls-cert-file":                     {"--tls-private-key-file=/p"},
	"tls-private-key-file":              {"--tls-cert-file=/c"},
	"image-credential-provider-config":  {"--image-credential-provider-bin-dir=/b"},
	"image-credential-provider-bin-dir": {"--image-credential-provider-config=/p"},
	"manifest-url-header":               {"--manifest-url=http://x/"},
	"feature-gates":                     {},
	"qos-reserved":                      {"--feature-gates=QOSReserved=true"},
	"log-json-info-buffer-size":         {"--feature-gates=LoggingAlphaOptions=true"},
	"log-json-split-stream":             {"--feature-gates=LoggingAlphaOptions=true"},
	"log-text-split-stream":             {"--feature-gates=LoggingAlphaOptions=true"},
	"log-text-info-buffer-size":         {"--feature-gates=LoggingAlphaOptions=true"},
	"cpu-manager-policy-options":        {"--cpu-manager-policy=static", "--reserved-cpus=0"},
	"system-cgroups":                    {"--cgroup-root=/"},
}

// TestFlags: every flag of the kubelet is known, with a value of the same kind, and acts or is named at the
// start. That what is not named acts is the matter of tests/arch.
//
//tier:unit
func TestFlags(t *testing.T) {
	ours := pflag.NewFlagSet("troupe", pflag.ContinueOnError)
	config.NewFlags().AddTo(ours)
	var got []string
	count := 0
	kubeletFlags(t).VisitAll(func(f *pflag.Flag) {
		if slices.Contains(ownSense, f.Name) {
			return
		}
		count++
		mine := ours.Lookup(f.Name)
		if mine == nil {
			t.Errorf("--%s: unknown", f.Name)
			return
		}
		if (f.NoOptDefVal == "") != (mine.NoOptDefVal == "") {
			t.Errorf("--%s: may be given without a value here or there alone", f.Name)
		}
		value := samples[f.Name]
		if value == "" {
			value = strings.TrimSuffix(strings.TrimPrefix(f.DefValue, "["), "]")
		}
		args := append([]string{"--" + f.Name + "=" + value}, beside[f.Name]...)
		file := ""
		if f.Name == "config" {
			file = "maxPods: 100\n"
			args = args[1:]
		}
		c, err := load(t, file, args...)
		if f.Name == "config-dir" && err != nil { // it is not there
			got = append(got, f.Name)
			return
		}
		if err != nil {
			t.Errorf("%v: %v", args, err)
			return
		}
		for _, name := range silent(c) {
			if name == "--"+f.Name || !strings.HasPrefix(name, "--") && !besides(f.Name, name) {
				return
			}
		}
		got = append(got, f.Name)
	})
	t.Logf("%d of %d flags act: %s", len(got), count, strings.Join(got, " "))
	if count < 140 || len(got) < 80 || len(got) == count {
		t.Errorf("%d of %d flags act: the test does not see them", len(got), count)
	}
	for _, name := range []string{"boot-id-file", "experimental-mounter-path"} {
		if slices.Contains(got, name) {
			t.Errorf("--%s is not named", name)
		}
	}
}

// besides says whether a setting that is named is of a flag given beside the one in question.
func besides(flag, name string) bool {
	return flag != "feature-gates" && strings.HasPrefix(name, "featureGates[") ||
		flag == "cpu-manager-policy-options" && (name == "cpuManagerPolicy" || name == "reservedSystemCPUs")
}

// TestFields: every field of KubeletConfiguration is known to the decoder, and no other. Each is one that
// acts, or is named: see tests/arch.
//
//tier:unit
func TestFields(t *testing.T) {
	names := func(f reflect.StructField) string {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name
	}
	kind := reflect.TypeFor[kubelet.KubeletConfiguration]()
	count := 0
	for i := range kind.NumField() {
		name := names(kind.Field(i))
		if name == "" { // apiVersion and kind
			continue
		}
		count++
		// Of a duration, null is a mistake, as in the kubelet.
		c, err := load(t, name+": null\n")
		if err != nil && !strings.Contains(err.Error(), "invalid duration") || unknown(c) {
			t.Errorf("%s: %v, %q", name, err, c.Warnings())
		}
	}
	check.AtLeast(t, count, 100, "%d fields", count)
	if c, err := load(t, "noSuchField: null\n"); err != nil || !unknown(c) {
		t.Errorf("a field that is none: %v, %q", err, c.Warnings())
	}
}

// unknown says whether the file has a field that is none.
func unknown(c config.Config) bool {
	return slices.ContainsFunc(c.Warnings(), func(w string) bool { return strings.Contains(w, "unknown field") })
}

// TestGates: the feature gates are those of the kubelet with their stage and default, and one that is set
// otherwise is named, or asked for.
//
//tier:unit
func TestGates(t *testing.T) {
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec := all[name]
		if name == "AllAlpha" || name == "AllBeta" {
			testGroup(t, all, name, !spec.Default)
			testGroup(t, all, name, spec.Default)
			continue
		}
		if _, err := load(t, fmt.Sprintf("featureGates: {%s: %v}\n", name, spec.Default)); err != nil {
			t.Errorf("%s with its default %v: %v", name, spec.Default, err)
			continue
		}
		file := fmt.Sprintf("featureGates: {%s: %v}\n", name, !spec.Default)
		c, err := load(t, file)
		var bad *config.Error
		switch {
		case spec.LockToDefault:
			check.Says(t, err, "locked to", "%s is locked to %v", name, spec.Default)
			continue
		case errors.As(err, &bad) && needs(err):
			c, err = load(t, withNeeds(all, name, !spec.Default))
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		named := slices.Contains(silent(c), fmt.Sprintf("featureGates[%s]", name))
		if named == asked(c, string(name)) {
			t.Errorf("%s (default %v): named at the start is %v, and the code asks for it is %v", name, spec.Default, named, !named)
		}
	}
}

// testGroup: with AllAlpha or AllBeta, each gate that it switches is named, or asked for.
func testGroup(t *testing.T, all map[featuregate.Feature]featuregate.FeatureSpec, group featuregate.Feature, on bool) {
	t.Helper()
	c, err := load(t, fmt.Sprintf("featureGates: {%s: %v}\n", group, on))
	if err != nil {
		if !needs(err) {
			t.Errorf("%s: %v: %v", group, on, err)
		}
		return
	}
	named := map[string]bool{}
	for _, w := range c.Warnings() {
		if list, is := strings.CutPrefix(w, fmt.Sprintf("feature gates of %s that have no effect: ", group)); is {
			for name := range strings.SplitSeq(list, ", ") {
				named[name] = true
			}
		}
	}
	stage := map[featuregate.Feature]string{"AllAlpha": "ALPHA", "AllBeta": "BETA"}[group]
	for name, spec := range all {
		switched := string(spec.PreRelease) == stage && !spec.LockToDefault && spec.Default != on
		if want := switched && !asked(c, string(name)); name != group && named[string(name)] != want {
			t.Errorf("%s: %v: %s is named: %v, want %v", group, on, name, !want, want)
		}
	}
}

// asked says whether a gate is one that troupe asks for: it panics for all others.
func asked(c config.Config, name string) (acts bool) {
	defer func() { acts = recover() == nil }()
	c.Gates().Enabled(name)
	return true
}

// needs says whether a gate was refused because of another one.
func needs(err error) bool { return strings.Contains(err.Error(), "needs feature gate") }

// withNeeds sets a gate with all that it depends on, or that depends on it.
func withNeeds(all map[featuregate.Feature]featuregate.FeatureSpec, name featuregate.Feature, on bool) string {
	set := map[featuregate.Feature]bool{name: on}
	deps := utilfeature.DefaultMutableFeatureGate.Dependencies()
	for range len(all) { // until nothing more follows
		before := len(set)
		for f, value := range maps.Clone(set) {
			if value {
				for _, need := range deps[f] {
					set[need] = true
				}
				continue
			}
			for other, others := range deps {
				if slices.Contains(others, f) {
					set[other] = false
				}
			}
		}
		if len(set) == before {
			break
		}
	}
	var list []string
	for f, value := range set {
		if spec := all[f]; !spec.LockToDefault {
			list = append(list, fmt.Sprintf("%s: %v", f, value))
		}
	}
	return "featureGates: {" + strings.Join(list, ", ") + "}\n"
}
