package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/tests/check"
)

// quota is the CPU quota of a pod and of its container, in thousandths of a CPU, 0 or less for none.
func (b *bed) quota(t *testing.T, name string) (pod, container int64) {
	t.Helper()
	p := b.get(t, name)
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	of := filepath.Join(b.lab.CgroupRoot(), "kubepods", "pod"+string(p.UID))
	pod, _, err := kernelLimits(of)
	if err != nil {
		t.Fatal(err)
	}
	if container, _, err = kernelLimits(filepath.Join(of, id)); err != nil {
		t.Fatal(err)
	}
	return pod, container
}

// TestResizeOwnCPUs: with the policy dynamic, a Guaranteed pod that shares CPUs is resized to one of its own and back, while
// it runs. It waits for the room of another pod, and the agent is killed with each size.
//
//tier:all a repetition of OwnCPUs and Resize
func TestResizeOwnCPUs(t *testing.T) {
	t.Parallel()
	all, own := twoCPUs(t)
	rest := all.Difference(cpuset.New(own)).String()
	b := newBed(t, "resize-own-cpus", func(s *setup) {
		s.agent.Settings = fmt.Sprintf("cpuManagerPolicy: dynamic\nreservedSystemCPUs: %q\n", strconv.Itoa(all.List()[0]))
	})
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	size := func(cpu string) sizes { return sizes{containers: []v1.ResourceRequirements{limits(cpu, "16Mi")}} }
	b.create(t, b.pod("shared", work("sleep")))
	b.create(t, b.pod("web", changes(work("sleep"), size("500m").spec)))
	// It takes what web leaves of the CPUs that are not the system's.
	b.create(t, b.pod("big", changes(work("sleep"), size(fmt.Sprintf("%dm", (all.Size()-1)*1000-500)).spec)))
	for _, name := range [...]string{"shared", "web", "big"} {
		b.awaitPod(t, name, "is ready", ready)
		b.awaitAllowed(t, name, all.String())
	}
	before := b.get(t, "web").Status.ContainerStatuses[0].ContainerID
	again := func() {
		t.Helper()
		check.Fatal(t, b.Kill(t.Context()))
		b.start(t)
		b.create(t, b.pod("probe", work("sleep"))) // the new agent has taken over when it runs
		b.awaitPod(t, "probe", "is ready", ready)
		b.remove(t, "probe")
		b.awaitGone(t, "probe")
	}

	b.ask(t, "web", size("1"))
	b.awaitPod(t, "web", "waits for room", func(p *v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred && c.ObservedGeneration == p.Generation {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", p.Status.Conditions)
	})
	again()
	b.awaitAllowed(t, "web", all.String())
	b.remove(t, "big")
	check.Error(t, size("1").gave(b.awaitPod(t, "web", "has a CPU", resizeOver)))
	b.awaitAllowed(t, "web", strconv.Itoa(own))
	b.awaitAllowed(t, "shared", rest)
	if pod, c := b.quota(t, "web"); pod > 0 || c > 0 {
		t.Errorf("with a CPU of its own, the quota of the pod is %d and that of the container %d; want none", pod, c)
	}
	b.awaitEvent(t, "web", "ExclusiveCPUsChanged", fmt.Sprintf("container c0 has CPUs %d of its own, and ran on shared ones", own))
	if got := b.ownIDs(t, "web"); len(got) != 1 || got[0] != int64(own) {
		t.Errorf("podresources: %v; want %d", got, own)
	}
	b.create(t, b.pod("late", work("sleep")))
	b.awaitPod(t, "late", "is ready", ready)
	b.awaitAllowed(t, "late", rest)
	again()
	b.awaitAllowed(t, "web", strconv.Itoa(own))
	b.awaitAllowed(t, "shared", rest)

	b.ask(t, "web", size("500m"))
	check.Error(t, size("500m").gave(b.awaitPod(t, "web", "shares CPUs", resizeOver)))
	for _, name := range [...]string{"shared", "web", "late"} {
		b.awaitAllowed(t, name, all.String())
	}
	if pod, c := b.quota(t, "web"); pod != 500 || c != 500 {
		t.Errorf("when it shares CPUs, the quota of the pod is %d and that of the container %d; want 500", pod, c)
	}
	if s := b.get(t, "web").Status.ContainerStatuses[0]; s.ContainerID != before || s.RestartCount != 0 {
		t.Errorf("container %s with %d restarts; want %s", s.ContainerID, s.RestartCount, before)
	}
	b.await(t, "the state file has no CPUs of pods", func() error {
		state, err := os.ReadFile(filepath.Join(b.Root(), "cpu_manager_state"))
		if want := fmt.Sprintf(`{"policyName":"static","defaultCpuSet":%q,"checksum":`, all); err == nil && !strings.HasPrefix(string(state), want) {
			err = fmt.Errorf("state %s; want %s", state, want)
		}
		return err
	})
}
