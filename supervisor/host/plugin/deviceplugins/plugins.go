// Package deviceplugins is the adapter of port.DevicePlugins: it talks to the device plugins of this machine (device
// plugin API v1beta1). Package registry finds those that want to be found, and with them DRA and CSI drivers, while
// registrations are listened to.
//
//	plugin ──Register──► /var/lib/kubelet/device-plugins/kubelet.sock ──┐
//	agent ──GetInfo──► <root>/plugins_registry/*.sock ──────────────────┴──► Registrations
//	agent ──ListAndWatch, Allocate, …──► the plugin's own socket
package deviceplugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
)

const (
	socket = "kubelet.sock"
	// deviceLimit bounds how many devices a plugin lists, idLimit the ID of each in bytes: they are in the checkpoint of
	// all devices and in the status of pods.
	deviceLimit, idLimit = 100_000, 1024
	// resourceLimit bounds how many resources plugins register, pluginLimit how many of one are remembered.
	resourceLimit, pluginLimit = 256, 8
	// maxNode is the highest ID of a NUMA node: decisions about them are made with masks of 64 bits.
	maxNode = 63
)

// Plugins are the device plugins of one agent.
type Plugins struct {
	directory, registry string
	log                 zerolog.Logger
	// drivers is told of DRA drivers.
	drivers func(port.DRADriver)
	// csi is told of CSI drivers.
	csi func(port.CSIDriver)
	// inotify makes what tells of changes in the registry.
	inotify func() (*fsnotify.Watcher, error)

	mu sync.Mutex
	// known are the plugins that registered by the agent's own socket, the oldest first, turns the last registration of
	// each resource.
	known map[v1.ResourceName][]port.DevicePlugin
	turns map[v1.ResourceName]*turn
	// connections are those of plugins whose devices are watched.
	connections map[served]*grpc.ClientConn
	cleaned     bool
}

// served is a resource of a plugin. One plugin may serve several.
type served struct {
	resource v1.ResourceName
	endpoint string
}

var _ port.DevicePlugins = (*Plugins)(nil)

// New makes the adapter for an agent with a directory of device plugins, and a root directory, which has the registry.
// DRA and CSI drivers that register there are refused, but for ServeDRA and ServeCSI.
func New(directory, root string, log zerolog.Logger) *Plugins {
	return &Plugins{
		directory: directory, registry: filepath.Join(root, registry.Directory), log: log,
		inotify: fsnotify.NewWatcher, known: map[v1.ResourceName][]port.DevicePlugin{}, turns: map[v1.ResourceName]*turn{},
		connections: map[served]*grpc.ClientConn{},
	}
}

// ServeDRA has DRA drivers of the registry found too, before anything is called. found is told of them, and of those
// that are lost.
func (p *Plugins) ServeDRA(found func(port.DRADriver)) { p.drivers = found }

// ServeCSI is ServeDRA for CSI drivers.
func (p *Plugins) ServeCSI(found func(port.CSIDriver)) { p.csi = found }

// turn is a registration. cancel ends what it waits for; again: its resource was registered before; over: it has ended.
type turn struct {
	cancel      context.CancelFunc
	again, over bool
}

// begin begins a registration, and ends the one before it of the resource.
func (p *Plugins) begin(ctx context.Context, of v1.ResourceName) (context.Context, *turn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.turns) >= resourceLimit {
		p.forgetGone()
	}
	before := p.turns[of]
	if before == nil && len(p.turns) >= resourceLimit {
		return nil, nil, fmt.Errorf("%d resources are registered; more are not supported", resourceLimit)
	}
	ctx, cancel := context.WithTimeout(ctx, registry.CallLimit)
	t := &turn{cancel: cancel, again: before != nil}
	if before != nil {
		before.cancel()
	}
	p.turns[of] = t
	return ctx, t, nil
}

// learn ends a registration. It counts unless a later one has begun, whose plugin has taken the place.
func (p *Plugins) learn(plugin port.DevicePlugin, turn *turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns[plugin.Resource] != turn {
		return false
	}
	list := slices.DeleteFunc(p.known[plugin.Resource], func(k port.DevicePlugin) bool {
		return k.Endpoint == plugin.Endpoint
	})
	list = append(list, plugin)
	p.known[plugin.Resource], turn.over = list[max(0, len(list)-pluginLimit):], true
	return true
}

// giveUp ends a registration that failed. The plugin that was known before stays.
func (p *Plugins) giveUp(of v1.ResourceName, turn *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turns[of] != turn {
		return
	}
	turn.over = true
	if _, known := p.known[of]; !known {
		delete(p.turns, of)
	}
}

// left forgets a plugin whose list has ended: it counts again when it registers again.
func (p *Plugins) left(plugin port.DevicePlugin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(plugin.Resource, func(k port.DevicePlugin) bool { return k == plugin })
}

// forgetGone forgets plugins without a socket. One that comes back registers again. The caller has locked p.mu.
func (p *Plugins) forgetGone() {
	for name := range p.known { // order-free: each on its own
		p.forget(name, func(k port.DevicePlugin) bool {
			_, err := os.Lstat(k.Endpoint)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}

// forget forgets plugins of a resource, unless one is registering. The caller has locked p.mu.
func (p *Plugins) forget(of v1.ResourceName, is func(port.DevicePlugin) bool) {
	if len(p.known[of]) == 0 || !p.turns[of].over {
		return
	}
	if p.known[of] = slices.DeleteFunc(p.known[of], is); len(p.known[of]) == 0 {
		delete(p.known, of)
		delete(p.turns, of)
	}
}

// clean removes the sockets that plugins of an earlier agent left, as a kubelet does: that is how a plugin learns
// that it has to register again. Files stay, and so does the agent's own socket, which shows that an agent was here.
func (p *Plugins) clean() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cleaned {
		return nil
	}
	entries, err := os.ReadDir(p.directory)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 || e.Name() == socket { // its own is replaced
			continue
		}
		if err := os.Remove(filepath.Join(p.directory, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.cleaned = true
	return nil
}

// valid says why a plugin can't be registered.
func valid(name string, versions ...string) error {
	if !slices.Contains(versions, api.Version) {
		return fmt.Errorf("device plugin API version %s is not supported: this agent supports %s",
			registry.Bounded(strings.Join(versions, ", ")), api.Version)
	}
	if !podspec.IsExtended(v1.ResourceName(name)) {
		return fmt.Errorf("resource name %q is not the name of an extended resource, such as example.com/gpu",
			registry.Bounded(name))
	}
	return nil
}

// Devices implements port.DevicePlugins.
func (p *Plugins) Devices(ctx context.Context, of port.DevicePlugin, event func([]devices.Device), done func(error)) {
	rescue.Do(ctx, func() error {
		defer func() { // also after a panic
			if ctx.Err() == nil {
				p.left(of)
			}
		}()
		return registry.Failure(ctx, "ListAndWatch", string(of.Resource), p.watch(ctx, of, event))
	}, port.Panicked("ListAndWatch", string(of.Resource)), done)
}

func (p *Plugins) watch(ctx context.Context, of port.DevicePlugin, event func([]devices.Device)) error {
	conn, err := registry.Dial(of.Endpoint)
	if err != nil {
		return err
	}
	key := served{of.Resource, of.Endpoint}
	p.mu.Lock()
	p.connections[key] = conn
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		if p.connections[key] == conn {
			delete(p.connections, key)
		}
		p.mu.Unlock()
		conn.Close() //nolint:errcheck // nothing is left to lose
	}()
	stream, err := api.NewDevicePluginClient(conn).ListAndWatch(ctx, &api.Empty{})
	if err != nil {
		return err
	}
	told := false
	return registry.Paced(ctx, func() ([]devices.Device, error) {
		r, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		list, out, err := listed(r.GetDevices())
		if out > 0 && !told {
			told = true
			p.log.Warn().Str("resource", string(of.Resource)).Int("devices", out).Int("limit", idLimit).
				Msg("a device plugin lists devices without an ID, or with one that is too long; they are left out")
		}
		return list, err
	}, func(_, newer []devices.Device) []devices.Device { return newer }, event)
}

// listed are the devices that a plugin lists. Of two with one ID the first counts. out is how many are left out: nobody
// can name them.
func listed(list []*api.Device) (all []devices.Device, out int, err error) {
	if len(list) > deviceLimit {
		return nil, 0, fmt.Errorf("the plugin lists %d devices; at most %d are supported", len(list), deviceLimit)
	}
	all = make([]devices.Device, 0, len(list))
	for _, d := range list {
		if n := len(d.GetID()); n == 0 || n > idLimit {
			out++
			continue
		}
		one := devices.Device{ID: d.GetID(), Healthy: d.GetHealth() == api.Healthy}
		for _, node := range d.GetTopology().GetNodes() {
			if node.GetID() >= 0 && node.GetID() <= maxNode && !slices.Contains(one.Nodes, node.GetID()) {
				one.Nodes = append(one.Nodes, node.GetID())
			}
		}
		slices.Sort(one.Nodes)
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b devices.Device) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b devices.Device) bool { return a.ID == b.ID }), out, nil
}

// call makes one call of a plugin.
func call[T any](
	ctx context.Context, p *Plugins, verb string, of port.DevicePlugin, done func(T, error),
	run func(api.DevicePluginClient) (T, error),
) {
	p.mu.Lock()
	conn := p.connections[served{of.Resource, of.Endpoint}]
	p.mu.Unlock()
	rescue.Ask(ctx, func() (none T, err error) {
		if conn == nil {
			return none, &port.Error{
				Kind: port.Unavailable, Verb: verb, Object: string(of.Resource), Detail: "the device plugin is gone",
			}
		}
		got, err := run(api.NewDevicePluginClient(conn))
		if err != nil {
			return none, registry.Failure(ctx, verb, string(of.Resource), err)
		}
		return got, nil
	}, port.Panicked(verb, string(of.Resource)), done)
}

// Prefer implements port.DevicePlugins.
func (p *Plugins) Prefer(ctx context.Context, of port.DevicePlugin, q devices.Question, done func([]string, error)) {
	call(ctx, p, "GetPreferredAllocation", of, done, func(c api.DevicePluginClient) ([]string, error) {
		r, err := c.GetPreferredAllocation(ctx, &api.PreferredAllocationRequest{
			ContainerRequests: []*api.ContainerPreferredAllocationRequest{{
				AvailableDeviceIDs: q.Available, MustIncludeDeviceIDs: q.Must,
				AllocationSize: int32(min(q.Size, deviceLimit)), //nolint:gosec // bounded
			}},
		})
		if err != nil {
			return nil, err
		}
		if n := len(r.GetContainerResponses()); n != 1 {
			return nil, answers(n)
		}
		return r.ContainerResponses[0].GetDeviceIDs(), nil
	})
}

// Allocate implements port.DevicePlugins.
func (p *Plugins) Allocate(ctx context.Context, of port.DevicePlugin, ids []string, done func([]byte, error)) {
	call(ctx, p, "Allocate", of, done, func(c api.DevicePluginClient) ([]byte, error) {
		r, err := c.Allocate(ctx, &api.AllocateRequest{
			ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}},
		})
		if err != nil {
			return nil, err
		}
		if n := len(r.GetContainerResponses()); n != 1 || r.ContainerResponses[0] == nil {
			return nil, answers(n)
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(r.ContainerResponses[0])
	})
}

func answers(n int) error {
	return fmt.Errorf("the plugin answered for %d containers, and was asked for one", n)
}

// PreStart implements port.DevicePlugins.
func (p *Plugins) PreStart(ctx context.Context, of port.DevicePlugin, ids []string, done func(error)) {
	call(ctx, p, "PreStartContainer", of, func(_ struct{}, err error) { done(err) },
		func(c api.DevicePluginClient) (struct{}, error) {
			_, err := c.PreStartContainer(ctx, &api.PreStartContainerRequest{DevicesIds: ids})
			return struct{}{}, err
		})
}
