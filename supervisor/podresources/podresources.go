// Package podresources serves which devices, CPUs and memory the containers of this node have to
// themselves (podresources v1, KEP-606, KEP-2043; v1alpha1 for old clients): monitoring of GPUs and schedulers that
// know NUMA ask it. The answers name the containers, their CPUs with cpuManagerPolicy static, their memory with
// memoryManagerPolicy Static, and their devices of device plugins.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	alpha "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/supervisor/internal/serving"
	"github.com/troupe-dev/troupe/supervisor/internal/unixsocket"
)

// SocketIn is the path of the socket below an agent's root directory: where clients look.
func SocketIn(root string) string { return filepath.Join(root, "pod-resources", "kubelet.sock") }

const (
	// qps and burst are the kubelet's: clients ask a few times a minute.
	qps, burst   = 100, 10
	messageLimit = 64 << 10 // a request is two names
	streamLimit  = 32
	idleLimit    = 5 * time.Minute
	answerLimit  = 10 * time.Second
	endPatience  = time.Second
)

// errTooMany is the kubelet's word for word: its clients compare with it.
var errTooMany = status.Error(codes.ResourceExhausted, "rejected by rate limit")

// Config is what the service is connected to. Socket and Pods must be set.
type Config struct {
	// Socket is the path of the socket. Its directory is made. An existing socket is replaced:
	// the caller must be the only agent.
	Socket string
	// Pods are those of a name, the newest first, or all if the name is empty, with their newest
	// known status. They are not changed.
	Pods func(ctx context.Context, namespace, name string) ([]*v1.Pod, error)
	// Devices are those that containers have; nil for none. Inventory is what device plugins offer; nil for nothing.
	Devices   func() (*devicestate.State, error)
	Inventory func() decide.Inventory
	// Claims are the ResourceClaims that are prepared; nil for none.
	Claims func() ([]claims.Claim, error)
	// CPUs are those that containers have alone; nil if none can have any. Allocatable are all that they can have.
	CPUs        func() (cpus.State, error)
	Allocatable cpuset.CPUSet
	// Memory is that of NUMA nodes which containers have alone; nil if none can have any. AllocatableMemory is all that
	// they can have.
	Memory            func() (memory.State, error)
	AllocatableMemory []memory.Block
	// Ended: List of v1 names pods that have ended, too, as before Kubernetes 1.34.
	Ended bool
	// Asked is told of each request that was not too much, and whether it failed; nil for nobody. It must not block.
	Asked func(version, method string, failed bool)
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Socket == "":
		return errors.New("podresources: no socket")
	case c.Pods == nil:
		return errors.New("podresources: Pods is not set")
	}
	return nil
}

// Server listens, and answers once Serve runs.
type Server struct {
	config   Config
	grpc     *grpc.Server
	listener *unixsocket.Listener
}

// Listen takes the socket.
func Listen(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Server{config: c}
	var err error
	if err = os.MkdirAll(filepath.Dir(c.Socket), 0o750); err == nil {
		s.listener, err = unixsocket.Listen(c.Socket)
	}
	if err != nil {
		return nil, fmt.Errorf("podresources socket %s: %w", c.Socket, err)
	}
	slow := flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	asked := c.Asked
	if asked == nil {
		asked = func(string, string, bool) {}
	}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(messageLimit), grpc.MaxConcurrentStreams(streamLimit), grpc.ConnectionTimeout(answerLimit),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleLimit}),
		grpc.ChainUnaryInterceptor(unixsocket.Contained, func(ctx context.Context, request any, info *grpc.UnaryServerInfo,
			handle grpc.UnaryHandler) (any, error) {
			if !slow.TryAccept() {
				return nil, errTooMany
			}
			ctx, cancel := context.WithTimeout(ctx, answerLimit)
			defer cancel()
			answer, err := handle(ctx, request)
			version, _, _ := strings.Cut(strings.TrimPrefix(info.FullMethod, "/"), ".") // /v1.PodResourcesLister/List
			asked(version, path.Base(info.FullMethod), err != nil)
			return answer, err
		}),
	)
	api.RegisterPodResourcesListerServer(s.grpc, lister{Config: c})
	alpha.RegisterPodResourcesListerServer(s.grpc, alphaLister{lister: lister{Config: c}})
	return s, nil
}

// Serve answers until ctx ends, and removes the socket.
func (s *Server) Serve(ctx context.Context) error {
	err := serving.Until(ctx, func() error { return s.grpc.Serve(s.listener) }, func() {
		cut := time.AfterFunc(endPatience, s.grpc.Stop)
		s.grpc.GracefulStop()
		cut.Stop()
	})
	if err = errors.Join(err, s.listener.Remove()); err != nil {
		return fmt.Errorf("podresources socket %s: %w", s.config.Socket, err)
	}
	return nil
}

// lister answers.
type lister struct {
	api.UnimplementedPodResourcesListerServer
	Config
}

// owned is what containers have alone.
type owned struct {
	cpus    cpus.State
	memory  memory.State
	devices *devicestate.State
	claims  []claims.Claim
}

func (l lister) own() (own owned, err error) {
	if l.CPUs != nil {
		own.cpus, err = l.CPUs()
	}
	if err == nil && l.Memory != nil {
		own.memory, err = l.Memory()
	}
	if err != nil {
		return own, status.Error(codes.Unavailable, err.Error())
	}
	if l.Devices != nil {
		if own.devices, err = l.Devices(); err != nil {
			own.devices = devicestate.Unknown(err.Error()) // as of a damaged file: most pods have no devices
		}
	}
	if l.Claims != nil {
		own.claims, _ = l.Claims() // as above: most pods have no claims
	}
	return own, nil
}

// List implements api.PodResourcesListerServer: pods that have ended have nothing any more, and are not listed unless
// Ended says so.
func (l lister) List(ctx context.Context, _ *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	pods, err := l.Pods(ctx, "", "")
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	own, err := l.own()
	if err != nil {
		return nil, err
	}
	out := &api.ListPodResourcesResponse{}
	for _, p := range pods {
		if l.Ended || !podspec.Finished(p) {
			out.PodResources = append(out.PodResources, l.resources(p, own))
		}
	}
	return out, nil
}

// Get implements api.PodResourcesListerServer: a pod that has ended is not found, as it is not in the list.
func (l lister) Get(ctx context.Context, r *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	var pods []*v1.Pod
	if r.GetPodName() != "" { // it would mean all
		var err error
		if pods, err = l.Pods(ctx, r.GetPodNamespace(), r.GetPodName()); err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
	}
	i := slices.IndexFunc(pods, func(p *v1.Pod) bool { return !podspec.Finished(p) })
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.GetPodName(), r.GetPodNamespace())
	}
	own, err := l.own()
	if err != nil {
		return nil, err
	}
	return &api.GetPodResourcesResponse{PodResources: l.resources(pods[i], own)}, nil
}

// GetAllocatableResources implements api.PodResourcesListerServer: CPUs and memory that containers can have alone,
// and healthy devices.
func (l lister) GetAllocatableResources(
	context.Context, *api.AllocatableResourcesRequest,
) (*api.AllocatableResourcesResponse, error) {
	out := &api.AllocatableResourcesResponse{
		CpuIds: ids(l.Allocatable), Memory: blocks(l.AllocatableMemory),
	}
	if l.Inventory == nil {
		return out, nil
	}
	all := l.Inventory()
	for _, name := range all.Names() {
		for _, d := range all.HealthyOf(name) {
			of := []devicestate.Device{{Resource: name, ID: d.ID, NUMA: devicestate.NoNUMA}}
			for i, node := range d.Nodes {
				of = append(of[:i], devicestate.Device{Resource: name, ID: d.ID, NUMA: node})
			}
			out.Devices = append(out.Devices, devices(of)...)
		}
	}
	return out, nil
}

// resources names the containers that could have something for as long as the pod runs: sidecars and
// the main ones.
func (l lister) resources(p *v1.Pod, own owned) *api.PodResources {
	out, names := &api.PodResources{Name: p.Name, Namespace: p.Namespace}, claims.Names(p)
	for c, kind := range podspec.Lasting(&p.Spec) {
		if kind != podspec.Init {
			out.Containers = append(out.Containers, &api.ContainerResources{
				Name: c.Name, Devices: devices(own.devices.Of(p.UID, c.Name)),
				CpuIds: ids(own.cpus[p.UID][c.Name]), Memory: blocks(own.memory[p.UID][c.Name]),
				DynamicResources: dynamic(p, c, names, own.claims),
			})
		}
	}
	return out
}

func ids(set cpuset.CPUSet) (out []int64) {
	for _, id := range set.List() {
		out = append(out, int64(id))
	}
	return out
}

func blocks(list []memory.Block) (out []*api.ContainerMemory) {
	for _, b := range list {
		one := &api.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: &api.TopologyInfo{}}
		for _, id := range b.Nodes.List() {
			one.Topology.Nodes = append(one.Topology.Nodes, &api.NUMANode{ID: int64(id)})
		}
		out = append(out, one)
	}
	return out
}

// devices lists devices as a kubelet does: each on its own, and once for each of its NUMA nodes.
func devices(list []devicestate.Device) (out []*api.ContainerDevices) {
	for _, d := range list {
		one := &api.ContainerDevices{ResourceName: string(d.Resource), DeviceIds: []string{d.ID}}
		if d.NUMA != devicestate.NoNUMA {
			one.Topology = &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: d.NUMA}}}
		}
		out = append(out, one)
	}
	return out
}
