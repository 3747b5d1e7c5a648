package simcri

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/tests/check"
)

// served is a runtime behind a socket, and clients as crictl and a kubelet have them.
type served struct {
	*Runtime
	ctx     context.Context
	runtime runtimev1.RuntimeServiceClient
	images  runtimev1.ImageServiceClient
}

func serve(t *testing.T) *served {
	t.Helper()
	r := check.Value(
		New(Config{Clock: kernel.WallClock{}, Rand: streams(1), Latencies: flat(), Bandwidth: maxBandwidth}))(t)
	socket := filepath.Join(t.TempDir(), "s")
	listener := check.Value(net.Listen("unix", socket))(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, r) }()
	conn := check.Value(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() {
		cancel()
		check.Error(t, <-ended)
		check.Error(t, conn.Close())
	})
	return &served{r, ctx, runtimev1.NewRuntimeServiceClient(conn), runtimev1.NewImageServiceClient(conn)}
}

func podConfig(name string, annotations map[string]string) *runtimev1.PodSandboxConfig {
	return &runtimev1.PodSandboxConfig{
		Metadata:     &runtimev1.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		LogDirectory: "/logs/" + name,
		Labels:       map[string]string{"app": name, "io.kubernetes.pod.uid": "uid-" + name},
		Annotations:  annotations,
	}
}

func (s *served) running(t *testing.T, name string, annotations map[string]string) (sandbox, id string) {
	t.Helper()
	s.MakeImagePresent(testImage, RegistryImage{SizeBytes: 100})
	pod := podConfig(name, annotations)
	box := check.Value(s.runtime.RunPodSandbox(s.ctx, &runtimev1.RunPodSandboxRequest{Config: pod}))(t)
	c := check.Value(s.runtime.CreateContainer(s.ctx, &runtimev1.CreateContainerRequest{
		PodSandboxId: box.GetPodSandboxId(), SandboxConfig: pod,
		Config: &runtimev1.ContainerConfig{
			Metadata: &runtimev1.ContainerMetadata{Name: "app", Attempt: 2},
			Image:    &runtimev1.ImageSpec{Image: testImage, UserSpecifiedImage: testImage},
			Labels:   map[string]string{"x": "y"}, Annotations: map[string]string{"a": "b"}, LogPath: "app/2.log",
		},
	}))(t)
	check.Value(s.runtime.StartContainer(s.ctx, &runtimev1.StartContainerRequest{ContainerId: c.GetContainerId()}))(t)
	return box.GetPodSandboxId(), c.GetContainerId()
}

func TestServedKeepsLabelsAndAnnotations(t *testing.T) {
	s := serve(t)
	sandbox, id := s.running(t, "web", map[string]string{"note": "this"})
	box := check.Value(s.runtime.PodSandboxStatus(s.ctx, &runtimev1.PodSandboxStatusRequest{PodSandboxId: sandbox}))(t)
	if st := box.GetStatus(); st.GetLabels()["app"] != "web" || st.GetAnnotations()["note"] != "this" || st.GetNetwork().GetIp() == "" {
		t.Errorf("sandbox is %v", st)
	}
	c := check.Value(s.runtime.ContainerStatus(s.ctx, &runtimev1.ContainerStatusRequest{ContainerId: id}))(t).GetStatus()
	if len(c.GetLabels()) != 1 || c.GetLabels()["x"] != "y" || c.GetAnnotations()["a"] != "b" || c.GetMetadata().GetAttempt() != 2 ||
		c.GetLogPath() != "/logs/web/app/2.log" || c.GetImage().GetUserSpecifiedImage() != testImage {
		t.Errorf("container is %v", c)
	}
}

// TestServedFilters: by truncated ID, state and labels, as crictl asks.
func TestServedFilters(t *testing.T) {
	s := serve(t)
	sandbox, id := s.running(t, "web", nil)
	_, other := s.running(t, "db", nil)
	check.Value(s.runtime.StopContainer(s.ctx, &runtimev1.StopContainerRequest{ContainerId: other[:10]}))(t)
	for _, c := range []struct {
		filter *runtimev1.ContainerFilter
		want   []string
	}{
		{nil, []string{other, id}}, // in order of pod UID
		{&runtimev1.ContainerFilter{Id: id[:8]}, []string{id}},
		{&runtimev1.ContainerFilter{PodSandboxId: sandbox}, []string{id}},
		{&runtimev1.ContainerFilter{State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_EXITED}}, []string{other}},
		{&runtimev1.ContainerFilter{LabelSelector: map[string]string{"x": "z"}}, nil},
	} {
		var got []string
		for _, k := range check.Value(s.runtime.ListContainers(s.ctx, &runtimev1.ListContainersRequest{Filter: c.filter}))(t).GetContainers() {
			got = append(got, k.GetId())
		}
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(c.want), "filter %v gives %v, want %v", c.filter, got, c.want)
	}
	boxes := check.Value(s.runtime.ListPodSandbox(s.ctx, &runtimev1.ListPodSandboxRequest{Filter: &runtimev1.PodSandboxFilter{
		LabelSelector: map[string]string{"app": "web"},
		State:         &runtimev1.PodSandboxStateValue{State: runtimev1.PodSandboxState_SANDBOX_READY},
	}}))(t).GetItems()
	if len(boxes) != 1 || boxes[0].GetId() != sandbox {
		t.Errorf("sandboxes are %v", boxes)
	}
}

func TestServedStatsAndImages(t *testing.T) {
	s := serve(t)
	_, id := s.running(t, "web", map[string]string{"sim.troupe.dev/memory": "5Mi", "sim.troupe.dev/cpu-millicores": "250"})
	stats := check.Value(s.runtime.ContainerStats(s.ctx, &runtimev1.ContainerStatsRequest{ContainerId: id}))(t).GetStats()
	if stats.GetMemory().GetWorkingSetBytes().GetValue() != 5<<20 || stats.GetCpu().GetUsageNanoCores().GetValue() != 250e6 {
		t.Errorf("stats are %v", stats)
	}
	if fs := check.Value(s.images.ImageFsInfo(s.ctx, &runtimev1.ImageFsInfoRequest{}))(t).GetImageFilesystems(); fs[0].GetUsedBytes().GetValue() != 100 {
		t.Errorf("image filesystem is %v", fs)
	}
	check.Value(s.images.PullImage(s.ctx, &runtimev1.PullImageRequest{
		Image: &runtimev1.ImageSpec{Image: "sized:1"}, SandboxConfig: podConfig("p", map[string]string{"sim.troupe.dev/image-size": "7Ki"}),
	}))(t)
	img := check.Value(
		s.images.ImageStatus(s.ctx, &runtimev1.ImageStatusRequest{Image: &runtimev1.ImageSpec{Image: "sized:1"}}))(t).GetImage()
	if img.GetSize() != 7<<10 || img.GetRepoTags()[0] != "docker.io/library/sized:1" {
		t.Errorf("image is %v", img)
	}
}

func TestServedErrors(t *testing.T) {
	s := serve(t)
	s.cfg.Registry.Withdraw("gone:1")
	s.running(t, "web", nil)
	_, err := s.runtime.RunPodSandbox(s.ctx, &runtimev1.RunPodSandboxRequest{Config: podConfig("web", nil)})
	if want := `failed to reserve sandbox name "web_default_uid-web_0": name "web_default_uid-web_0" is reserved for `; status.Code(err) != codes.Unknown ||
		len(status.Convert(err).Message()) <= len(want) || status.Convert(err).Message()[:len(want)] != want {
		t.Errorf("the name twice: %v", err)
	}
	for _, c := range []struct {
		what string
		code codes.Code
		call func() error
	}{
		{"no metadata", codes.InvalidArgument, func() error {
			_, err := s.runtime.RunPodSandbox(s.ctx, &runtimev1.RunPodSandboxRequest{})
			return err
		}},
		{"no such container", codes.NotFound, func() error {
			_, err := s.runtime.ContainerStatus(s.ctx, &runtimev1.ContainerStatusRequest{ContainerId: "none"})
			return err
		}},
		{"no such image", codes.NotFound, func() error {
			_, err := s.images.PullImage(s.ctx, &runtimev1.PullImageRequest{Image: &runtimev1.ImageSpec{Image: "gone:1"}})
			return err
		}},
		{"attach", codes.Unimplemented, func() error {
			_, err := s.runtime.Attach(s.ctx, &runtimev1.AttachRequest{})
			return err
		}},
		{"pod stats", codes.Unimplemented, func() error {
			_, err := s.runtime.PodSandboxStats(s.ctx, &runtimev1.PodSandboxStatsRequest{})
			return err
		}},
		{"killed", codes.Unavailable, func() error {
			s.Kill()
			_, err := s.runtime.Version(s.ctx, &runtimev1.VersionRequest{})
			return err
		}},
	} {
		if err := c.call(); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", c.what, err, c.code)
		}
	}
}
