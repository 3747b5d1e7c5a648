package usage

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestOf(t *testing.T) {
	began := metav1.NewTime(at)
	status := func(name, id string, running bool) v1.ContainerStatus {
		s := v1.ContainerStatus{Name: name, ContainerID: id, Image: "image-of-" + name}
		if s.State.Waiting = &(v1.ContainerStateWaiting{}); running {
			s.State = v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: began}}
		}
		return s
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}, Status: v1.PodStatus{
		StartTime:             &began,
		InitContainerStatuses: []v1.ContainerStatus{status("first", "containerd://1", false), status("sidecar", "containerd://2", true)},
		ContainerStatuses:     []v1.ContainerStatus{status("app", "containerd://3", true), status("hooked", "containerd://4", false)},
	}}
	p.Spec.Containers = []v1.Container{{Name: "app"}, {Name: "hooked", Lifecycle: &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}}}
	got, runs := Of(p)
	if !runs || len(got.Containers) != 3 || got.Containers[0].Name != "sidecar" || got.Containers[1].RuntimeID != "3" ||
		!got.Containers[1].Started.Equal(at) || got.Containers[1].Image != "image-of-app" || got.UID != "1" || !got.Started.Equal(at) ||
		got.Containers[2].RuntimeID != "4" {
		t.Errorf("%v %+v", runs, got)
	}
	if _, runs := Of(&v1.Pod{Status: v1.PodStatus{Phase: v1.PodSucceeded, ContainerStatuses: []v1.ContainerStatus{status("app", "x://1", false)}}}); runs {
		t.Error("a pod that has ended uses something")
	}
	if _, runs := Of(&v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning}}); !runs {
		t.Error("a pod between two runs of its container uses nothing")
	}
}

func TestSum(t *testing.T) {
	of := func(n uint64, after time.Duration) Container {
		return Container{Cgroup: Cgroup{At: at.Add(after), CPU: &CPU{Usage: time.Duration(n)}, Memory: &Memory{Usage: n, WorkingSet: n, RSS: n, Faults: 10 * n, MajorFaults: 100 * n}}}
	}
	p := Pod{Containers: []Container{of(1, time.Second), of(2, 0)}}
	p.Sum()
	if p.Cgroup.CPU.Usage != 3 || p.Cgroup.Memory.WorkingSet != 3 || !p.Cgroup.At.Equal(at) {
		t.Errorf("%+v", p.Cgroup)
	}
	if m := p.Cgroup.Memory; m.Faults != 30 || m.MajorFaults != 300 || p.Cgroup.Swap != nil {
		t.Errorf("%+v, swap %+v", m, p.Cgroup.Swap)
	}
	for name, tt := range map[string]struct{ a, b, want *Swap }{
		"of one":        {nil, &Swap{2, 20}, &Swap{2, 20}},
		"limited":       {&Swap{1, 10}, &Swap{2, 20}, &Swap{3, 30}},
		"half of it is": {&Swap{1, NoLimit}, &Swap{2, 20}, &Swap{3, NoLimit}},
	} {
		p := Pod{Containers: []Container{of(1, 0), of(2, 0)}}
		p.Containers[0].Cgroup.Swap, p.Containers[1].Cgroup.Swap = tt.a, tt.b
		p.Sum()
		check.Deep(t, p.Cgroup.Swap, tt.want, "swap, %s", name)
	}
	p = Pod{Containers: []Container{of(1, 0), {}}}
	if p.Sum(); p.Cgroup.CPU != nil {
		t.Error("half a sum is none")
	}
	p = Pod{ID: "/kubepods/pod1", Containers: []Container{of(1, 0)}}
	if p.Sum(); p.Cgroup.CPU != nil {
		t.Error("a pod with a cgroup is not summed up")
	}
}

func TestRates(t *testing.T) {
	var last Sample
	known := false
	for i, step := range []struct {
		after time.Duration
		usage time.Duration
		want  string
	}{
		{0, 10 * time.Second, "none"},
		{10 * time.Second, 15 * time.Second, "500000000"},
		{10200 * time.Millisecond, 15100 * time.Millisecond, "500000000"}, // too soon: as before
		{20 * time.Second, 16 * time.Second, "100000000"},
		{30 * time.Second, time.Second, "none"}, // it was made anew
		{31 * time.Second, 2 * time.Second, "1000000000"},
	} {
		c := Cgroup{At: at.Add(step.after), CPU: &CPU{Usage: step.usage}}
		last = Next(last, known, &c, time.Second)
		known = true
		got := "none"
		if c.CPU.Rate != nil {
			text, _ := json.Marshal(*c.CPU.Rate)
			got = string(text)
		}
		check.Equal(t, got, step.want, "step %d: %s nanocores", i, got)
	}
}

func TestSummary(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	disk := func(used uint64) *Disk {
		return &Disk{At: at, Capacity: n(1000), Available: n(500), Used: n(used), InodesUsed: n(1)}
	}
	node := Node{
		Name: "n1", Booted: at, Memory: 4000, HugePages: 100, MaxPIDs: 100, PIDs: 7,
		Cgroup:  Cgroup{At: at, CPU: &CPU{Usage: time.Second, Rate: n(5)}, Memory: &Memory{Usage: 2000, WorkingSet: 1500, Faults: 90, OwnFaults: 9}, Swap: &Swap{Usage: 1, Limit: 10}},
		Network: []Interface{{Name: "cni0"}, {Name: "eth0", RxBytes: 9}},
		Parts:   []Container{{Name: "pods", Cgroup: Cgroup{At: at, Memory: &Memory{WorkingSet: 100, Faults: 60, OwnFaults: 6, MajorFaults: 50, OwnMajorFaults: 5}}}},
		Root:    disk(400), Images: disk(50), Layers: disk(60),
	}
	pods := []Pod{
		{
			Namespace: "ns", Name: "web", UID: "1", Started: at,
			Cgroup:  Cgroup{At: at, CPU: &CPU{Usage: 2}, Memory: &Memory{WorkingSet: 30, Faults: 40}, PIDs: &PIDs{Processes: 4, Threads: 400}, Limits: Limits{Memory: 100}},
			Network: []Interface{{Name: "eth0", TxBytes: 3}}, NetworkAt: at,
			Containers: []Container{
				{Name: "app", Started: at, Cgroup: Cgroup{At: at, Memory: &Memory{WorkingSet: 20}, PIDs: &PIDs{Processes: 1, Threads: 200}}, Rootfs: disk(5), Logs: disk(6)},
				{Name: "side", Started: at, Cgroup: Cgroup{At: at, PIDs: &PIDs{Processes: 2, Threads: 9}}},
			},
			Volumes: []Volume{{Name: "scratch", Local: true, Disk: *disk(7)}, {Name: "data", Namespace: "ns", Claim: "c", Disk: *disk(300), Abnormal: new(true)}},
		},
		{Namespace: "ns", Name: "new"},
	}
	s := Summary(node, pods)
	if s.Node.Network.Name != "eth0" || *s.Node.Network.RxBytes != 9 || len(s.Node.Network.Interfaces) != 2 {
		t.Errorf("network of the node: %+v", s.Node.Network)
	}
	node.Network = []Interface{{Name: "ens3", RxBytes: 9}, {Name: "cni0"}}
	if got := Summary(node, nil).Node.Network; got.Name != "" || got.RxBytes != nil || len(got.Interfaces) != 2 {
		t.Errorf("network of a node without eth0: %+v", got)
	}
	web := s.Pods[0]
	if v := web.VolumeStats; v[0].VolumeHealthStats != nil || v[1].VolumeHealthStats == nil || !v[1].VolumeHealthStats.Abnormal {
		t.Errorf("health of volumes: %+v", v)
	}
	for what, got := range map[string][2]uint64{
		"node, available":      {*s.Node.Memory.AvailableBytes, 2400},
		"node, rate":           {*s.Node.CPU.UsageNanoCores, 5},
		"node, swap":           {*s.Node.Swap.SwapAvailableBytes, 9},
		"node, processes":      {uint64(*s.Node.Rlimit.NumOfRunningProcesses), 7},
		"node, disk":           {*s.Node.Fs.UsedBytes, 400},
		"images":               {*s.Node.Runtime.ImageFs.UsedBytes, 50},
		"layers":               {*s.Node.Runtime.ContainerFs.UsedBytes, 60},
		"node, faults":         {*s.Node.Memory.PageFaults, 9},
		"pods, faults":         {*s.Node.SystemContainers[0].Memory.PageFaults, 6},
		"pods, major faults":   {*s.Node.SystemContainers[0].Memory.MajorPageFaults, 5},
		"pod, faults":          {*web.Memory.PageFaults, 40},
		"pods, available":      {*s.Node.SystemContainers[0].Memory.AvailableBytes, 3900},
		"pod, cpu":             {*web.CPU.UsageCoreNanoSeconds, 2},
		"pod, available":       {*web.Memory.AvailableBytes, 70},
		"pod, processes":       {*web.ProcessStats.ProcessCount, 3},
		"pod, network":         {*web.Network.TxBytes, 3},
		"pod, ephemeral":       {*web.EphemeralStorage.UsedBytes, 5 + 6 + 7},
		"pod, ephemeral files": {*web.EphemeralStorage.InodesUsed, 3},
		"container":            {*web.Containers[0].Memory.WorkingSetBytes, 20},
	} {
		check.Equal(t, got[0], got[1], "%s", what)
	}
	if r := web.VolumeStats[1].PVCRef; r == nil || r.Name != "c" || r.Namespace != "ns" || web.VolumeStats[0].PVCRef != nil {
		t.Errorf("volumes: %+v", web.VolumeStats)
	}
	text, err := json.Marshal(s.Pods[1])
	if err != nil || strings.Contains(string(text), "cpu") || !strings.Contains(string(text), `"containers":[]`) {
		t.Errorf("a pod of which nothing is known: %s %v", text, err)
	}
}
