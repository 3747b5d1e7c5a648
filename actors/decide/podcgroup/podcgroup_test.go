package podcgroup

import (
	"math"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestNames(t *testing.T) {
	const uid = "1a-2b-3c"
	for _, tt := range []struct {
		root   string
		driver Driver
		class  v1.PodQOSClass
		want   string
	}{
		{"", Cgroupfs, v1.PodQOSGuaranteed, "/kubepods/pod1a-2b-3c"},
		{"/", Cgroupfs, v1.PodQOSBurstable, "/kubepods/burstable/pod1a-2b-3c"},
		{"/a/b", Cgroupfs, v1.PodQOSBestEffort, "/a/b/kubepods/besteffort/pod1a-2b-3c"},
		{"/lab-1", Cgroupfs, v1.PodQOSGuaranteed, "/lab-1/kubepods/pod1a-2b-3c"},
		{"", Systemd, v1.PodQOSGuaranteed, "/kubepods.slice/kubepods-pod1a_2b_3c.slice"},
		{"/", Systemd, v1.PodQOSBurstable, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b_3c.slice"},
		{"/a", Systemd, v1.PodQOSBestEffort, "/a.slice/a-kubepods.slice/a-kubepods-besteffort.slice/a-kubepods-besteffort-pod1a_2b_3c.slice"},
		{"/a.slice/a-b.slice", Systemd, v1.PodQOSGuaranteed, "/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-pod1a_2b_3c.slice"},
		{"/x-y", Systemd, v1.PodQOSGuaranteed, "/x_y.slice/x_y-kubepods.slice/x_y-kubepods-pod1a_2b_3c.slice"},
	} {
		s := &Settings{Root: tt.root, Driver: tt.driver}
		n, err := s.PodIn(tt.class, uid)
		if err != nil || n.Path(tt.driver) != tt.want {
			t.Errorf("%s below %q with %v is %s, %v; want %s", tt.class, tt.root, tt.driver, n.Path(tt.driver), err, tt.want)
		}
	}
	check.Equal(t, ParseName("system.slice", Systemd).Path(Systemd), "/system.slice", "system.slice")
	for text, want := range map[string]string{
		"/kube-reserved": "/kube.slice/kube-reserved.slice", "/kube-reserved.slice": "/kube.slice/kube-reserved.slice",
		"/system/foo": "/foo.slice", "/system": "/system.slice", "system.slice": "/system.slice", "a_b": "/a_b.slice",
	} { // order-free: each on its own
		check.Equal(t, ParseReserved(text, Systemd).Path(Systemd), want, "the slice of the reserved cgroup %s", text)
	}
	check.Equal(t, ParseReserved("/a/b-c", Cgroupfs).Path(Cgroupfs), "/a/b-c", "a reserved cgroup in the file system")
	if got := ParseName("/system.slice", Cgroupfs).Path(Cgroupfs); got != "/system.slice" {
		t.Errorf("/system.slice in the file system is %s", got)
	}
}

// TestNoNames: what would lead out of the pod's place, or could not be read back.
func TestNoNames(t *testing.T) {
	for _, uid := range []types.UID{"", "a/b", "..", "../../etc", "a_b", "a b", "a.slice", "ä", "a\n"} {
		for _, d := range []Driver{Cgroupfs, Systemd} {
			s := &Settings{Driver: d}
			if n, err := s.PodIn(v1.PodQOSBurstable, uid); err == nil {
				t.Errorf("UID %q names %s", uid, n.Path(d))
			}
		}
	}
	for _, dir := range []string{"", "pod", "burstable", "cgroup.procs", "pod1.slice", "kubepods-pod1", "crio-pod1", "pod../x"} {
		if uid, is := UIDOf(dir, Cgroupfs); is {
			t.Errorf("directory %q is of pod %q", dir, uid)
		}
	}
	for _, dir := range []string{"kubepods-burstable.slice", "pod1", "cri-containerd-12.scope", "kubepods-pod.slice"} {
		if uid, is := UIDOf(dir, Systemd); is {
			t.Errorf("slice %q is of pod %q", dir, uid)
		}
	}
}

func TestNamesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := types.UID(rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9-]{0,40}`).Draw(t, "uid"))
		d := rapid.SampledFrom([]Driver{Cgroupfs, Systemd}).Draw(t, "driver")
		root := rapid.StringMatching(`(/[a-z][a-z0-9-]{0,5}){0,3}`).Draw(t, "root")
		s := &Settings{Driver: d, Root: root}
		n := check.Value(s.PodIn(rapid.SampledFrom(Classes[:]).Draw(t, "class"), uid))(t)
		dir := n.Path(d)
		for i := len(dir) - 1; i >= 0; i-- {
			if dir[i] == '/' {
				dir = dir[i+1:]
				break
			}
		}
		if got, is := UIDOf(dir, d); !is || got != uid {
			t.Fatalf("%s is read as %q, %t", dir, got, is)
		}
		if d == Systemd {
			if back := ParseName(n.Path(d), d); !reflect.DeepEqual(back, n) {
				t.Fatalf("%s is read as %v, not %v", n.Path(d), back, n)
			}
		}
	})
}

// TestFormulas compares with numbers of the documentation: 1024 for a CPU and 2
// at least; 100 ms; weight 1 + (shares-2)*9999/262142 (KEP-2254).
func TestFormulas(t *testing.T) {
	for milli, want := range map[int64]uint64{0: 2, 1: 2, 2: 2, 3: 3, 10: 10, 100: 102, 250: 256, 1000: 1024, 1500: 1536, 64000: 65536, 256000: 262144, 300000: 262144, 1 << 62: 262144} {
		if got := Shares(milli); got != want {
			t.Errorf("%dm is %d shares, want %d", milli, got, want)
		}
	}
	for milli, want := range map[int64]int64{0: 0, 1: 1000, 10: 1000, 15: 1500, 100: 10000, 1000: 100000, 2500: 250000, 1 << 40: 1<<44 - 1, 1 << 62: 1<<44 - 1} {
		if got := Quota(milli, 100000); got != want {
			t.Errorf("%dm is %d µs in 100 ms, want %d", milli, got, want)
		}
	}
	check.Count(t, Quota(1000, 5000), 5000, "a CPU is %d µs in 5 ms")
	for shares, want := range map[uint64]uint64{0: 1, 2: 1, 102: 4, 256: 10, 1024: 39, 4096: 157, 262144: 10000, 300000: 10000} {
		check.Equal(t, Weight(shares), want, "%d shares weigh", shares)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64Range(0, 300000).Draw(t, "a"), rapid.Uint64Range(0, 300000).Draw(t, "b")
		if a <= b && Weight(a) > Weight(b) || Weight(a) < 1 || Weight(a) > 10000 {
			t.Fatalf("%d weighs %d, %d weighs %d", a, Weight(a), b, Weight(b))
		}
	})
}

// list reads cpu, memory, and others by name.
func list(cpu, memory string, more ...string) v1.ResourceList {
	l := v1.ResourceList{}
	set := func(name, q string) {
		if q != "" {
			l[v1.ResourceName(name)] = resource.MustParse(q)
		}
	}
	set("cpu", cpu)
	set("memory", memory)
	for i := 0; i+1 < len(more); i += 2 {
		set(more[i], more[i+1])
	}
	return l
}

func container(requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func podOf(cs ...v1.Container) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{Containers: cs}} }

const mi = 1 << 20

func TestPodValues(t *testing.T) {
	sidecar := func(c v1.Container) v1.Container {
		c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		return c
	}
	same := func(cpu, memory string) v1.Container { return container(list(cpu, memory), list(cpu, memory)) }
	for _, tt := range []struct {
		name   string
		pod    *v1.Pod
		change func(*Settings)
		class  v1.PodQOSClass
		want   Values
	}{
		{"nothing asked for", podOf(container(nil, nil)), nil, v1.PodQOSBestEffort, Values{CPUShares: 2}},
		{"guaranteed", podOf(same("500m", "64Mi"), same("1", "32Mi")), nil, v1.PodQOSGuaranteed,
			Values{CPUShares: 1536, CPUQuota: 150000, CPUPeriod: 100000, Memory: 96 * mi}},
		{"guaranteed, no quota", podOf(same("500m", "64Mi")), func(s *Settings) { s.NoCPUQuota = true }, v1.PodQOSGuaranteed,
			Values{CPUShares: 512, CPUQuota: -1, CPUPeriod: 100000, Memory: 64 * mi}},
		{"exclusive CPUs", podOf(same("500m", "64Mi"), same("1", "32Mi")), func(s *Settings) { s.NoQuotaOfOwnCPUs = true },
			v1.PodQOSGuaranteed, Values{CPUShares: 1536, CPUQuota: -1, CPUPeriod: 100000, Memory: 96 * mi}},
		{"no CPU of its own", podOf(same("500m", "64Mi")), func(s *Settings) { s.NoQuotaOfOwnCPUs = true },
			v1.PodQOSGuaranteed, Values{CPUShares: 512, CPUQuota: 50000, CPUPeriod: 100000, Memory: 64 * mi}},
		{"another period", podOf(same("500m", "64Mi")), func(s *Settings) { s.CPUPeriod = 10000 }, v1.PodQOSGuaranteed,
			Values{CPUShares: 512, CPUQuota: 5000, CPUPeriod: 10000, Memory: 64 * mi}},
		{"requests alone", podOf(container(list("250m", "64Mi"), nil)), nil, v1.PodQOSBurstable, Values{CPUShares: 256}},
		{"limits of all", podOf(container(list("250m", ""), list("1", "64Mi")), container(nil, list("1", "64Mi"))), nil, v1.PodQOSBurstable,
			Values{CPUShares: 256, CPUQuota: 200000, CPUPeriod: 100000, Memory: 128 * mi}},
		{"one without a memory limit", podOf(container(list("250m", ""), list("1", "64Mi")), container(nil, list("1", ""))), nil, v1.PodQOSBurstable,
			Values{CPUShares: 256, CPUQuota: 200000, CPUPeriod: 100000}},
		{"an init container without limits", &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{container(list("100m", ""), nil)},
			Containers:     []v1.Container{container(list("250m", ""), list("1", "64Mi"))},
		}}, nil, v1.PodQOSBurstable, Values{CPUShares: 256}},
		{"a big init container", &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{container(list("2", ""), list("3", "1Gi"))},
			Containers:     []v1.Container{container(list("250m", ""), list("1", "64Mi"))},
		}}, nil, v1.PodQOSBurstable, Values{CPUShares: 2048, CPUQuota: 300000, CPUPeriod: 100000, Memory: 1024 * mi}},
		{"a sidecar runs beside", &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{sidecar(same("1", "64Mi")), same("1", "64Mi")},
			Containers:     []v1.Container{same("500m", "64Mi")},
		}}, nil, v1.PodQOSGuaranteed, Values{CPUShares: 2048, CPUQuota: 200000, CPUPeriod: 100000, Memory: 128 * mi}},
		{"the pod's own", &v1.Pod{Spec: v1.PodSpec{
			Resources:  &v1.ResourceRequirements{Requests: list("1", "100Mi"), Limits: list("2", "200Mi")},
			Containers: []v1.Container{container(list("250m", ""), nil)},
		}}, nil, v1.PodQOSBurstable, Values{CPUShares: 1024, CPUQuota: 200000, CPUPeriod: 100000, Memory: 200 * mi}},
		{"the pod's own, for memory", &v1.Pod{Spec: v1.PodSpec{
			Resources:  &v1.ResourceRequirements{Limits: list("", "200Mi"), Requests: list("", "200Mi")},
			Containers: []v1.Container{container(list("250m", ""), nil)},
		}}, nil, v1.PodQOSBurstable, Values{CPUShares: 256, Memory: 200 * mi}},
		{"overhead", &v1.Pod{Spec: v1.PodSpec{
			Overhead:   list("250m", "120Mi"),
			Containers: []v1.Container{same("500m", "64Mi")},
		}}, nil, v1.PodQOSGuaranteed, Values{CPUShares: 768, CPUQuota: 75000, CPUPeriod: 100000, Memory: 184 * mi}},
		{"overhead is no limit of its own", &v1.Pod{Spec: v1.PodSpec{
			Overhead:   list("250m", "120Mi"),
			Containers: []v1.Container{container(list("500m", ""), nil)},
		}}, nil, v1.PodQOSBurstable, Values{CPUShares: 768}},
		{"processes", podOf(container(nil, nil)), func(s *Settings) { s.PodPIDs = 100 }, v1.PodQOSBestEffort, Values{CPUShares: 2, PIDs: 100}},
		{"no limit of processes", podOf(container(nil, nil)), func(s *Settings) { s.PodPIDs = -1 }, v1.PodQOSBestEffort, Values{CPUShares: 2}},
		{"huge pages", podOf(container(list("", "", "hugepages-2Mi", "4Mi"), nil)), func(s *Settings) { s.HugePageSizes = []string{"2MB", "1GB"} },
			v1.PodQOSBestEffort, Values{CPUShares: 2, HugePages: []HugePages{{"1GB", 0}, {"2MB", 4 * mi}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Settings{}
			if tt.change != nil {
				tt.change(s)
			}
			check.Equal(t, podspec.QOS(tt.pod), tt.class, "class")
			got := s.PodValues(tt.pod)
			if len(got.HugePages) == 0 {
				got.HugePages = nil
			}
			check.Deep(t, got, tt.want, "got")
		})
	}
}

func TestClassValues(t *testing.T) {
	guaranteed := podOf(container(list("1", "1Gi"), list("1", "1Gi")))
	burstable := podOf(container(list("500m", "512Mi"), nil))
	var sums Sums
	for _, p := range []*v1.Pod{guaranteed, burstable, burstable, podOf(container(nil, nil))} {
		sums.Add(ShareOf(p), 1)
	}
	s := &Settings{Capacity: list("4", "8Gi"), Reserved: list("1", "2Gi"), Enforce: true}
	want := ClassValues{Burstable: Values{CPUShares: 1024}, BestEffort: Values{CPUShares: 2}}
	check.Deep(t, s.ClassValues(sums), want, "got")
	s.MemoryReserved = 50 // of 6Gi allowed: less half of 1Gi, and half of another
	want.Burstable.Memory, want.BestEffort.Memory = 5632*mi, 5120*mi
	check.Deep(t, s.ClassValues(sums), want, "with a reserve: got")
	sums.Add(ShareOf(burstable), -1)
	check.Count(t, s.ClassValues(sums).Burstable.CPUShares, 512, "with one burstable pod: %d shares")
	check.Count(t, s.ClassValues(Sums{}).Burstable.CPUShares, 2, "with none: %d shares")
}

func TestTopAndReservedValues(t *testing.T) {
	s := &Settings{Capacity: list("4", "8Gi", "pid", "30000"), Reserved: list("500m", "2Gi", "pid", "1000")}
	if got, want := s.TopValues(), (Values{CPUShares: 4096, Memory: 8192 * mi, MemoryMin: -1, MemoryLow: -1, PIDs: 30000}); !reflect.DeepEqual(got, want) {
		t.Errorf("not enforced: got %+v, want %+v", got, want)
	}
	s.Enforce = true
	if got, want := s.TopValues(), (Values{CPUShares: 3584, Memory: 6144 * mi, MemoryMin: -1, MemoryLow: -1, PIDs: 29000}); !reflect.DeepEqual(got, want) {
		t.Errorf("enforced: got %+v, want %+v", got, want)
	}
	if got, want := s.ReservedValues(s.Reserved, false), (Values{CPUShares: 512, Memory: 2048 * mi, PIDs: 1000}); !reflect.DeepEqual(got, want) {
		t.Errorf("reserved: got %+v, want %+v", got, want)
	}
	check.Deep(t, s.ReservedValues(s.Reserved, true), (Values{CPUShares: 512}), "reserved, compressible: got")
}

// TestPodsFitTheirClass: the shares of a class are those of its pods together, as
// far as whole numbers allow, and no pod has more than its class.
func TestPodsFitTheirClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Settings
		var sums Sums
		var sum uint64
		n := rapid.IntRange(1, 20).Draw(t, "pods")
		for range n {
			milli := rapid.Int64Range(1, 4000).Draw(t, "cpu")
			p := podOf(container(v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}, nil))
			sums.Add(ShareOf(p), 1)
			v := s.PodValues(p)
			sum += v.CPUShares
			if class := s.ClassValues(sums).Burstable.CPUShares; v.CPUShares > class {
				t.Fatalf("a pod has %d shares, its class %d", v.CPUShares, class)
			}
		}
		class := s.ClassValues(sums).Burstable.CPUShares
		if math.Abs(float64(class)-float64(sum)) > float64(2*n) {
			t.Fatalf("the class has %d shares, its pods %d", class, sum)
		}
	})
}
