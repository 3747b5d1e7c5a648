package translate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestUpdate(t *testing.T) {
	w := newWorld()
	w.node.SwapAccounting, w.node.HugePageSizes = true, []string{"2MB"}
	w.app.Resources.Limits = list("cpu", "1", "memory", "64Mi")
	got := Update(w.node, &port.UpdateContainer{ID: "c1", Pod: w.pod, Container: w.app,
		To: observed.Resources{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 32 << 20}})
	l := got.Linux
	if got.ContainerId != "c1" || l.CpuShares != 512 || l.CpuQuota != 50_000 || l.CpuPeriod != 100_000 ||
		l.MemoryLimitInBytes != 32<<20 || l.MemorySwapLimitInBytes != 32<<20 || len(l.HugepageLimits) != 0 {
		t.Errorf("%+v", got)
	}
	w.node.CgroupV2, w.node.Memory = true, podcgroup.MemoryPolicy{QoS: true, Throttling: 0.5}
	got = Update(w.node, &port.UpdateContainer{ID: "c1", Pod: w.pod, Container: w.app, To: observed.Resources{Memory: 32 << 20}})
	check.Count(t, got.Linux.Unified["memory.high"], "16777216", "memory.high is %s with another limit than the spec's")
	if got.Linux.CpuQuota != -1 {
		t.Errorf("the quota is %d for a container with a limit that has none any more; want -1: runtimes leave what is not set", got.Linux.CpuQuota)
	}
	w.app.Resources.Limits = list("memory", "64Mi")
	if got = Update(w.node, &port.UpdateContainer{ID: "c1", Pod: w.pod, Container: w.app}); got.Linux.CpuQuota != 0 {
		t.Errorf("the quota is %d for a container that never had one", got.Linux.CpuQuota)
	}
}

// TestPlacement: a container is moved without a change of its limits.
func TestPlacement(t *testing.T) {
	w := newWorld()
	w.app.Resources.Limits = list("cpu", "1", "memory", "64Mi")
	at := cpus.ContainerPlacement{CPUs: "1-2", Mems: "0"}
	got := Update(w.node, &port.UpdateContainer{ID: "c1", Pod: w.pod, Container: w.app, Placement: &at})
	want := &runtimeapi.LinuxContainerResources{CpusetCpus: "1-2", CpusetMems: "0"}
	if got.ContainerId != "c1" || !proto.Equal(got.Linux, want) {
		t.Errorf("%+v", got)
	}
}

// TestNoQuotaOfOwnCPUs: of two containers of a Guaranteed pod, only one has exclusive CPUs.
func TestNoQuotaOfOwnCPUs(t *testing.T) {
	w := newWorld()
	all := func(cpu string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: list("cpu", cpu, "memory", "64Mi"), Limits: list("cpu", cpu, "memory", "64Mi")}
	}
	w.pod.Spec.InitContainers = nil
	w.pod.Spec.Containers = []v1.Container{{Name: "own", Resources: all("2")}, {Name: "part", Resources: all("500m")}}
	for on, want := range map[bool][]int64{false: {200_000, 50_000}, true: {0, 50_000}} { // order-free: each on its own
		w.node.NoQuotaOfOwnCPUs = on
		for i := range want {
			if got := containerResources(w.node, w.pod, &w.pod.Spec.Containers[i]); got.CpuQuota != want[i] {
				t.Errorf("%v: container %d has quota %d; want %d", on, i, got.CpuQuota, want[i])
			}
		}
		check.Equal(t, sandboxResources(w.node, w.pod).CpuQuota, map[bool]int64{false: 250_000, true: -1}[on], "quota of the sandbox")
	}
}

func TestUpdateSandbox(t *testing.T) {
	w := newWorld()
	to := observed.Resources{CPUShares: 512, CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 32 << 20}
	for _, c := range []struct {
		name      string
		overhead  v1.ResourceList
		to        observed.Resources
		own, over []int64 // shares, quota, memory
	}{
		{"no overhead", nil, to, []int64{512, 50_000, 32 << 20}, []int64{0, 0, 0}},
		{"overhead", list("cpu", "250m", "memory", "8Mi"), to, []int64{256, 25_000, 24 << 20}, []int64{256, 25_000, 8 << 20}},
		{"no limits", list("cpu", "250m", "memory", "8Mi"), observed.Resources{CPUShares: 512}, []int64{256, 0, 0}, []int64{256, 25_000, 8 << 20}},
	} {
		w.pod.Spec.Overhead = c.overhead
		got := UpdateSandbox(w.node, &port.UpdateSandbox{ID: "s1", Pod: w.pod, To: c.to})
		has := func(r *runtimeapi.LinuxContainerResources) []int64 {
			return []int64{r.CpuShares, r.CpuQuota, r.MemoryLimitInBytes}
		}
		if got.PodSandboxId != "s1" || !slices.Equal(has(got.Resources), c.own) || !slices.Equal(has(got.Overhead), c.over) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestResources(t *testing.T) {
	type resources = runtimeapi.LinuxContainerResources
	cpu := func(r *resources) any { return []int64{r.CpuShares, r.CpuQuota, r.CpuPeriod} }
	for _, tt := range []struct {
		name             string
		requests, limits v1.ResourceList
		mutate           func(*world)
		look             func(*resources) any
		want             any
	}{
		{"none", nil, nil, nil, cpu, []int64{2, 0, 100000}},
		{"request", list("cpu", "250m"), nil, nil, cpu, []int64{256, 0, 100000}},
		{"limit alone", nil, list("cpu", "500m"), nil, cpu, []int64{512, 50000, 100000}},
		{"both", list("cpu", "1"), list("cpu", "2"), nil, cpu, []int64{1024, 200000, 100000}},
		{"a request of zero", list("cpu", "0"), list("cpu", "2"), nil, cpu, []int64{2, 200000, 100000}},
		{"little", list("cpu", "1m"), list("cpu", "1m"), nil, cpu, []int64{2, 1000, 100000}},
		{"much", list("cpu", "1000"), nil, nil, cpu, []int64{262144, 0, 100000}},
		{"no quota", nil, list("cpu", "1"), func(w *world) { w.node.NoCPUQuota = true }, cpu, []int64{1024, 0, 0}},
		{"period", nil, list("cpu", "1"), func(w *world) { w.node.CPUQuotaPeriod = 10 * time.Millisecond }, cpu, []int64{1024, 10000, 10000}},
		{"memory", list("memory", "1"), list("memory", "64Mi"), nil, func(r *resources) any { return []int64{r.MemoryLimitInBytes, r.MemorySwapLimitInBytes} }, []int64{64 << 20, 0}},
		{"no swap", nil, list("memory", "64Mi"), func(w *world) { w.node.SwapAccounting = true }, func(r *resources) any { return r.MemorySwapLimitInBytes }, int64(64 << 20)},
		{"no files of v2 with v1", nil, list("memory", "64Mi"), func(w *world) { w.node.SwapAccounting = true }, func(r *resources) any { return r.Unified }, map[string]string(nil)},
		{"no swap with v2", nil, nil, func(w *world) { w.node.CgroupV2, w.node.SwapAccounting = true, true }, func(r *resources) any {
			return []any{r.Unified, r.MemorySwapLimitInBytes}
		}, []any{map[string]string{"memory.high": "max", "memory.swap.max": "0"}, int64(0)}},
		{"v2 without swap", nil, list("memory", "64Mi"), func(w *world) { w.node.CgroupV2 = true }, func(r *resources) any { return r.Unified }, map[string]string{"memory.high": "max"}},
		{"killed as a whole", nil, nil, func(w *world) { w.node.CgroupV2, w.node.OOMKillGroup = true, true }, func(r *resources) any { return r.Unified }, map[string]string{"memory.high": "max", "memory.oom.group": "1"}},
		{"some swap with v2", list("memory", "100"), nil, func(w *world) {
			w.node.CgroupV2, w.node.SwapAccounting = true, true
			w.node.Memory = podcgroup.MemoryPolicy{LimitedSwap: true, Capacity: 1000, Swap: 500}
		}, func(r *resources) any { return r.Unified }, map[string]string{"memory.high": "max", "memory.swap.max": "50"}},
		{"MemoryQoS", list("memory", "100Mi"), list("memory", "200Mi"), func(w *world) {
			w.node.CgroupV2, w.node.Memory = true, podcgroup.MemoryPolicy{QoS: true, Tiered: true, Throttling: 0.5}
		}, func(r *resources) any { return r.Unified },
			map[string]string{"memory.min": "0", "memory.low": "104857600", "memory.high": "157286400"}},
		{"MemoryQoS, limited by the pod", list("memory", "4096"), nil, func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "8192")}
			w.node.CgroupV2, w.node.Memory = true, podcgroup.MemoryPolicy{QoS: true, Throttling: 0.5, Allocatable: 1 << 20}
		}, func(r *resources) any { return r.Unified },
			map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "524288"}},
		{"MemoryQoS, request is limit", list("memory", "8192"), list("memory", "8192"), func(w *world) {
			w.node.CgroupV2, w.node.Memory = true, podcgroup.MemoryPolicy{QoS: true, Throttling: 0.5}
		}, func(r *resources) any { return r.Unified },
			map[string]string{"memory.min": "0", "memory.low": "0", "memory.high": "max"}},
		{"memory of the pod as a whole", nil, nil, func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("memory", "77")}
		}, func(r *resources) any { return r.MemoryLimitInBytes }, int64(77)},
		{"CPU of the pod as a whole", nil, nil, func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("cpu", "1")}
		}, cpu, []int64{1024, 100000, 100000}},
		{"less CPU than the pod as a whole", nil, list("cpu", "500m"), func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("cpu", "1")}
		}, cpu, []int64{512, 50000, 100000}},
		{"huge pages", nil, list("hugepages-2Mi", "8Mi"), func(w *world) { w.node.HugePageSizes = []string{"2MB", "1GB"} }, func(r *resources) any {
			return []any{r.HugepageLimits[0].PageSize, r.HugepageLimits[0].Limit, r.HugepageLimits[1].PageSize, r.HugepageLimits[1].Limit}
		}, []any{"2MB", uint64(8 << 20), "1GB", uint64(0)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.app.Resources = v1.ResourceRequirements{Requests: tt.requests, Limits: tt.limits}
			if tt.mutate != nil {
				tt.mutate(w)
			}
			check.Deep(t, tt.look(w.container(t).Linux.Resources), tt.want, "got")
		})
	}
}

func TestOOMScore(t *testing.T) { // on a node with 1000 bytes
	all := list("cpu", "1", "memory", "100")
	burstable := func(memory string) func(*world) {
		return func(w *world) { w.app.Resources.Requests = list("memory", memory) }
	}
	for _, tt := range []struct {
		name   string
		mutate func(*world)
		want   int64
	}{
		{"best effort", func(*world) {}, 1000},
		{"guaranteed", func(w *world) { w.app.Resources = v1.ResourceRequirements{Requests: all, Limits: all} }, -997},
		{"limits alone: the API makes them requests too", func(w *world) { w.app.Resources.Limits = all }, 999},
		{"guaranteed, but the host does not let us", func(w *world) {
			w.app.Resources = v1.ResourceRequirements{Requests: all, Limits: all}
			w.node.OOMScoreAdjFloor = ptr[int64](-100)
		}, -100},
		{"what the status says", func(w *world) { w.pod.Status.QOSClass = v1.PodQOSGuaranteed }, -997},
		{"one container is not guaranteed", func(w *world) {
			w.app.Resources.Limits = all
			w.pod.Spec.InitContainers = []v1.Container{{Name: "first"}}
		}, 999},
		{"burstable, a tenth", burstable("100"), 900},
		{"burstable, nothing", burstable("0.4"), 999},
		{"burstable, all", burstable("1000"), 3},
		{"burstable, more than there is", burstable("5000"), 3},
		{"burstable, CPU alone", func(w *world) { w.app.Resources.Requests = list("cpu", "1") }, 999},
		{"burstable, memory not known", func(w *world) { burstable("100")(w); w.node.MemoryCapacity = 0 }, 999},
		{"pod as a whole", func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "300")}
			burstable("100")(w)
		}, 700},
		{"pod as a whole, with a sidecar and an init container", func(w *world) { // 300 less 100 and 20, by three
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "300")}
			burstable("100")(w)
			w.pod.Spec.InitContainers = []v1.Container{
				{Name: "side", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: list("memory", "20")}},
				{Name: "first"},
			}
		}, 840},
		{"pod as a whole, with a large init container", func(w *world) { // 300 less 250, by two
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "300")}
			burstable("100")(w)
			w.pod.Spec.InitContainers = []v1.Container{{Name: "first", Resources: v1.ResourceRequirements{Requests: list("memory", "250")}}}
		}, 875},
		{"sidecar of a pod that asks for more as a whole", func(w *world) { // 400, and (600 less 410) by two
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "600")}
			burstable("400")(w)
			w.pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: list("memory", "10")}}}
			w.r.Container = &w.pod.Spec.InitContainers[0]
		}, 505},
		{"pod as a whole, guaranteed", func(w *world) {
			w.pod.Spec.Resources = &v1.ResourceRequirements{Requests: all, Limits: all}
			burstable("50")(w)
		}, -997},
		{"node critical", func(w *world) {
			w.pod.Spec.PriorityClassName, w.pod.Spec.Priority = "system-node-critical", ptr[int32](2000001000)
		}, -997},
		{"node critical static pod", func(w *world) {
			w.pod.Spec.PriorityClassName = "system-node-critical"
			w.pod.Annotations["kubernetes.io/config.source"] = "file"
		}, -997},
		{"critical by its own word only", func(w *world) { w.pod.Spec.PriorityClassName = "system-node-critical" }, 1000},
		{"sidecar of a larger container", func(w *world) {
			burstable("400")(w)
			w.pod.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways), Resources: v1.ResourceRequirements{Requests: list("memory", "10")}}}
			w.r.Container = &w.pod.Spec.InitContainers[0]
		}, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.mutate(w)
			check.Equal(t, w.container(t).Linux.Resources.OomScoreAdj, tt.want, "it")
		})
	}
}

func TestNodeValidate(t *testing.T) {
	for want, n := range map[string]Node{
		"":                              {},
		"is not an absolute path":       {PodLogs: "logs"},
		`root directory "x"`:            {RootDir: "x"},
		"memory capacity is negative":   {MemoryCapacity: -1},
		"is not between 1ms and 1s":     {CPUQuotaPeriod: 2 * time.Second},
		"need cgroup v2":                {Memory: podcgroup.MemoryPolicy{QoS: true}},
		"period 1µs is not between 1ms": {CPUQuotaPeriod: time.Microsecond},
	} {
		err := n.Validate()
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
