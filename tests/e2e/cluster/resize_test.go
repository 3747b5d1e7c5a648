package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// resizing is a user with kubectl.
type resizing struct {
	*bed
	kubectl, config string
}

func newResizing(t *testing.T, name string) *resizing {
	t.Helper()
	r := &resizing{bed: started(t, name)}
	repository := check.Value(lab.Repository())(t)
	r.kubectl = check.Value(lab.BuildKubernetes(t.Context(), repository, "kubectl", t.Output()))(t)
	r.config = check.Value(r.plane.Kubeconfig("test-admin", "system:masters"))(t)
	return r
}

// patch is what a user does to resize container app of a pod.
func (r *resizing) patch(t *testing.T, pod, cpu, memory string) {
	t.Helper()
	if out, err := r.try(t, pod, cpu, memory); err != nil {
		t.Fatalf("kubectl patch: %v\n%s", err, out)
	}
}

func (r *resizing) try(t *testing.T, pod, cpu, memory string) (string, error) {
	t.Helper()
	body := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q,"memory":%q},"limits":{"cpu":%q,"memory":%q}}}]}}`, cpu, memory, cpu, memory)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.kubectl, "--kubeconfig", r.config, "-n", r.name, "patch", "pod", pod, "--subresource", "resize", "--patch", body)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func limits(cpu, memory string) v1.ResourceRequirements {
	l := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: l, Limits: l.DeepCopy()}
}

// kernel is what the kernel has of a pod and of its container: thousandths of a CPU and MiB.
func (r *resizing) kernel(p *v1.Pod) (string, error) {
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	of := filepath.Join(r.lab.CgroupRoot(), "kubepods", "pod"+string(p.UID))
	var out []string
	for _, path := range []string{filepath.Join(of, id), of} {
		cpu, memory, err := kernelLimits(path)
		if err != nil {
			return "", err
		}
		out = append(out, fmt.Sprintf("%d/%d", cpu, memory))
	}
	return strings.Join(out, " in "), nil
}

func kernelLimits(path string) (milli, mib int64, err error) {
	var quota, period, memory int64
	read := func(file string, to ...any) {
		text, e := os.ReadFile(file)
		if e == nil {
			_, e = fmt.Sscan(string(text), to...)
		}
		err = errors.Join(err, e)
	}
	if _, e := os.Stat("/sys/fs/cgroup/cgroup.controllers"); e == nil {
		read(filepath.Join("/sys/fs/cgroup", path, "cpu.max"), &quota, &period)
		read(filepath.Join("/sys/fs/cgroup", path, "memory.max"), &memory)
	} else {
		read(filepath.Join("/sys/fs/cgroup/cpu", path, "cpu.cfs_quota_us"), &quota)
		read(filepath.Join("/sys/fs/cgroup/cpu", path, "cpu.cfs_period_us"), &period)
		read(filepath.Join("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"), &memory)
	}
	if err != nil {
		return 0, 0, err
	}
	return quota * 1000 / max(period, 1), memory >> 20, nil
}

// has is nil if a pod has so much by its status, which has the conditions of a resize that are
// wanted, and by the kernel.
func (r *resizing) has(cpu, memory, kernel string, conditions ...string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		if err := ready(p); err != nil {
			return err
		}
		s := &p.Status.ContainerStatuses[0]
		if s.Resources == nil {
			return errors.New("the status says nothing of resources")
		}
		var got []string
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				got = append(got, strings.TrimSpace(string(c.Type)+" "+c.Reason))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(conditions) {
			return fmt.Errorf("conditions %v, want %v", got, conditions)
		}
		if l := s.Resources.Limits; l.Cpu().String() != cpu || l.Memory().String() != memory {
			return fmt.Errorf("limits %s/%s, want %s/%s", l.Cpu(), l.Memory(), cpu, memory)
		}
		is, err := r.kernel(p)
		if err == nil && is != kernel {
			err = fmt.Errorf("the kernel has %s, want %s", is, kernel)
		}
		return err
	}
}

// reasons are those of the events of a pod's resizes, and how often there were.
func (r *resizing) reasons(t *testing.T, pod string) map[string]int {
	t.Helper()
	list := check.Value(
		r.admin.CoreV1().Events(r.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod}))(t)
	out := map[string]int{}
	for _, e := range list.Items {
		if strings.HasPrefix(e.Reason, "Resize") {
			out[e.Reason] += int(max(e.Count, 1))
		}
	}
	return out
}

// TestResize: kubectl gives a pod more and less while it runs. The kernel has it, the status says it,
// nothing is restarted that need not be, an agent that was dead meanwhile does it when it is back, and
// what can't be had now is said and waited for.
//
//tier:real
func TestResize(t *testing.T) {
	t.Parallel()
	r := newResizing(t, "resize")
	r.create(t, r.pod("web", func(s *v1.PodSpec) { s.Containers[0].Resources = limits("100m", "64Mi") }))
	r.create(t, r.pod("restarts", func(s *v1.PodSpec) {
		s.Containers[0].Resources = limits("100m", "64Mi")
		s.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	}))
	r.create(t, r.pod("asks", func(s *v1.PodSpec) {
		s.Containers[0].Resources = limits("100m", "64Mi")
		s.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("32Mi")
		s.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	}))
	for _, name := range []string{"web", "restarts"} {
		r.awaitPod(t, name, "has what it asks for", r.has("100m", "64Mi", "100/64 in 100/64"))
	}
	first := running(r.get(t, "web"))["app"]

	r.patch(t, "web", "200m", "128Mi")
	r.awaitPod(t, "web", "has more", r.has("200m", "128Mi", "200/128 in 200/128"))
	r.patch(t, "web", "50m", "96Mi")
	r.awaitPod(t, "web", "has less", r.has("50m", "96Mi", "50/96 in 50/96"))
	// More than the node has is refused by the apiserver already, which knows what that is.
	if out, err := r.try(t, "web", "1000", "96Mi"); err == nil || !strings.Contains(out, "allocatable") {
		t.Errorf("1000 CPUs: %v\n%s", err, out)
	}
	node := r.node(t)
	free := node.Status.Allocatable.Cpu().MilliValue() - 300
	r.create(t, r.pod("big", func(s *v1.PodSpec) { s.Containers[0].Resources = limits(fmt.Sprintf("%dm", free), "64Mi") }))
	r.awaitPod(t, "big", "is ready", ready)
	r.patch(t, "web", "500m", "96Mi")
	p := r.awaitPod(t, "web", "is told that it has to wait", r.has("50m", "96Mi", "50/96 in 50/96", "PodResizePending Deferred"))
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodResizePending && (!strings.Contains(c.Message, "Node didn't have enough resource: cpu") || c.ObservedGeneration != p.Generation) {
			t.Errorf("the condition says %q of generation %d, the pod is %d", c.Message, c.ObservedGeneration, p.Generation)
		}
	}
	r.remove(t, "big")
	r.awaitPod(t, "web", "has it as soon as there is room", r.has("500m", "96Mi", "500/96 in 500/96"))
	told := func(n int) {
		t.Helper()
		r.await(t, "the events are there", func() error { // before the agent is killed: what it has not written then is lost
			if got := r.reasons(t, "web"); got["ResizeStarted"] != n || got["ResizeCompleted"] != n || got["ResizeDeferred"] != 1 || got["ResizeError"] != 0 {
				return fmt.Errorf("%v", got)
			}
			return nil
		})
	}
	told(3)
	r.kill(t)
	r.patch(t, "web", "150m", "80Mi")
	r.start(t)
	r.awaitPod(t, "web", "has what was asked for while no agent ran", r.has("150m", "80Mi", "150/80 in 150/80"))
	check.Count(t, running(r.get(t, "web"))["app"], first, "the container was %s, now it is %s", first)
	told(4)

	second := running(r.get(t, "restarts"))["app"]
	r.patch(t, "restarts", "200m", "64Mi")
	r.awaitPod(t, "restarts", "has more CPU", r.has("200m", "64Mi", "200/64 in 200/64"))
	check.Equal(t, running(r.get(t, "restarts"))["app"], second, "for CPU the container was restarted")
	r.patch(t, "restarts", "200m", "128Mi")
	p = r.awaitPod(t, "restarts", "has more memory", r.has("200m", "128Mi", "200/128 in 200/128"))
	if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 || running(p)["app"] == second {
		t.Errorf("for memory it was restarted %d times", n)
	}
	r.requestAlone(t)
}

// requestAlone: a container that takes a restart for memory is restarted once if it asks for another
// amount, though its limit stays. An agent that comes later does not do it again.
func (r *resizing) requestAlone(t *testing.T) {
	t.Helper()
	r.awaitPod(t, "asks", "is ready", ready)
	check.Value(
		r.admin.CoreV1().Pods(r.name).Patch(t.Context(), "asks", types.StrategicMergePatchType,
			[]byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"memory":"48Mi"}}}]}}`), metav1.PatchOptions{}, "resize"))(t)
	once := func(p *v1.Pod) error {
		s := &p.Status.ContainerStatuses[0]
		if s.RestartCount != 1 || s.AllocatedResources.Memory().String() != "48Mi" {
			return fmt.Errorf("restarted %d times, allocated %v", s.RestartCount, s.AllocatedResources)
		}
		return ready(p)
	}
	before := running(r.awaitPod(t, "asks", "was restarted", once))["app"]
	r.kill(t)
	r.start(t)
	r.create(t, r.pod("later", nil))
	r.awaitPod(t, "later", "is ready", ready)
	if p := r.get(t, "asks"); once(p) != nil || running(p)["app"] != before {
		t.Errorf("under the next agent the pod is %s: %v", shown(p), once(p))
	}
}

// TestResizeWhole: a pod that asks for something as a whole is resized as a whole (KEP-5419).
//
//tier:real
func TestResizeWhole(t *testing.T) {
	t.Parallel()
	r := newResizing(t, "resize-whole")
	whole := limits("100m", "64Mi")
	r.create(t, r.pod("web", func(s *v1.PodSpec) { s.Resources = &whole }))
	shows := func(cpu, memory, kernel string) func(*v1.Pod) error {
		return func(p *v1.Pod) error {
			if err := ready(p); err != nil {
				return err
			}
			if p.Status.Resources == nil || p.Status.AllocatedResources.Cpu().String() != cpu || p.Status.Resources.Limits.Memory().String() != memory {
				return fmt.Errorf("the status has %v, %v", p.Status.Resources, p.Status.AllocatedResources)
			}
			is, err := r.kernel(p)
			if err == nil && is != kernel {
				err = fmt.Errorf("the kernel has %s, want %s", is, kernel)
			}
			return err
		}
	}
	// A container without limits of its own has those of its pod.
	r.awaitPod(t, "web", "has what it asks for", shows("100m", "64Mi", "100/64 in 100/64"))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.kubectl, "--kubeconfig", r.config, "-n", r.name, "patch", "pod", "web", "--subresource", "resize",
		"--patch", `{"spec":{"resources":{"requests":{"cpu":"200m","memory":"128Mi"},"limits":{"cpu":"200m","memory":"128Mi"}}}}`)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl patch: %v\n%s", err, out)
	}
	r.awaitPod(t, "web", "has more", shows("200m", "128Mi", "200/128 in 200/128"))
}
