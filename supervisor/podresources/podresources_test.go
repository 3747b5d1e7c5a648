package podresources_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/topology"
	"github.com/troupe-dev/troupe/supervisor/podresources"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string, phase v1.PodPhase) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
			Containers:     []v1.Container{{Name: "app"}, {Name: "log"}},
		},
		Status: v1.PodStatus{Phase: phase},
	}
}

// TestMemory: containers with memory of their own, and what there is.
func TestMemory(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	both := []memory.Block{{Nodes: topology.NodesOf(0, 1), Type: v1.ResourceMemory, Size: 5}}
	p := pod("web", v1.PodRunning)
	client, stop := serveWith(t, podresources.Config{
		Socket:            podresources.SocketIn(dir),
		Memory:            func() (memory.State, error) { return memory.State{p.UID: {"app": both}}, nil },
		AllocatableMemory: both,
	}, p)
	defer stop()
	show := func(list []*api.ContainerMemory) (out string) {
		for _, m := range list {
			out += fmt.Sprint(m.GetMemoryType(), " ", m.GetSize(), " of")
			for _, n := range m.GetTopology().GetNodes() {
				out += fmt.Sprint(" ", n.GetID())
			}
		}
		return out
	}
	const want = "memory 5 of 0 1"
	got := check.Value(client.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "shop", PodName: "web"}))(t)
	for _, c := range got.GetPodResources().GetContainers() {
		check.Equal(t, show(c.GetMemory()), map[string]string{"app": want}[c.GetName()], "container %s", c.GetName())
	}
	all, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil || show(all.GetMemory()) != want {
		t.Errorf("allocatable: %q, %v", show(all.GetMemory()), err)
	}
}

// serve starts a server without devices.
func serve(t *testing.T, socket string, pods ...*v1.Pod) (api.PodResourcesListerClient, func()) {
	t.Helper()
	return serveDevices(t, socket, nil, pods...)
}

// serveDevices starts a server on pods and returns a client of it, with what ends the server.
func serveDevices(
	t *testing.T, socket string, devices *devicestate.State, pods ...*v1.Pod,
) (api.PodResourcesListerClient, func()) {
	t.Helper()
	return serveWith(t, podresources.Config{Socket: socket, Devices: func() (*devicestate.State, error) {
		if devices.Lost() != "" {
			return nil, errors.New(devices.Lost())
		}
		return devices, nil
	}}, pods...)
}

func serveWith(t *testing.T, c podresources.Config, pods ...*v1.Pod) (api.PodResourcesListerClient, func()) {
	t.Helper()
	socket := c.Socket
	c.Pods = func(_ context.Context, namespace, name string) (out []*v1.Pod, err error) {
		for _, p := range pods {
			if name == "" || p.Name == name && p.Namespace == namespace {
				out = append(out, p)
			}
		}
		if name == "broken" {
			err = errors.New("nobody answers")
		}
		return out, err
	}
	s := check.Value(podresources.Listen(c))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	conn := check.Value(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	stop := func() {
		check.Error(t, errors.Join(conn.Close(), func() error { cancel(); return <-ended }()))
		if _, err := os.Lstat(socket); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
	return api.NewPodResourcesListerClient(conn), stop
}

func shown(r *api.PodResources) string {
	var names []string
	for _, c := range r.GetContainers() {
		names = append(names, c.GetName())
		if len(c.GetDevices())+len(c.GetCpuIds())+len(c.GetMemory())+len(c.GetDynamicResources()) > 0 {
			names = append(names, "has something")
		}
	}
	return r.GetNamespace() + "/" + r.GetName() + " " + strings.Join(names, ",")
}

func TestPodResources(t *testing.T) {
	dir, err := os.MkdirTemp("", "pr-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := podresources.SocketIn(dir)
	client, stop := serve(t, socket, pod("web", v1.PodRunning), pod("job", v1.PodSucceeded), pod("new", v1.PodPending), pod("bad", v1.PodFailed))
	defer stop()
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	list := check.Value(client.List(t.Context(), &api.ListPodResourcesRequest{}))(t)
	var got []string
	for _, p := range list.GetPodResources() {
		got = append(got, shown(p))
	}
	if want := "shop/web sidecar,app,log; shop/new sidecar,app,log"; strings.Join(got, "; ") != want {
		t.Errorf("%q, want %s", got, want)
	}
	all, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil || len(all.GetDevices())+len(all.GetCpuIds())+len(all.GetMemory()) > 0 {
		t.Errorf("%v %v", all, err)
	}
	one, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "shop", PodName: "web"})
	if err != nil || shown(one.GetPodResources()) != "shop/web sidecar,app,log" {
		t.Errorf("%v %v", one, err)
	}
	for _, c := range []struct {
		namespace, name string
		code            codes.Code
		text            string
	}{
		{"shop", "nobody", codes.NotFound, "pod nobody in namespace shop not found"},
		{"other", "web", codes.NotFound, "pod web in namespace other not found"},
		{"shop", "job", codes.NotFound, "pod job in namespace shop not found"}, // it has ended
		{"", "", codes.NotFound, "pod  in namespace  not found"},
		{"shop", "broken", codes.Unavailable, "nobody answers"},
	} {
		_, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: c.namespace, PodName: c.name})
		if status.Code(err) != c.code || status.Convert(err).Message() != c.text {
			t.Errorf("%s/%s: %v", c.namespace, c.name, err)
		}
	}
}

// TestDevices lists what a kubelet gave to containers, each device once for each of its NUMA nodes.
func TestDevices(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	left := check.Value(os.ReadFile("../../actors/decide/devicestate/testdata/kubelet-1.36.json"))(t)
	state := check.Value(devicestate.Parse(left))(t)
	trains, other := pod("job", v1.PodRunning), pod("other", v1.PodRunning)
	trains.UID = "c7c4a1a0-1f2e-4b52-8f6a-6a6f2b1d1b11"
	trains.Spec.InitContainers = nil
	trains.Spec.Containers = []v1.Container{{Name: "train"}, {Name: "net"}, {Name: "log"}}
	client, stop := serveDevices(t, podresources.SocketIn(dir), state, trains, other)
	defer stop()
	list := check.Value(client.List(t.Context(), &api.ListPodResourcesRequest{}))(t)
	var got []string
	for _, p := range list.GetPodResources() {
		for _, c := range p.GetContainers() {
			for _, d := range c.GetDevices() {
				var numa []int64
				for _, n := range d.GetTopology().GetNodes() {
					numa = append(numa, n.GetID())
				}
				got = append(got, fmt.Sprintf("%s/%s %s %q %v", p.GetName(), c.GetName(), d.GetResourceName(), d.GetDeviceIds(), numa))
			}
		}
	}
	want := `job/train nvidia.com/gpu ["GPU-1a"] [0]; job/train nvidia.com/gpu ["GPU-1b"] [0]; ` +
		`job/train nvidia.com/gpu ["GPU-2a"] [1]; job/net example.com/nic ["nic \"0\"\n"] []`
	check.Equal(t, strings.Join(got, "; "), want, "got")
	all, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil || len(all.GetDevices())+len(all.GetCpuIds())+len(all.GetMemory()) > 0 {
		t.Errorf("allocatable: %v %v", all, err)
	}
}

// TestAllocatableDevices lists each healthy device once for each of its NUMA nodes, too.
func TestAllocatableDevices(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	client, stop := serveWith(t, podresources.Config{Socket: podresources.SocketIn(dir), Inventory: func() devices.Inventory {
		return devices.Inventory{"example.com/nic": {Served: true, Devices: []devices.Device{
			{ID: "anywhere", Healthy: true}, {ID: "between", Healthy: true, Nodes: []int64{0, 1}}, {ID: "broken", Nodes: []int64{0}},
			{ID: "near", Healthy: true, Nodes: []int64{1}},
		}}}
	}})
	defer stop()
	all := check.Value(client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{}))(t)
	got := ""
	for _, d := range all.GetDevices() {
		got += fmt.Sprint(d.GetDeviceIds())
		for _, n := range d.GetTopology().GetNodes() {
			got += fmt.Sprint("@", n.GetID())
		}
	}
	check.Equal(t, got, "[anywhere][between]@0[between]@1[near]@1", "the devices")
}

// TestAlpha: clients of v1alpha1 see the devices of main containers, as from a kubelet.
func TestAlpha(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	left := check.Value(os.ReadFile("../../actors/decide/devicestate/testdata/kubelet-1.36.json"))(t)
	state := check.Value(devicestate.Parse(left))(t)
	trains := pod("job", v1.PodRunning)
	trains.UID = "c7c4a1a0-1f2e-4b52-8f6a-6a6f2b1d1b11"
	trains.Spec.Containers = []v1.Container{{Name: "train"}, {Name: "log"}}
	socket := podresources.SocketIn(dir)
	_, stop := serveDevices(t, socket, state, trains, pod("done", v1.PodSucceeded))
	defer stop()
	conn := check.Value(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	list := check.Value(alpha.NewPodResourcesListerClient(conn).List(t.Context(), &alpha.ListPodResourcesRequest{}))(t)
	var got []string
	for _, p := range list.GetPodResources() {
		for _, c := range p.GetContainers() {
			text := p.GetNamespace() + "/" + p.GetName() + " " + c.GetName()
			for _, d := range c.GetDevices() {
				text += fmt.Sprint(" ", d.GetResourceName(), d.GetDeviceIds())
			}
			got = append(got, text)
		}
	}
	want := "shop/job train nvidia.com/gpu[GPU-1a] nvidia.com/gpu[GPU-1b] nvidia.com/gpu[GPU-2a]; shop/job log; " +
		"shop/done app; shop/done log"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

// TestFlood has a client in a loop: it is told to slow down.
func TestFlood(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	client, stop := serve(t, podresources.SocketIn(dir))
	defer stop()
	refused, want := 0, status.Error(codes.ResourceExhausted, "rejected by rate limit") // clients compare with a kubelet's
	for range 200 {
		if _, err := client.List(t.Context(), &api.ListPodResourcesRequest{}); errors.Is(err, want) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// TestEnded lists pods that have ended, too, and tells of each request.
func TestEnded(t *testing.T) {
	dir := check.Value(os.MkdirTemp("", "pr-"))(t)
	defer os.RemoveAll(dir)
	var mu sync.Mutex
	var asked []string
	socket := podresources.SocketIn(dir)
	client, stop := serveWith(t, podresources.Config{
		Socket: socket, Ended: true, Asked: func(version, method string, failed bool) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, fmt.Sprint(version, " ", method, " ", failed))
		},
	}, pod("web", v1.PodRunning), pod("job", v1.PodSucceeded))
	defer stop()
	list := check.Value(client.List(t.Context(), &api.ListPodResourcesRequest{}))(t)
	var got []string
	for _, p := range list.GetPodResources() {
		got = append(got, shown(p))
	}
	check.Equal(t, strings.Join(got, "; "), "shop/web sidecar,app,log; shop/job sidecar,app,log", "the pods")
	if _, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodNamespace: "shop", PodName: "job"}); err == nil {
		t.Error("a pod that has ended has an answer of its own")
	}
	check.Value(client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{}))(t)
	conn := check.Value(grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	check.Value(alpha.NewPodResourcesListerClient(conn).List(t.Context(), &alpha.ListPodResourcesRequest{}))(t)
	mu.Lock()
	defer mu.Unlock()
	check.Equal(t, strings.Join(asked, "; "),
		"v1 List false; v1 Get true; v1 GetAllocatableResources false; v1alpha1 List false", "the requests")
}

// TestSocket replaces one that was left, and is not kept by a long path or by what cannot be.
func TestSocket(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 100))
	for range 2 {
		s := check.Value(podresources.Listen(podresources.Config{Socket: podresources.SocketIn(long), Pods: none}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Error(t, s.Serve(ctx))
		check.Fatal(t, os.WriteFile(podresources.SocketIn(long), nil, 0o600)) // what was left
	}
	file := filepath.Join(t.TempDir(), "file")
	check.Fatal(t, os.WriteFile(file, nil, 0o600))
	if _, err := podresources.Listen(podresources.Config{Socket: filepath.Join(file, "sock"), Pods: none}); err == nil {
		t.Error("a socket below a file is taken")
	}
	for _, c := range []podresources.Config{{}, {Socket: "s"}} {
		if _, err := podresources.Listen(c); err == nil {
			t.Error(fmt.Sprint(c.Socket, " is taken"))
		}
	}
}

func none(context.Context, string, string) ([]*v1.Pod, error) { return nil, nil }

// TestUnreadableDevices: pods are listed without devices.
func TestUnreadableDevices(t *testing.T) {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "a"}}
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	client, stop := serveDevices(t, filepath.Join(t.TempDir(), "s"), devicestate.Unknown("unreadable"), p)
	defer stop()
	list, err := client.List(t.Context(), &api.ListPodResourcesRequest{})
	if err != nil || len(list.GetPodResources()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	one, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "a", PodNamespace: "default"})
	if err != nil || len(one.GetPodResources().GetContainers()) != 1 {
		t.Errorf("%v, %v", one, err)
	}
}
