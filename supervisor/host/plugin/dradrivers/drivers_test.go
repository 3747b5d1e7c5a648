package dradrivers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"
	beta "k8s.io/kubelet/pkg/apis/dra/v1beta1"
	regapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers/drivertest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// rig is the adapter, with a registry that is watched.
type rig struct {
	*testing.T
	*dradrivers.Drivers
	root   string
	events chan port.DRADriver
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigTold(t, func(found func(port.DRADriver)) func(port.DRADriver) { return found })
}

// newRigTold is newRig, and what the registry finds goes through told.
func newRigTold(t *testing.T, told func(found func(port.DRADriver)) func(port.DRADriver)) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "dra") // a short path: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, root: root, Drivers: dradrivers.New(zerolog.Nop(), func(string, string, string, time.Duration) {}), events: make(chan port.DRADriver, 10)}
	check.Fatal(t, os.MkdirAll(filepath.Join(root, registry.Directory), 0o750))
	plugins := deviceplugins.New(filepath.Join(root, "device-plugins"), root, zerolog.Nop())
	plugins.ServeDRA(told(r.Found))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	plugins.Registrations(ctx, func(port.DevicePlugin) {}, func(err error) { ended <- err })
	r.Drivers.Drivers(ctx, func(d port.DRADriver) { r.events <- d }, func(err error) { ended <- err })
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; port.KindOf(err) != port.Canceled {
				t.Error(err)
			}
		}
		r.Close()
		check.Error(t, os.RemoveAll(root))
		goleak.VerifyNone(t)
	})
	return r
}

// serve starts a driver, whose sockets have this name.
func (r *rig) serve(d *drivertest.Driver, name string) {
	r.Helper()
	check.Fatal(r, d.Serve(filepath.Join(r.root, registry.Directory, name), filepath.Join(r.root, name)))
	r.Cleanup(d.Stop)
}

func (r *rig) next() port.DRADriver {
	r.Helper()
	return check.Receive(r, r.events)
}

type answer struct {
	of  map[types.UID]claims.Answer
	err error
}

// calls makes a call and waits for its answer.
func (r *rig) calls(
	run func(context.Context, port.DRADriver, []claims.Object, func(map[types.UID]claims.Answer, error)), d port.DRADriver,
	names ...string,
) (map[types.UID]claims.Answer, error) {
	r.Helper()
	var of []claims.Object
	for _, n := range names {
		of = append(of, claims.Object{UID: types.UID("uid-" + n), Namespace: "ns", Name: n})
	}
	got := make(chan answer, 1)
	run(r.Context(), d, of, func(a map[types.UID]claims.Answer, err error) { got <- answer{a, err} })
	a := check.Receive(r, got)
	return a.of, a.err
}

// gives is a driver whose claims get one device.
func gives(c *api.Claim) (*api.NodePrepareResourceResponse, error) {
	switch c.GetName() {
	case "none":
		return nil, nil
	case "bad":
		return &api.NodePrepareResourceResponse{Error: "broken"}, nil
	case "worse":
		return nil, errors.New("no hardware")
	case "many":
		return &api.NodePrepareResourceResponse{Devices: make([]*api.Device, 2000)}, nil
	case "long":
		return &api.NodePrepareResourceResponse{Error: strings.Repeat("é", 10000)}, nil
	case "wide":
		return &api.NodePrepareResourceResponse{Devices: []*api.Device{{CdiDeviceIds: make([]string, 2000)}}}, nil
	}
	return &api.NodePrepareResourceResponse{Devices: []*api.Device{{
		PoolName: "node", DeviceName: "d-" + c.GetName(), RequestNames: []string{"one"}, CdiDeviceIds: []string{"v/c=" + c.GetName()},
	}}}, nil
}

// TestDriver: a driver of each version registers, is told so, is called, and goes.
func TestDriver(t *testing.T) {
	for _, service := range []string{api.DRAPluginService, beta.DRAPluginService} {
		t.Run(service, func(t *testing.T) {
			r := newRig(t)
			driver := &drivertest.Driver{
				Name: "gpu.example.com", Services: []string{"v0.Old", service}, Beta: service == beta.DRAPluginService, Devices: gives,
				Unprepared: func(c *api.Claim) string { return strings.TrimPrefix(c.GetName(), "a") },
			}
			r.serve(driver, "g.sock")
			d := r.next()
			want := port.DRADriver{Name: "gpu.example.com", Endpoint: filepath.Join(r.root, "g.sock"), Service: service}
			check.Fatal(t, check.Is(d, want, "it"))
			check.Until(r, "the notice", func() bool { return driver.Notified() != nil })
			if n := driver.Notified(); !n.GetPluginRegistered() {
				t.Error(n)
			}
			got, err := r.calls(r.Prepare, d, "a", "bad", "none")
			if text := fmt.Sprint(got); err != nil ||
				text != "map[uid-a:{[{node d-a  [one] [v/c=a]}] } uid-bad:{[] broken}]" {
				t.Errorf("%s, %v", text, err)
			}
			got, err = r.calls(r.Unprepare, d, "a", "bad")
			if text := fmt.Sprint(got); err != nil || text != "map[uid-a:{[] } uid-bad:{[] bad}]" {
				t.Errorf("%s, %v", text, err)
			}
			if c := driver.Calls(); !slices.Equal(c, []string{
				"prepare ns/a", "prepare ns/bad", "prepare ns/none", "unprepare ns/a", "unprepare ns/bad",
			}) {
				t.Errorf("the driver got %v", c)
			}
			driver.Stop()
			if gone := r.next(); !gone.Gone || gone.Name != d.Name {
				t.Errorf("%+v", gone)
			}
			if _, err := r.calls(r.Prepare, d, "a"); port.KindOf(err) != port.Unavailable {
				t.Errorf("of a driver that is gone: %v", err)
			}
		})
	}
}

// TestRubbish: what no driver may say is bounded, and an error of its claim or call.
func TestRubbish(t *testing.T) {
	r := newRig(t)
	r.serve(&drivertest.Driver{Name: "gpu.example.com", Devices: gives}, "g.sock")
	d := r.next()
	for name, want := range map[string]string{
		"many": "lists 2000 devices", "wide": "more than 1024 requests or CDI devices", "long": "é…",
	} {
		got, err := r.calls(r.Prepare, d, name)
		a := got[types.UID("uid-"+name)]
		if err != nil || !strings.Contains(a.Error, want) || len(a.Error) > 3000 || len(a.Devices) > 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	check.Says(t, check.Err(r.calls(r.Prepare, d, "a", "worse")), "no hardware", "a call that fails")
}

// TestAHangingCall ends with its context.
func TestAHangingCall(t *testing.T) {
	r := newRig(t)
	asked, release := make(chan struct{}), make(chan struct{})
	r.serve(&drivertest.Driver{Name: "gpu.example.com", Devices: func(*api.Claim) (*api.NodePrepareResourceResponse, error) {
		close(asked)
		<-release
		return nil, nil
	}}, "g.sock")
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	r.Prepare(ctx, r.next(), []claims.Object{{UID: "a"}}, func(_ map[types.UID]claims.Answer, err error) { got <- err })
	<-asked
	cancel()
	if err := <-got; port.KindOf(err) != port.Canceled {
		t.Error(err)
	}
}

// TestRefused: what is no driver is told so.
func TestRefused(t *testing.T) {
	r := newRig(t)
	for i, c := range []struct {
		driver *drivertest.Driver
		want   string
	}{
		{&drivertest.Driver{Name: "Not a name"}, "DRA driver name"},
		{&drivertest.Driver{Name: "gpu.example.com", Services: []string{"v9.DRAPlugin"}}, "v9.DRAPlugin"},
	} {
		r.serve(c.driver, fmt.Sprintf("%d.sock", i))
		check.Until(r, "the refusal", func() bool { return c.driver.Notified() != nil })
		if n := c.driver.Notified(); n.GetPluginRegistered() || !strings.Contains(n.GetError(), c.want) {
			t.Errorf("%v, want %q", n, c.want)
		}
	}
	check.AtMost(t, len(r.events), 0, "one was registered")
}

// TestUpdate: of two processes of a driver the later counts, and the earlier again when it ends.
func TestUpdate(t *testing.T) {
	r := newRig(t)
	old, young := &drivertest.Driver{Name: "gpu.example.com"}, &drivertest.Driver{Name: "gpu.example.com"}
	r.serve(old, "old.sock")
	r.next()
	r.serve(young, "young.sock")
	if d := r.next(); filepath.Base(d.Endpoint) != "young.sock" || d.Gone {
		t.Errorf("%+v", d)
	}
	young.Stop()
	if d := r.next(); filepath.Base(d.Endpoint) != "old.sock" || d.Gone {
		t.Errorf("%+v", d)
	}
	old.Stop()
	if d := r.next(); !d.Gone {
		t.Errorf("%+v", d)
	}
	again := make(chan port.DRADriver, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r.Drivers.Drivers(ctx, func(d port.DRADriver) { again <- d }, func(err error) { ended <- err })
	if d := <-again; !d.Gone {
		t.Errorf("who listens later is told %+v", d)
	}
	cancel()
	if err := <-ended; port.KindOf(err) != port.Canceled {
		t.Error(err)
	}
}

// TestKilled: a driver that is killed leaves its sockets. It is there again when it listens again.
func TestKilled(t *testing.T) {
	r := newRig(t)
	driver := &drivertest.Driver{Name: "gpu.example.com"}
	r.serve(driver, "g.sock")
	d := r.next()
	driver.Kill()
	if gone := r.next(); !gone.Gone {
		t.Errorf("%+v", gone)
	}
	check.Value(os.Stat(d.Endpoint))(t)
	r.serve(driver, "g.sock")
	check.Equal(t, r.next(), d, "it")
}

// TestKilledIsToldFirst: that a driver is gone is said before it is there again, however long that takes. Else it would be
// gone until its next restart.
func TestKilledIsToldFirst(t *testing.T) {
	coming, told := make(chan struct{}, 2), make(chan bool, 3)
	r := newRigTold(t, func(found func(port.DRADriver)) func(port.DRADriver) {
		return func(d port.DRADriver) {
			if d.Gone {
				<-coming // the first time
				select {
				case <-coming: // too early
				case <-time.After(100 * time.Millisecond):
				}
			} else {
				coming <- struct{}{}
			}
			found(d)
			told <- d.Gone
		}
	})
	driver := &drivertest.Driver{Name: "gpu.example.com"}
	r.serve(driver, "g.sock")
	first := <-told
	driver.Kill()
	r.serve(driver, "g.sock")
	if second, third := <-told, <-told; first || !second || third {
		t.Errorf("gone: %v, then %v, then %v", first, second, third)
	}
}

// TestUnresponsive: a driver that registers and can't be connected to is gone, until it can.
func TestUnresponsive(t *testing.T) {
	r := newRig(t)
	own := filepath.Join(r.root, "late.sock")
	registrar := &plugintest.Plugin{Info: &regapi.PluginInfo{
		Type: regapi.DRAPlugin, Name: "gpu.example.com", Endpoint: own, SupportedVersions: []string{api.DRAPluginService},
	}}
	check.Fatal(t, registrar.Serve(filepath.Join(r.root, registry.Directory, "registrar.sock")))
	defer registrar.Stop()
	check.Fatal(t, check.Is(r.next(), port.DRADriver{Name: "gpu.example.com", Gone: true}, "it"))
	r.serve(&drivertest.Driver{Name: "gpu.example.com"}, "late.sock")
	if d := r.next(); d.Gone || d.Endpoint != own {
		t.Errorf("it answers now: %+v", d)
	}
}

// device is what a driver says of a device.
func device(name string, is health.HealthStatus, timeout int64) *health.DeviceHealth {
	return &health.DeviceHealth{
		Device: &health.DeviceIdentifier{PoolName: "n", DeviceName: name}, Health: is, Message: name + " says",
		HealthCheckTimeoutSeconds: timeout,
	}
}

// TestHealth: what a driver says of its devices, until it ends, and one that says nothing.
func TestHealth(t *testing.T) {
	for _, v1 := range []bool{true, false} {
		t.Run(fmt.Sprintf("v1 %t", v1), func(t *testing.T) { healthOf(t, v1) })
	}
}

func healthOf(t *testing.T, v1 bool) {
	t.Helper()
	r := newRig(t)
	d := &drivertest.Driver{Name: "gpu.example.com", HealthV1: v1}
	d.Says(device("a", health.HealthStatus_HEALTHY, 5), device("b", health.HealthStatus_UNHEALTHY, -1))
	r.serve(d, "gpu")
	of := r.next()
	events, ended := make(chan []claims.Report), make(chan error, 1)
	r.Health(t.Context(), of, func(all []claims.Report) { events <- all }, func(err error) { ended <- err })
	want := func(want ...claims.Report) {
		t.Helper()
		check.Same(t, check.Receive(t, events), want, "got")
	}
	want(claims.Report{Pool: "n", Device: "a", Health: "Healthy", Message: "a says", For: 5 * time.Second},
		claims.Report{Pool: "n", Device: "b", Health: "Unhealthy", Message: "b says", For: 30 * time.Second})
	d.Says(device("a", 77, 1<<62))
	want(claims.Report{Pool: "n", Device: "a", Health: "Unknown", Message: "a says", For: 24 * time.Hour})
	long := device("a", health.HealthStatus_HEALTHY, 5)
	long.Message = strings.Repeat("ä", 1000)
	d.Says(long)
	want(claims.Report{Pool: "n", Device: "a", Health: "Healthy", Message: strings.Repeat("ä", 510) + "…", For: 5 * time.Second})
	d.Stop()
	if err := <-ended; port.KindOf(err) != port.Unavailable {
		t.Errorf("its end is %v", err)
	}
	r.next() // it is gone
	r.serve(&drivertest.Driver{Name: "mute.example.com"}, "mute")
	r.Health(t.Context(), r.next(), nil, func(err error) { ended <- err })
	if err := <-ended; port.KindOf(err) != port.Unsupported {
		t.Errorf("a driver without health: %v", err)
	}
	r.Health(t.Context(), port.DRADriver{Name: "none"}, nil, func(err error) { ended <- err })
	if err := <-ended; port.KindOf(err) != port.Unavailable {
		t.Errorf("no driver: %v", err)
	}
}
