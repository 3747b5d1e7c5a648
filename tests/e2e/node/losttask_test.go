package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// TestLostTask shows what an agent does of which containerd lost the task of a container, as it does
// when an agent is killed while it starts one: all but that container goes, the pod can come back at
// once, the log says once what to do, and that helps. It needs minutes and some luck, so it is run with
// TROUPE_LOSE=1 alone; tests/scenarios has the same with a runtime that always refuses.
//
//tier:all a measure of containerd, run with TROUPE_LOSE=1
func TestLostTask(t *testing.T) {
	lab.Asked(t, "TROUPE_LOSE", "it needs minutes and some luck")
	onEach(t, func(t *testing.T, release lab.Release) {
		b := started(t, release)
		pod := restarts("p", "Always", "sleep")
		b.apply(t, "p.yaml", pod)
		before := b.awaitRunning(t, "p")
		b.awaitLines(t, "p", 1)
		check.Fatal(t, b.Stop(t.Context()))
		lost := b.loseTask(t, before)
		b.start(t)
		b.awaitRunning(t, "p")

		b.remove(t, "p.yaml")
		b.onlyLost(t, before, lost)
		b.apply(t, "p.yaml", pod)
		if after := b.awaitRunning(t, "p"); after.UID != before.UID {
			t.Fatalf("the same manifest made pod %s, and then %s", before.UID, after.UID)
		}
		b.awaitLines(t, "p", 2)
		b.remove(t, "p.yaml")
		b.onlyLost(t, before, lost)
		// Of the container and of its sandbox, by each agent.
		if n := strings.Count(b.Log(), "cannot remove the remains of a pod"); n < 1 || n > 4 {
			t.Errorf("the log says %d times that something can't be removed:\n%s", n, b.LogTail(4000))
		}
		if advice := "ctr -n k8s.io tasks delete --force " + lost; !strings.Contains(b.Log(), advice) {
			t.Errorf("the log does not say %q:\n%s", advice, b.LogTail(4000))
		}

		check.Fatal(t, b.lab.Kill(t.Context()))
		b.await(t, "the agent says that the runtime is down", func() error {
			view, err := b.Pods(t.Context())
			if err == nil && view.Runtime == nil {
				err = errors.New("it does not")
			}
			return err
		})
		check.Fatal(t, b.lab.Start(t.Context()))
		b.awaitGone(t, "p", before.UID)
	})
}

// loseTask has containerd lose the task of a further container of a running pod, whose agent does
// not run.
func (b *bed) loseTask(t *testing.T, pod Pod) (id string) {
	t.Helper()
	world := b.look(t).Of("p")
	if len(world.Sandboxes) != 1 || len(world.Containers) != 1 {
		t.Fatalf("the pod has %v", world)
	}
	sandbox, main := world.Sandboxes[0], world.Containers[0]
	config := &runtimeapi.PodSandboxConfig{
		Metadata: sandbox.Metadata, LogDirectory: t.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: filepath.Join(b.lab.CgroupRoot(), "kubepods/besteffort/pod"+pod.UID)},
	}
	id, err := b.lab.LoseTask(t.Context(), sandbox.Id, config, func(n int) *runtimeapi.ContainerConfig {
		labels := maps.Clone(main.Labels)
		labels["io.kubernetes.container.name"] = "further" + strconv.Itoa(n)
		return &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: labels["io.kubernetes.container.name"]},
			Image:    main.Image, Labels: labels, Annotations: main.Annotations, LogPath: fmt.Sprint(n, ".log"),
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
		}
	})
	switch {
	case err != nil:
		t.Fatal(err)
	case id == "":
		t.Fatal("containerd lost no task: try again")
	}
	return id
}

// onlyLost waits until of the pod nothing is left but the lost container and its sandbox.
func (b *bed) onlyLost(t *testing.T, pod Pod, lost string) {
	t.Helper()
	b.await(t, "all of the pod is gone but the container that was lost", func() error {
		view := check.Must(b.Pods(t.Context()))
		if p, there := view.Pod("p"); there {
			return fmt.Errorf("it is listed: %+v", p)
		}
		world := b.look(t).Of("p")
		if len(world.Sandboxes) != 1 || len(world.Ready()) > 0 || len(world.Containers) != 1 || world.Containers[0].Id != lost {
			return fmt.Errorf("the runtime has %v", world)
		}
		for _, dir := range []string{
			filepath.Join(b.Root(), "pods", pod.UID), filepath.Join(b.Logs(), "default_"+pod.Name+"_"+pod.UID),
			filepath.Join("/sys/fs/cgroup", b.lab.CgroupRoot(), "kubepods/besteffort/pod"+pod.UID),
			filepath.Join("/sys/fs/cgroup/memory", b.lab.CgroupRoot(), "kubepods/besteffort/pod"+pod.UID),
		} {
			if _, err := os.Stat(dir); err == nil {
				return fmt.Errorf("%s is there", dir)
			}
		}
		return nil
	})
}
