package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/supervisor/config"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
)

func TestLookAtCgroups(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files string // below the root
		own   string
		want  cgroupFacts
	}{
		{"v1", "memory/tasks", "5:memory:/\n0::/\n", cgroupFacts{}},
		{"v1 with swap", "memory/memory.memsw.limit_in_bytes", "", cgroupFacts{swap: true}},
		{"hybrid", "memory/tasks unified/cgroup.controllers unified/a/memory.swap.max", "5:memory:/\n0::/a\n", cgroupFacts{}},
		{"v2", "cgroup.controllers system.slice/memory.swap.max", "0::/system.slice/troupe.service\n", cgroupFacts{v2: true, swap: true}},
		{"v2 without swap", "cgroup.controllers system.slice/memory.max", "0::/system.slice\n", cgroupFacts{v2: true}},
		{"v2, in a cgroup deep down", "cgroup.controllers a/cgroup.procs a/b/memory.swap.max", "0::/a/b\n", cgroupFacts{v2: true, swap: true}},
		{"v2, own cgroup not known", "cgroup.controllers a/b/memory.swap.max", "", cgroupFacts{v2: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, file := range strings.Fields(tt.files) {
				path := filepath.Join(dir, "cgroup", file)
				must.Fatal(t, os.MkdirAll(filepath.Dir(path), 0o755))
				must.Fatal(t, os.WriteFile(path, nil, 0o644))
			}
			own := filepath.Join(dir, "own")
			if tt.own != "" {
				must.Fatal(t, os.WriteFile(own, []byte(tt.own), 0o644))
			}
			if got := lookAtCgroups(filepath.Join(dir, "cgroup"), own); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestCgroupsAllowed(t *testing.T) {
	v1, v2 := cgroupFacts{}, cgroupFacts{v2: true}
	for _, tt := range []struct {
		name, text string
		facts      cgroupFacts
		names      string // the field that the error names
	}{
		{"v1", "", v1, ""},
		{"v1, asked to fail", "failCgroupV1: true", v1, "failCgroupV1"},
		{"v1, one process killed", "singleProcessOOMKill: true", v1, ""},
		{"v1, all killed", "singleProcessOOMKill: false", v1, "singleProcessOOMKill"},
		{"v2", "", v2, ""},
		{"v2, v1 not wanted", "failCgroupV1: true", v2, ""},
		{"v2, all killed", "singleProcessOOMKill: false", v2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.facts.allowedBy(configOf(t, tt.text))
			if tt.names == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if tt.names != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.names+":")) {
				t.Errorf("got %v, want an error about %s", err, tt.names)
			}
		})
	}
}

// TestTranslationOfCgroups shows what containers get of a host's cgroups and the configuration.
func TestTranslationOfCgroups(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		facts      cgroupFacts
		group      bool
	}{
		{"v1", "", cgroupFacts{swap: true}, false},
		{"v2", "", cgroupFacts{v2: true, swap: true}, true},
		{"v2, all killed", "singleProcessOOMKill: false", cgroupFacts{v2: true}, true},
		{"v2, one process killed", "singleProcessOOMKill: true", cgroupFacts{v2: true}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := machine{cgroups: tt.facts}.translation(configOf(t, tt.text))
			if n.CgroupV2 != tt.facts.v2 || n.SwapAccounting != tt.facts.swap || n.OOMKillGroup != tt.group {
				t.Errorf("got v2 %t, swap %t, group %t; want %t, %t, %t",
					n.CgroupV2, n.SwapAccounting, n.OOMKillGroup, tt.facts.v2, tt.facts.swap, tt.group)
			}
		})
	}
}

// TestMemoryPolicy: what a host cannot do is named.
func TestMemoryPolicy(t *testing.T) {
	const both = "memorySwap: {swapBehavior: LimitedSwap}\nmemoryReservationPolicy: TieredReservation\nfeatureGates: {MemoryQoS: true}"
	for _, tt := range []struct {
		name, text string
		facts      cgroupFacts
		swap       int64
		want       podcgroup.MemoryPolicy
		warnings   []string
	}{
		{"v2, by default", "", cgroupFacts{v2: true, swap: true}, 10, podcgroup.MemoryPolicy{}, nil},
		{"v2", both, cgroupFacts{v2: true, swap: true}, 10, podcgroup.MemoryPolicy{QoS: true, Tiered: true, LimitedSwap: true}, nil},
		{"v2, no swap", both, cgroupFacts{v2: true, swap: true}, 0, podcgroup.MemoryPolicy{QoS: true, Tiered: true, LimitedSwap: true},
			[]string{"no swap"}},
		{"v2, swap is not counted", both, cgroupFacts{v2: true}, 10, podcgroup.MemoryPolicy{QoS: true, Tiered: true, LimitedSwap: true},
			[]string{"swapaccount=1"}},
		{"v1", both, cgroupFacts{swap: true}, 10, podcgroup.MemoryPolicy{}, []string{"MemoryQoS", "LimitedSwap"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, m := configOf(t, tt.text), machine{cgroups: tt.facts, memory: 100, swap: tt.swap}
			got := m.memoryPolicy(c)
			if tt.facts.v2 && (got.Throttling != 0.9 || got.Capacity != 100 || got.Swap != tt.swap || got.PageSize <= 0) {
				t.Errorf("%+v", got)
			}
			if got.QoS != tt.want.QoS || got.Tiered != tt.want.Tiered || got.LimitedSwap != tt.want.LimitedSwap {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			warnings := m.memoryWarnings(c)
			if len(warnings) != len(tt.warnings) {
				t.Fatalf("%q", warnings)
			}
			for i, want := range tt.warnings {
				if !strings.Contains(warnings[i], want) {
					t.Errorf("%q, want %q in it", warnings[i], want)
				}
			}
		})
	}
}

// configOf is a configuration with these lines in its file.
func configOf(t *testing.T, lines string, args ...string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" +
		"containerRuntimeEndpoint: unix:///run/containerd/containerd.sock\nstaticPodPath: /etc/kubernetes/manifests\n" + lines + "\n"
	must.Fatal(t, os.WriteFile(file, []byte(text), 0o644))
	flags := config.NewFlags()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(fs)
	must.Fatal(t, fs.Parse(append([]string{"--config", file}, args...)))
	return must.Value(config.Load(flags, os.DirFS("/"), "/"))(t)
}
