// Package csidrivers is the adapter of port.CSI: it talks to the CSI drivers of this machine (CSI spec v1), and keeps
// the directories of their volumes as a kubelet does. Package registry finds them.
//
//	<root>/plugins/kubernetes.io/csi/<driver>/<SHA-256 of the handle>/globalmount     staged, vol_data.json beside it
//	<root>/pods/<uid>/volumes/kubernetes.io~csi/<PersistentVolume>/mount              published, vol_data.json beside it
//
// The notes are written before the driver is called, and removed after the last call has worked: what an agent that was
// killed may have left is always found.
//
//	registry ──Found──► there ──socket gone──► gone
//
// A driver that has registered is called until its socket is gone. Each call opens the connection if it is not there.
package csidrivers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/supervisor/internal/csicode"
)

// Host is what the adapter needs of this machine.
type Host interface {
	// Mounts is the mount table.
	Mounts() ([]mounts.Mount, error)
	// GiveToGroup gives the files of a mounted volume to a group, in a child process.
	GiveToGroup(ctx context.Context, path string, group int64, onMismatch bool, walked port.Walked) error
	// UnmountSubPaths unmounts what a pod's containers have mounted of its volumes.
	UnmountSubPaths(ctx context.Context, uid string) error
	// NoteClaim notes where a volume of a pod is, for statistics. ForgetClaims forgets those of a pod.
	NoteClaim(uid, volume, path string)
	ForgetClaims(uid string)
}

// Config is what the adapter is made of.
type Config struct {
	// Root is the agent's root directory.
	Root string
	Host Host
	Log  zerolog.Logger
	// Patience is how long a driver may take for a call. What is done here with a volume may take longer.
	Patience time.Duration
	// Called is told of each call of a driver: the full name of the method, the name of the gRPC code, and how long it
	// took. It must not block.
	Called func(driver, method, code string, took time.Duration)
	// Measured is told that a driver has said how full a volume is, and how long that took. It must not block.
	Measured func(driver string, took time.Duration)
}

// Drivers are the CSI drivers of one agent.
type Drivers struct {
	Config
	// staged is plugins/kubernetes.io/csi, pods is the directory of all pods. Nothing below them leads out of them.
	staged, pods *agentdir.Dir

	mu sync.Mutex
	// instances are those that registered, the latest last.
	instances []*instance
	// listeners get what is told.
	listeners registry.Listeners[port.CSIDriver]
	// places are the publications.
	places map[decide.Target]*place
	closed bool
}

// instance is a process of a driver.
type instance struct {
	port.CSIDriver
	conn *grpc.ClientConn
}

var _ port.CSI = (*Drivers)(nil)

// askPatience is how long a driver may take to say what it can. Until then a call has done nothing.
const askPatience = 15 * time.Second

// Found notes a driver that has registered, or whose socket is gone.
func (d *Drivers) Found(found port.CSIDriver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.latest(found.Name)
	d.instances = slices.DeleteFunc(d.instances, func(i *instance) bool {
		same := i.Name == found.Name && i.Endpoint == found.Endpoint
		if same {
			i.conn.Close() //nolint:errcheck // nothing is left to lose
		}
		return same
	})
	if !found.Gone && !d.closed {
		conn, err := registry.Dial(found.Endpoint, grpc.WithConnectParams(registry.Reconnect))
		if err != nil {
			d.Log.Warn().Str("driver", found.Name).Str("socket", registry.Bounded(found.Endpoint)).
				Str("error", registry.Bounded(err.Error())).Msg("cannot connect to the CSI driver")
		} else {
			d.instances = append(d.instances, &instance{CSIDriver: found, conn: conn})
		}
	}
	now := port.CSIDriver{Name: found.Name, Gone: true}
	if i := d.latest(found.Name); i != nil {
		now = i.CSIDriver
	}
	if before != nil && !found.Gone && before.Endpoint != found.Endpoint {
		d.Log.Warn().Str("driver", found.Name).Str("socket", registry.Bounded(found.Endpoint)).
			Str("before", registry.Bounded(before.Endpoint)).
			Msg("a CSI driver of the same name is registered already: the later one is called. " +
				"That is as it should be while a driver is replaced; otherwise remove one of them")
	}
	if now.Gone && before == nil {
		return
	}
	d.listeners.Tell(now)
}

// latest is the instance of a driver that counts, nil for none. With mu.
func (d *Drivers) latest(name string) *instance {
	for _, i := range slices.Backward(d.instances) {
		if i.Name == name {
			return i
		}
	}
	return nil
}

// Drivers implements port.CSI.
func (d *Drivers) Drivers(ctx context.Context, event func(port.CSIDriver), done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.instances {
		if d.latest(i.Name) == i {
			event(i.CSIDriver)
		}
	}
	d.listeners.Listen(ctx, &d.mu, "CSI", event, done)
}

// Close ends all connections.
func (d *Drivers) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.instances {
		i.conn.Close() //nolint:errcheck // nothing is left to lose
	}
	d.instances, d.closed = nil, true
	d.staged.Root.Close() //nolint:errcheck // nothing is held
	d.pods.Root.Close()   //nolint:errcheck // nothing is held
}

// connection is that to a driver.
func (d *Drivers) connection(name string) (*grpc.ClientConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.latest(name); i != nil {
		return i.conn, nil
	}
	return nil, hostcall.Failf(port.NotCalled, "CSI driver %s is not registered on this node", name)
}

// node is the node service of a driver. Its errors say what a call may have done (port.CSIOutcome).
type node struct {
	csi.NodeClient
	name string
	caps map[csi.NodeServiceCapability_RPC_Type]bool
}

// reach connects to a driver and asks what it can.
func (d *Drivers) reach(ctx context.Context, name string) (*node, error) {
	conn, err := d.connection(name)
	if err != nil {
		return nil, err
	}
	n := &node{
		NodeClient: csi.NewNodeClient(counted{conn, name, d.Patience, d.Called}), name: name,
		caps: map[csi.NodeServiceCapability_RPC_Type]bool{},
	}
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	got, err := n.NodeGetCapabilities(asking, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, hostcall.Failf(port.NotCalled, "CSI driver %s does not answer NodeGetCapabilities: %s", name,
			registry.Bounded(err.Error()))
	}
	for _, c := range got.GetCapabilities() {
		n.caps[c.GetRpc().GetType()] = true
	}
	return n, nil
}

// can reports a capability.
func (n *node) can(c csi.NodeServiceCapability_RPC_Type) bool { return n.caps[c] }

// counted bounds each call, and tells of it.
type counted struct {
	*grpc.ClientConn
	name     string
	patience time.Duration
	called   func(driver, method, code string, took time.Duration)
}

// Invoke implements grpc.ClientConnInterface.
func (c counted) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	err := c.ClientConn.Invoke(ctx, method, args, reply, opts...)
	c.called(c.name, method, status.Code(err).String(), time.Since(began))
	return err
}

// failure names a call that failed. Once ctx has ended, whatever came may not be the driver's.
func (n *node) failure(ctx context.Context, verb string, err error) *port.Error {
	kind, text := port.Unavailable, err.Error()
	if s, is := status.FromError(err); is {
		text, kind = s.Message(), csicode.Kind(s.Code())
		text = "rpc error: code = " + s.Code().String() + " desc = " + text
	}
	if ctx.Err() != nil {
		kind = hostcall.KindOf(ctx.Err())
	}
	return &port.Error{Kind: kind, Verb: verb, Object: n.name, Detail: registry.Bounded(text)}
}

// refused cleans after a call that had no effect, if it was the first of its kind. If that can't be done, something is
// left, and the call does not count as one without effect.
func (n *node) refused(verb string, err error, fresh bool, clean func() error) error {
	if !fresh || port.CSIOutcome(err) != decide.Refused {
		return err
	}
	left := clean()
	if left == nil {
		return err
	}
	text := err.Error()
	if e, is := errors.AsType[*port.Error](err); is {
		text = e.Detail
	}
	return &port.Error{Kind: port.Unavailable, Verb: verb, Object: n.name,
		Detail: text + "; what it left can't be removed: " + registry.Bounded(left.Error())}
}

// NodeInfo implements port.CSI.
func (d *Drivers) NodeInfo(ctx context.Context, of port.CSIDriver, done func(decide.Info, error)) {
	hostcall.Get(ctx, "NodeGetInfo", of.Name, func(ctx context.Context) (decide.Info, error) {
		conn, err := d.connection(of.Name)
		if err != nil {
			return decide.Info{}, err
		}
		n := &node{NodeClient: csi.NewNodeClient(counted{conn, of.Name, d.Patience, d.Called}), name: of.Name}
		r, err := n.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		if err != nil {
			return decide.Info{}, n.failure(ctx, "NodeGetInfo", err)
		}
		return decide.Info{
			NodeID: r.GetNodeId(), MaxVolumes: r.GetMaxVolumesPerNode(), Topology: r.GetAccessibleTopology().GetSegments(),
		}, nil
	}, done)
}
