// Package dradrivers is the adapter of port.DRADrivers: it talks to the drivers of dynamic resource allocation on this
// machine (DRA plugin API v1 and v1beta1). Package registry finds them.
//
//	registry ──Found──► connecting ──connected──► there ──connection or socket gone──► gone
//	                      │ ▲ └─────────────────────────────────┐ │                     ▲
//	                      │ └──────────connection gone──────────┴─┘                     │
//	                      └────────────────can't be connected to────────────────────────┘
//
// While a driver is updated, two of its processes may be registered. The later one that is connected counts.
package dradrivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
)

const (
	// deviceLimit bounds how many devices, requests of one or CDI names of one a driver may say of a claim. The API
	// allows 32 devices.
	deviceLimit = 1024
	// answerLimit bounds what a driver says of a claim, in bytes: it is in the checkpoint of all claims.
	answerLimit = 64 << 10
)

// Drivers are the DRA drivers of one agent.
type Drivers struct {
	log    zerolog.Logger
	called func(driver, method, code string, took time.Duration)
	mu     sync.Mutex
	// instances are the processes that registered, the latest last; shown is what was told last of each driver.
	instances []*instance
	shown     map[string]port.DRADriver
	// listeners get what is told.
	listeners registry.Listeners[port.DRADriver]
	closed    bool
	all       sync.WaitGroup
}

// instance is a process of a driver.
type instance struct {
	port.DRADriver
	conn      *grpc.ClientConn
	cancel    context.CancelFunc
	connected bool
	// failed: it could not be connected to.
	failed bool
}

var _ port.DRADrivers = (*Drivers)(nil)

// New makes the adapter. Found has to be called with what is in the plugin registry. called is told of each call of a
// driver: the full name of the method, the name of the gRPC code, and how long it took. It must not block.
func New(log zerolog.Logger, called func(driver, method, code string, took time.Duration)) *Drivers {
	return &Drivers{log: log, called: called, shown: map[string]port.DRADriver{}}
}

// Found notes a driver that has registered, or whose socket is gone.
func (d *Drivers) Found(found port.DRADriver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := func(i *instance) bool { return i.Name == found.Name && i.Endpoint == found.Endpoint }
	for _, i := range d.instances {
		if same(i) {
			i.cancel()
		}
	}
	d.instances = slices.DeleteFunc(d.instances, same)
	if !found.Gone && !d.closed {
		d.connect(found)
	}
	d.show(found.Name)
}

// show tells of a driver what is new. With mu.
func (d *Drivers) show(name string) {
	now, failed := port.DRADriver{Name: name, Gone: true}, false
	for _, i := range d.instances {
		if i.Name != name {
			continue
		}
		failed = failed || i.failed
		if i.connected {
			now = i.DRADriver
		}
	}
	was, known := d.shown[name]
	if was == now || !known && now.Gone && !failed {
		return
	}
	d.shown[name] = now
	d.listeners.Tell(now)
}

// Drivers implements port.DRADrivers.
func (d *Drivers) Drivers(ctx context.Context, event func(port.DRADriver), done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, shown := range d.shown { // order-free: each on its own
		event(shown)
	}
	d.listeners.Listen(ctx, &d.mu, "DRA", event, done)
}

// Close ends all connections.
func (d *Drivers) Close() {
	d.mu.Lock()
	for _, i := range d.instances {
		i.cancel()
	}
	d.instances, d.closed = nil, true
	d.mu.Unlock()
	d.all.Wait()
}

// Prepare implements port.DRADrivers.
func (d *Drivers) Prepare(
	ctx context.Context, of port.DRADriver, objects []claims.Object, done func(map[types.UID]claims.Answer, error),
) {
	method := api.DRAPlugin_NodePrepareResources_FullMethodName
	if of.Service == beta.DRAPluginService { // its messages have the same encoding
		method = beta.DRAPlugin_NodePrepareResources_FullMethodName
	}
	var r api.NodePrepareResourcesResponse
	d.call(ctx, "NodePrepareResources", method, of, &api.NodePrepareResourcesRequest{Claims: named(objects)}, &r,
		func(err error) { answer(done, err, r.GetClaims(), prepared) })
}

// Unprepare implements port.DRADrivers.
func (d *Drivers) Unprepare(
	ctx context.Context, of port.DRADriver, objects []claims.Object, done func(map[types.UID]claims.Answer, error),
) {
	method := api.DRAPlugin_NodeUnprepareResources_FullMethodName
	if of.Service == beta.DRAPluginService {
		method = beta.DRAPlugin_NodeUnprepareResources_FullMethodName
	}
	var r api.NodeUnprepareResourcesResponse
	d.call(ctx, "NodeUnprepareResources", method, of, &api.NodeUnprepareResourcesRequest{Claims: named(objects)}, &r,
		func(err error) { answer(done, err, r.GetClaims(), unprepared) })
}

// answer says what a driver has answered for each claim.
func answer[T any](
	done func(map[types.UID]claims.Answer, error), err error, all map[string]T, of func(T) claims.Answer,
) {
	if err != nil {
		done(nil, err)
		return
	}
	out := make(map[types.UID]claims.Answer, len(all))
	for uid, c := range all { // order-free: a map again
		out[types.UID(uid)] = of(c)
	}
	done(out, nil)
}

const (
	// healthCounts is how long a report counts if the driver does not say, longest the most that it may say.
	healthCounts, longest = 30 * time.Second, 24 * time.Hour
	// reportLimit bounds how many devices are in a report, nameLimit the names of devices and pools in bytes
	// (resource.k8s.io API).
	reportLimit, nameLimit = claims.MaxReports, 253
)

// Health implements port.DRADrivers.
func (d *Drivers) Health(
	ctx context.Context, of port.DRADriver, event func([]claims.Report), done func(error),
) {
	const verb = "NodeWatchResources"
	d.reach(ctx, verb, of, done, func(conn *grpc.ClientConn) error {
		var err error
		for _, method := range healthMethods {
			if err = watchHealth(ctx, conn, method, event); status.Code(err) != codes.Unimplemented {
				break
			}
		}
		switch {
		case status.Code(err) == codes.Unimplemented:
			err = &port.Error{Kind: port.Unsupported, Verb: verb, Object: of.Name, Detail: "it has no health service"}
		case errors.Is(err, io.EOF):
			err = &port.Error{Kind: port.Unavailable, Verb: verb, Object: of.Name, Detail: "the driver ended it"}
		default:
			err = registry.Failure(ctx, verb, of.Name, err)
		}
		return err
	})
}

// healthMethods are the versions of the health service, the best first. Their messages have the same encoding.
var healthMethods = [...]string{
	"/v1.DRAResourceHealth/NodeWatchResources", health.DRAResourceHealth_NodeWatchResources_FullMethodName,
}

func watchHealth(ctx context.Context, conn *grpc.ClientConn, method string, event func([]claims.Report)) error {
	ctx, cancel := context.WithCancel(ctx) // it ends the stream
	defer cancel()
	stream, err := conn.NewStream(ctx, &health.DRAResourceHealth_ServiceDesc.Streams[0], method)
	if err != nil {
		return err
	}
	// A stream that has ended says why when it is read.
	if err := stream.SendMsg(&health.NodeWatchResourcesRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return registry.Paced(ctx, func() ([]claims.Report, error) {
		r := &health.NodeWatchResourcesResponse{}
		if err := stream.RecvMsg(r); err != nil {
			return nil, err
		}
		return reports(r.GetDevices()), nil
	}, newest, event)
}

// newest are the last reports of each device, at most reportLimit.
func newest(older, newer []claims.Report) (out []claims.Report) {
	has := map[[2]string]bool{}
	for _, r := range slices.Concat(newer, older) {
		if key := [2]string{r.Pool, r.Device}; !has[key] && len(out) < reportLimit {
			has[key] = true
			out = append(out, r)
		}
	}
	return out
}

// reports are what a driver says of devices, without those that no ResourceSlice can have.
func reports(all []*health.DeviceHealth) []claims.Report {
	out := make([]claims.Report, 0, min(len(all), reportLimit))
	for _, d := range all[:min(len(all), reportLimit)] {
		if len(d.GetDevice().GetPoolName()) > nameLimit || len(d.GetDevice().GetDeviceName()) > nameLimit {
			continue
		}
		r := claims.Report{
			Pool: d.GetDevice().GetPoolName(), Device: d.GetDevice().GetDeviceName(),
			Health: v1.ResourceHealthStatusUnknown, Message: healthMessage(d.GetMessage()), For: healthCounts,
		}
		switch d.GetHealth() {
		case health.HealthStatus_HEALTHY:
			r.Health = v1.ResourceHealthStatusHealthy
		case health.HealthStatus_UNHEALTHY:
			r.Health = v1.ResourceHealthStatusUnhealthy
		case health.HealthStatus_UNKNOWN: // as it is
		}
		if s := d.GetHealthCheckTimeoutSeconds(); s > 0 {
			r.For = time.Duration(min(s, int64(longest/time.Second))) * time.Second
		}
		out = append(out, r)
	}
	return out
}

func named(objects []claims.Object) []*api.Claim {
	out := make([]*api.Claim, len(objects))
	for i, o := range objects {
		out[i] = &api.Claim{Namespace: o.Namespace, Name: o.Name, Uid: string(o.UID)}
	}
	return out
}

// unprepared and prepared are what a driver says of one claim.
func unprepared(c *api.NodeUnprepareResourceResponse) claims.Answer {
	return claims.Answer{Error: registry.Bounded(c.GetError())}
}

func prepared(c *api.NodePrepareResourceResponse) claims.Answer {
	if c.GetError() != "" {
		return claims.Answer{Error: registry.Bounded(c.GetError())}
	}
	if n := len(c.GetDevices()); n > deviceLimit {
		return claims.Answer{Error: fmt.Sprintf("the driver lists %d devices; at most %d are supported", n, deviceLimit)}
	}
	if n := proto.Size(c); n > answerLimit {
		return claims.Answer{Error: fmt.Sprintf("the driver has answered with %d bytes; at most %d are supported", n,
			answerLimit)}
	}
	var out []claims.Device
	for _, d := range c.GetDevices() {
		if len(d.GetRequestNames()) > deviceLimit || len(d.GetCdiDeviceIds()) > deviceLimit {
			return claims.Answer{Error: fmt.Sprintf("the driver lists more than %d requests or CDI devices of device %q",
				deviceLimit, registry.Bounded(d.GetDeviceName()))}
		}
		out = append(out, claims.Device{
			Pool: d.GetPoolName(), Name: d.GetDeviceName(), Share: types.UID(d.GetShareId()),
			Requests: d.GetRequestNames(), CDI: d.GetCdiDeviceIds(),
		})
	}
	return claims.Answer{Devices: out}
}

// healthMessage is a message as a status takes it: the apiserver refuses a status with a longer one.
func healthMessage(text string) string {
	const most, cut = v1.ResourceHealthMessageMaxLength, "…"
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		text = strings.ToValidUTF8(text[:most-len(cut)], "") + cut
	}
	return text
}

// reach gives done what use, with the connection to a driver, gives beside the caller, or that the driver is gone.
func (d *Drivers) reach(
	ctx context.Context, verb string, of port.DRADriver, done func(error), use func(*grpc.ClientConn) error,
) {
	d.mu.Lock()
	defer d.mu.Unlock()
	work := func() error {
		return &port.Error{Kind: port.Unavailable, Verb: verb, Object: of.Name, Detail: "the DRA driver is gone"}
	}
	for _, i := range d.instances {
		if i.Name == of.Name && i.Endpoint == of.Endpoint {
			work = func() error { return use(i.conn) }
			break
		}
	}
	rescue.Do(ctx, work, port.Panicked(verb, of.Name), done)
}

// call makes one call of a driver.
func (d *Drivers) call(
	ctx context.Context, verb, method string, of port.DRADriver, request, response any, done func(error),
) {
	d.reach(ctx, verb, of, done, func(conn *grpc.ClientConn) error {
		began := time.Now()
		err := conn.Invoke(ctx, method, request, response)
		d.called(of.Name, method, status.Code(err).String(), time.Since(began))
		if err != nil {
			return registry.Failure(ctx, verb, of.Name, err)
		}
		return nil
	})
}
