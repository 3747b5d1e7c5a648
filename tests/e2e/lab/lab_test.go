package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPod drives one pod by raw CRI calls from pull to removal, on each release.
//
//tier:all a test of the tests' own lab
func TestPod(t *testing.T) {
	for _, release := range TestedReleases() {
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			l := ForTest(t, release)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()

			before := l.Registry().BlobReads()
			pod := runPod(ctx, t, l, "web", WebImage)
			if l.Registry().BlobReads() == before {
				t.Error("no blob was read from the registry: the pull was not a real one")
			}
			get(ctx, t, "http://"+pod.ip+":8080/healthz")
			usage, err := l.Usage()
			if err != nil || usage.ShimCount != 1 || usage.Containerd == 0 || usage.RSS == 0 {
				t.Errorf("usage %+v, %v; want one shim and some CPU time", usage, err)
			}

			check.Fatal(t, l.RemovePods(ctx))
			check.Error(t, Eventually(ctx, 10*time.Second, "nothing is left of the pod", func() error {
				left := l.Leaks()
				return check.That(len(left) == 0, "%v", left)
			}))
		})
	}
}

// TestKill shows that containers outlive a containerd that is killed, and that Cleanup removes
// them, also when containerd is dead and cannot be asked.
//
//tier:all a test of the tests' own lab
func TestKill(t *testing.T) {
	for i, release := range TestedReleases() {
		hostPort := int32(38080 + i)
		t.Run(string(release), func(t *testing.T) {
			t.Parallel()
			l := ForTest(t, release)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			port := &runtimeapi.PortMapping{ContainerPort: 8080, HostPort: hostPort, HostIp: "127.0.0.1"}
			pod := runPod(ctx, t, l, "web", WebImage, port)
			if rules := hostPortRules(ctx, t, l); len(rules) == 0 {
				t.Error("the host port has no rules, so that their removal is not tested")
			}

			check.Fatal(t, l.Kill(ctx))
			get(ctx, t, "http://"+pod.ip+":8080/healthz")
			check.Fatal(t, l.Start(ctx))
			status, err := l.Runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: pod.container})
			if err != nil || status.Status.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
				t.Fatalf("after a restart: %v, %v; want running", status, err)
			}

			check.Fatal(t, l.Kill(ctx))
			if err := l.removeByForce(ctx); err != nil {
				t.Errorf("remove by force: %v", err)
			}
			check.None(t, append(l.Leaks(), hostPortRules(ctx, t, l)...), "left behind")
		})
	}
}

// TestOrphan shows that Cleanup also ends a process that a runtime left frozen in the cgroup of a container.
//
//tier:all a test of the tests' own lab
func TestOrphan(t *testing.T) {
	l := ForTest(t, Containerd1)
	orphan := exec.Command("sleep", "1000")
	check.Fatal(t, orphan.Start())
	t.Cleanup(func() { orphan.Process.Kill() }) //nolint:errcheck // it ought to be dead
	path := l.CgroupRoot() + "/kubepods/besteffort/podlost/container"
	check.Fatal(t, cgroup.Join(path, orphan.Process.Pid))
	for _, dir := range CgroupDirs(path) {
		err := os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("FROZEN"), 0)
		if err != nil && strings.Contains(dir, "/freezer/") {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	check.Fatal(t, l.Cleanup(t.Context()))
	<-ended //nolint:errcheck // it was killed
}

//tier:all a test of the tests' own lab
func TestOneLabPerDirectory(t *testing.T) {
	Need(t, Containerd1.Needs()...)
	dir := t.TempDir()
	registry := check.Value(NewRegistry())(t)
	defer registry.Close()
	config := Config{Dir: dir, Release: Containerd1, Registry: registry, NodeNetwork: true}
	first := check.Value(New(t.Context(), config))(t)
	check.Fails(t, check.Err(New(t.Context(), config)), "a second lab in the same directory was not refused")
	check.Error(t, first.Close())
	again, err := New(t.Context(), config)
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	check.Error(t, again.Cleanup(t.Context()))
}

//tier:all a test of the tests' own lab
func TestEvents(t *testing.T) {
	l := ForTest(t, Containerd2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream := check.Value(l.Runtime().GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}))(t)
	pod := runPod(ctx, t, l, "web", WebImage)
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatalf("no event says that the container started: %v", err)
		}
		if event.ContainerId == pod.container && event.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT {
			return
		}
	}
}

type rawPod struct{ sandbox, container, ip string }

// runPod pulls the image and runs one container of it in a new sandbox.
func runPod(ctx context.Context, t *testing.T, l *Lab, name, image string, ports ...*runtimeapi.PortMapping) rawPod {
	t.Helper()
	pod := makePod(ctx, t, l, name, image, ports...)
	if _, err := l.Runtime().StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: pod.container}); err != nil {
		t.Fatal("start container: ", err)
	}
	return pod
}

// makePod is runPod but for the start of the container.
func makePod(ctx context.Context, t *testing.T, l *Lab, name, image string, ports ...*runtimeapi.PortMapping) rawPod {
	t.Helper()
	sandboxConfig := podConfig(l, name, ports...)
	check.Fatal(t, os.MkdirAll(sandboxConfig.LogDirectory, 0o755))
	sandbox, err := l.Runtime().RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandboxConfig})
	if err != nil {
		t.Fatal("run sandbox: ", err)
	}
	pulled, err := l.Images().PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}})
	if err != nil {
		t.Fatal("pull image: ", err)
	}
	created, err := l.Runtime().CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId:  sandbox.PodSandboxId,
		SandboxConfig: sandboxConfig,
		Config:        containerConfig("main", pulled.ImageRef),
	})
	if err != nil {
		t.Fatal("create container: ", err)
	}
	status, err := l.Runtime().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox.PodSandboxId})
	if err != nil || status.Status.GetNetwork().GetIp() == "" {
		t.Fatalf("sandbox status: %v, %v; want an IP", status, err)
	}
	return rawPod{sandbox.PodSandboxId, created.ContainerId, status.Status.Network.Ip}
}

func podConfig(l *Lab, name string, ports ...*runtimeapi.PortMapping) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"},
		LogDirectory: filepath.Join(l.Dir(), "logs", name),
		PortMappings: ports,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{CgroupParent: l.CgroupRoot()},
	}
}

func containerConfig(name, image string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: image},
		LogPath:  name + ".log",
		Linux:    &runtimeapi.LinuxContainerConfig{},
	}
}

// get asks url until it answers 200.
func get(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	check.Fatal(t, Eventually(ctx, 10*time.Second, url, func() error { return Serves(ctx, url, "") }))
}

// hostPortRules are the rules for the lab's host ports.
func hostPortRules(ctx context.Context, t *testing.T, l *Lab) []string {
	t.Helper()
	text := check.Value(output(ctx, "", nil, "iptables-save", "-t", "nat"))(t)
	var rules []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, l.network.Bridge) {
			rules = append(rules, line)
		}
	}
	return rules
}
