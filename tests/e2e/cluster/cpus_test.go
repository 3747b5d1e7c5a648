package cluster

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// allowed are the CPUs that the first process of a pod's container may run on.
func (b *bed) allowed(t *testing.T, p *v1.Pod) (_ string, err error) {
	defer check.Return(&err)
	t.Helper()
	pid := check.Must(b.containerPID(t, p))
	status := check.Must(os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status")))
	for line := range strings.Lines(string(status)) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			return strings.TrimSpace(list), nil
		}
	}
	return "", fmt.Errorf("no CPUs in %q", status)
}

// awaitAllowed waits until a pod's container runs on some CPUs.
func (b *bed) awaitAllowed(t *testing.T, name, want string) {
	t.Helper()
	p := b.get(t, name)
	b.await(t, "pod "+name+" runs on CPUs "+want, func() error {
		got, err := b.allowed(t, p)
		if err == nil && got != want {
			err = fmt.Errorf("it runs on %s", got)
		}
		return err
	})
}

// twoCPUs are the CPUs of this machine, at least two, and the one that a pod gets alone if the first is reserved.
func twoCPUs(t *testing.T) (all cpuset.CPUSet, own int) {
	t.Helper()
	online := check.Value(os.ReadFile("/sys/devices/system/cpu/online"))(t)
	all = check.Value(cpuset.Parse(strings.TrimSpace(string(online))))(t)
	return all, all.List()[1]
}

// TestOwnCPUs: with the static policy, a Guaranteed pod has a CPU alone. What others run on follows when it comes and
// goes, and nothing changes when the agent is killed.
//
//tier:real
func TestOwnCPUs(t *testing.T) {
	t.Parallel()
	all, own := twoCPUs(t)
	rest := all.Difference(cpuset.New(own)).String()
	port := check.Value(lab.FreePort())(t)
	b := newBed(t, "own-cpus", func(s *setup) {
		s.agent.Settings = fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\nreadOnlyPort: %d\n",
			strconv.Itoa(all.List()[0]), port)
	})
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	b.create(t, b.pod("shared", work("sleep")))
	b.awaitPod(t, "shared", "is ready", ready)
	b.awaitAllowed(t, "shared", all.String())

	b.create(t, b.pod("own", changes(work("sleep"), func(s *v1.PodSpec) { s.Containers[0].Resources = limits("1", "16Mi") })))
	p := b.awaitPod(t, "own", "is ready", ready)
	b.awaitAllowed(t, "own", strconv.Itoa(own))
	b.awaitAllowed(t, "shared", rest)
	for _, group := range [...]string{"", strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")} {
		path := filepath.Join(b.lab.CgroupRoot(), "kubepods", "pod"+string(p.UID), group)
		if cpu, _, err := kernelLimits(path); err != nil || cpu > 0 {
			t.Errorf("%s: %d thousandths of a CPU, %v; want no quota", path, cpu, err)
		}
	}
	shown, sum := parsed(t, fetch(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), "")), 0.0
	for _, m := range shown["kubelet_cpu_manager_allocation_per_numa"].GetMetric() {
		sum += m.Gauge.GetValue()
	}
	const aligned, misaligned = "kubelet_container_aligned_compute_resources_count", "kubelet_container_aligned_compute_resources_failure_count"
	cache, cores := one(t, shown, aligned, "scope=container", "boundary=uncore_cache"), one(t, shown, aligned, "scope=container", "boundary=physical_cpu")
	if bad := one(t, shown, misaligned, "scope=container", "boundary=physical_cpu"); sum != 1 || cache != 1 || cores != 0 || bad != 0 {
		t.Errorf("metrics: %v CPUs of all NUMA nodes, %v containers of one cache, %v of whole cores, %v refused", sum, cache, cores, bad)
	}
	b.create(t, b.pod("late", work("sleep")))
	b.awaitPod(t, "late", "is ready", ready)
	b.awaitAllowed(t, "late", rest)
	if got := b.ownIDs(t, "own"); len(got) != 1 || got[0] != int64(own) {
		t.Errorf("podresources: %v; want %d", got, own)
	}

	before := b.get(t, "own").Status.ContainerStatuses[0].ContainerID
	check.Fatal(t, b.Kill(t.Context()))
	b.start(t)
	b.create(t, b.pod("after", work("sleep")))
	b.awaitPod(t, "after", "is ready", ready)
	b.awaitAllowed(t, "after", rest)
	b.awaitAllowed(t, "own", strconv.Itoa(own))
	if s := b.get(t, "own").Status.ContainerStatuses[0]; s.ContainerID != before || s.RestartCount != 0 {
		t.Errorf("container %s with %d restarts; want %s", s.ContainerID, s.RestartCount, before)
	}

	b.remove(t, "own")
	for _, name := range [...]string{"shared", "late", "after"} {
		b.awaitAllowed(t, name, all.String())
	}
	state, err := os.ReadFile(filepath.Join(b.Root(), "cpu_manager_state"))
	if want := fmt.Sprintf(`{"policyName":"static","defaultCpuSet":%q,"checksum":`, all); err != nil || !strings.HasPrefix(string(state), want) {
		t.Errorf("state %s, %v; want %s", state, err, want)
	}
}

// ownIDs are the CPUs that podresources shows for a pod's container.
func (b *bed) ownIDs(t *testing.T, name string) []int64 {
	t.Helper()
	got := check.Value(b.monitor(t).Get(t.Context(),
		&podresources.GetPodResourcesRequest{PodName: name, PodNamespace: b.name}))(t)
	return got.GetPodResources().GetContainers()[0].GetCpuIds()
}
