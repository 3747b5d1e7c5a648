package deviceplugins_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// rig is the adapter, listening.
type rig struct {
	*testing.T
	*deviceplugins.Plugins
	root   string
	events chan port.DevicePlugin
	stop   func()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	root, err := os.MkdirTemp("", "dp") // a short path: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, root: root, Plugins: deviceplugins.New(filepath.Join(root, "device-plugins"), root, zerolog.Nop())}
	t.Cleanup(func() {
		r.stop()
		check.Error(t, os.RemoveAll(root))
		goleak.VerifyNone(t)
	})
	r.listen()
	return r
}

func (r *rig) listen() {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r.events = make(chan port.DevicePlugin, 10)
	events := r.events
	r.Registrations(ctx, func(p port.DevicePlugin) { events <- p }, func(err error) { ended <- err })
	r.stop = func() {
		cancel()
		if err := <-ended; port.KindOf(err) != port.Canceled {
			r.Error(err)
		}
	}
	check.Until(r, "the socket", func() bool {
		conn, err := net.Dial("unix", filepath.Join(r.dir(), "kubelet.sock"))
		return err == nil && conn.Close() == nil
	})
}

func (r *rig) dir() string { return filepath.Join(r.root, "device-plugins") }

// serve starts a plugin in the directory of plugins, and registers it.
func (r *rig) serve(p *plugintest.Plugin) port.DevicePlugin {
	r.Helper()
	r.register(p, "p.sock")
	return check.Receive(r, r.events)
}

// register does so without waiting for the event.
func (r *rig) register(p *plugintest.Plugin, endpoint string) {
	r.Helper()
	check.Fatal(r, p.Serve(filepath.Join(r.dir(), endpoint)))
	r.Cleanup(p.Stop)
	check.Fatal(r, p.Register(r.Context(), r.dir(), endpoint))
}

// watch watches the devices of a plugin.
func (r *rig) watch(p port.DevicePlugin) (<-chan []devices.Device, <-chan error) {
	all, ended := make(chan []devices.Device, 10), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(cancel)
	r.Devices(ctx, p, func(d []devices.Device) { all <- d }, func(err error) { ended <- err })
	return all, ended
}

func (r *rig) allocate(p port.DevicePlugin, ids ...string) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	r.Allocate(r.Context(), p, ids, func(data []byte, err error) { done <- result{data, err} })
	got := check.Receive(r, done)
	return got.data, got.err
}

func TestPlugin(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{
		Resource: "example.com/gpu",
		Options:  &api.DevicePluginOptions{PreStartRequired: true, GetPreferredAllocationAvailable: true},
		Prefers:  func(q *api.ContainerPreferredAllocationRequest) []string { return q.AvailableDeviceIDs[1:] },
	}
	plugin.List("b", "-a", "b")
	p := r.serve(plugin)
	if want := (devices.Options{Preferred: true, PreStart: true}); p.Resource != "example.com/gpu" || p.Options != want {
		t.Errorf("%+v", p)
	}
	if _, err := r.allocate(p, "a"); port.KindOf(err) != port.Unavailable {
		t.Errorf("before its devices are watched: %v", err)
	}
	all, ended := r.watch(p)
	if got := fmt.Sprint(check.Receive(r, all)); got != "[{a false []} {b true []}]" {
		t.Error(got)
	}
	plugin.List("a")
	if got := fmt.Sprint(check.Receive(r, all)); got != "[{a true []}]" {
		t.Error(got)
	}
	data, err := r.allocate(p, "a", "b")
	if err != nil || !strings.Contains(string(data), "[a b]") {
		t.Errorf("%q, %v", data, err)
	}
	preferred := make(chan []string, 1)
	q := devices.Question{Available: []string{"a", "b"}, Must: []string{"b"}, Size: 1}
	r.Prefer(t.Context(), p, q, func(ids []string, err error) { preferred <- append(ids, fmt.Sprint(err)) })
	if got := check.Receive(r, preferred); !slices.Equal(got, []string{"b", "<nil>"}) {
		t.Error(got)
	}
	started := make(chan error, 1)
	r.PreStart(t.Context(), p, []string{"b"}, func(err error) { started <- err })
	check.Error(t, check.Receive(r, started))
	want := []string{"allocate [a b]", "prefer 1 of [a b] with [b]", "start [b]"}
	if got := plugin.Calls(); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	plugin.Stop()
	if err := check.Receive(r, ended); port.KindOf(err) != port.Unavailable {
		t.Error(err)
	}
}

// TestToldAgain: who listens again hears of the plugins that have registered before.
func TestToldAgain(t *testing.T) {
	r := newRig(t)
	p := r.serve(&plugintest.Plugin{Resource: "example.com/gpu"})
	r.stop()
	r.listen()
	if got := check.Receive(r, r.events); got != p {
		t.Errorf("%+v; want %+v", got, p)
	}
}

// TestToldOfAll: several plugins of one resource are told again in the order in which they registered, without those that
// have ended.
func TestToldOfAll(t *testing.T) {
	r := newRig(t)
	want := []string{"c.sock", "b.sock", "a.sock"}
	for _, endpoint := range append([]string{"a.sock"}, want...) {
		plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
		if endpoint == "a.sock" {
			check.Fatal(t, os.RemoveAll(filepath.Join(r.dir(), endpoint)))
		}
		r.register(plugin, endpoint)
		check.Receive(r, r.events)
	}
	r.stop()
	r.listen()
	for _, endpoint := range want {
		p := check.Receive(r, r.events)
		check.Equal(t, filepath.Base(p.Endpoint), endpoint, "told of")
		if endpoint == "b.sock" { // it does not answer any more
			check.Fatal(t, os.Remove(p.Endpoint))
		}
	}
	r.stop()
	r.listen()
	for _, endpoint := range []string{"c.sock", "a.sock"} {
		check.Equal(t, filepath.Base(check.Receive(r, r.events).Endpoint), endpoint, "still told of")
	}
}

// TestGoneIsForgotten: who listens again does not hear of a plugin that has gone with its socket, until it registers again.
func TestGoneIsForgotten(t *testing.T) {
	r := newRig(t)
	gone := &plugintest.Plugin{Resource: "example.com/gone"}
	r.register(gone, "gone.sock")
	check.Receive(r, r.events)
	gone.Stop()
	if err := os.Remove(filepath.Join(r.dir(), "gone.sock")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	stays := r.serve(&plugintest.Plugin{Resource: "example.com/gpu"})
	r.stop()
	r.listen()
	if got := check.Receive(r, r.events); got != stays || len(r.events) > 0 {
		t.Errorf("%+v, and %d more; want %+v", got, len(r.events), stays)
	}
	again := &plugintest.Plugin{Resource: "example.com/gone"}
	r.register(again, "again.sock")
	if got := check.Receive(r, r.events); string(got.Resource) != again.Resource {
		t.Errorf("%+v registers again", got)
	}
}

// TestLeftBehind: sockets of plugins of an earlier agent are removed, so that they register again. Files stay.
func TestLeftBehind(t *testing.T) {
	r := newRig(t)
	r.stop()
	old := &plugintest.Plugin{}
	check.Fatal(t,
		errors.Join(old.Serve(filepath.Join(r.dir(), "old.sock")), os.WriteFile(filepath.Join(r.dir(), "kubelet_internal_checkpoint"), nil, 0o600)))
	defer old.Stop()
	r.Plugins = deviceplugins.New(r.dir(), r.root, zerolog.Nop())
	r.listen()
	entries, err := os.ReadDir(r.dir())
	if err != nil || len(entries) != 2 || entries[0].Name() != "kubelet.sock" || entries[1].Name() != "kubelet_internal_checkpoint" {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestNextAgent: a plugin that attends to agents registers with each.
func TestNextAgent(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	plugin.List("a")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- plugin.Attend(ctx, r.dir(), "p.sock") }()
	for range 3 {
		p := check.Receive(r, r.events)
		all, left := r.watch(p)
		if got := fmt.Sprint(check.Receive(r, all)); got != "[{a true []}]" {
			t.Error(got)
		}
		r.stop()
		r.Plugins = deviceplugins.New(r.dir(), r.root, zerolog.Nop())
		r.listen()
		if err := check.Receive(r, left); err == nil {
			t.Error("its devices are watched still")
		}
	}
	check.Receive(r, r.events)
	cancel()
	check.Fatal(t, check.Receive(r, ended))
}

// TestLink: the directory may be a link to that of a kubelet, which plugins look for.
func TestLink(t *testing.T) {
	r := newRig(t)
	r.stop()
	kubelets := filepath.Join(r.root, "kubelet")
	check.Fatal(t, errors.Join(os.RemoveAll(r.dir()), os.Mkdir(kubelets, 0o750), os.Symlink(kubelets, r.dir())))
	r.listen()
	p := &plugintest.Plugin{Resource: "example.com/gpu"}
	check.Fatal(t, p.Serve(filepath.Join(kubelets, "p.sock")))
	defer p.Stop()
	check.Fatal(t, p.Register(t.Context(), kubelets, "p.sock"))
	all, _ := r.watch(check.Receive(r, r.events))
	check.Receive(r, all)
}

func TestRefused(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ resource, endpoint, want string }{
		{"cpu", "p.sock", "is not the name of an extended resource"},
		{"example.com/gpu", "kubelet.sock", "failed to get device plugin options"}, // the agent is none
		{"example.com/gpu", "", "the endpoint is empty"},
	} {
		p := &plugintest.Plugin{Resource: c.resource}
		if err := p.Register(t.Context(), r.dir(), c.endpoint); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %q: %v", c.resource, c.endpoint, err)
		}
	}
}

// TestRegistry: a plugin is found by its socket, told so, and lost with it.
func TestRegistry(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	dir := filepath.Join(r.root, registry.Directory, "vendor")
	path := filepath.Join(dir, "p.sock")
	check.Fatal(t, errors.Join(os.Mkdir(dir, 0o750), plugin.Serve(path)))
	defer plugin.Stop()
	if p := check.Receive(r, r.events); p.Resource != "example.com/gpu" || p.Endpoint != path || p.Gone {
		t.Errorf("%+v", p)
	}
	check.Until(r, "the notice", func() bool { return plugin.Notified() != nil })
	if n := plugin.Notified(); !n.PluginRegistered {
		t.Error(n)
	}
	r.loses(path)
	bad := &plugintest.Plugin{Resource: "cpu"}
	check.Fatal(t, bad.Serve(path))
	defer bad.Stop()
	check.Until(r, "the refusal", func() bool { return bad.Notified() != nil })
	if n := bad.Notified(); n.PluginRegistered || !strings.Contains(n.Error, "extended resource") {
		t.Error(n)
	}
}

// loses removes the socket of a plugin, or the link to it, and waits until that is told.
func (r *rig) loses(path string) {
	r.Helper()
	check.Fatal(r, os.Remove(path))
	if p := check.Receive(r, r.events); p.Endpoint != path || !p.Gone {
		r.Errorf("%+v", p)
	}
}

// TestRegistryLink: an entry may be a link to the socket of a plugin. It is told of, and lost, by its own path.
func TestRegistryLink(t *testing.T) {
	r := newRig(t)
	elsewhere, link := filepath.Join(r.root, "p.sock"), filepath.Join(r.root, registry.Directory, "link.sock")
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	check.Fatal(t, errors.Join(plugin.Serve(elsewhere), os.Symlink("../p.sock", link)))
	defer plugin.Stop()
	if p := check.Receive(r, r.events); p.Endpoint != link || p.Gone {
		t.Errorf("%+v", p)
	}
	r.loses(link)
}

// TestRegistryIsLink: so may the registry itself.
func TestRegistryIsLink(t *testing.T) {
	r := newRig(t)
	r.stop()
	registry, elsewhere := filepath.Join(r.root, registry.Directory), filepath.Join(r.root, "elsewhere")
	check.Fatal(t, errors.Join(os.Remove(registry), os.Mkdir(elsewhere, 0o750), os.Symlink(elsewhere, registry)))
	r.listen()
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	check.Fatal(t, plugin.Serve(filepath.Join(elsewhere, "p.sock")))
	defer plugin.Stop()
	if p := check.Receive(r, r.events); p.Endpoint != filepath.Join(registry, "p.sock") {
		t.Errorf("%+v", p)
	}
}

// TestRegistryUnread: what can't be read of the registry keeps no other plugin from registering, and one that has
// registered there is not lost.
func TestRegistryUnread(t *testing.T) {
	r := newRig(t)
	registry := filepath.Join(r.root, registry.Directory)
	link := filepath.Join(registry, "link.sock")
	linked := &plugintest.Plugin{Resource: "example.com/linked"}
	check.Fatal(t, errors.Join(linked.Serve(filepath.Join(r.root, "p.sock")), os.Symlink("../p.sock", link)))
	defer linked.Stop()
	check.Receive(r, r.events)
	// A link that is replaced by one to itself can't be followed, and a path that is too long not be read.
	check.Fatal(t, errors.Join(os.Symlink("link.sock", filepath.Join(registry, ".new")), os.Rename(filepath.Join(registry, ".new"), link)))
	deep := check.Value(os.OpenRoot(registry))(t)
	for range 20 {
		name := strings.Repeat("a", 250)
		check.Fatal(t, deep.Mkdir(name, 0o750))
		next := check.Value(deep.OpenRoot(name))(t)
		check.Fatal(t, deep.Close())
		deep = next
	}
	check.Fatal(t, deep.Close())
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	check.Fatal(t, plugin.Serve(filepath.Join(registry, "p.sock")))
	defer plugin.Stop()
	if p := check.Receive(r, r.events); p.Resource != "example.com/gpu" || p.Gone {
		t.Errorf("%+v", p)
	}
	r.loses(link)
}

// TestOvertaken: of two registrations of one resource the later counts, however long the first one takes.
func TestOvertaken(t *testing.T) {
	r := newRig(t)
	asked, release := make(chan struct{}), make(chan struct{})
	slow := &plugintest.Plugin{Resource: "example.com/gpu", OptionsError: func() error {
		close(asked)
		<-release
		return nil
	}}
	check.Fatal(t, slow.Serve(filepath.Join(r.dir(), "slow.sock")))
	defer slow.Stop()
	registered := make(chan error, 1)
	go func() { registered <- slow.Register(t.Context(), r.dir(), "slow.sock") }()
	check.Receive(r, asked)
	r.register(&plugintest.Plugin{Resource: "example.com/gpu"}, "quick.sock")
	if p := check.Receive(r, r.events); filepath.Base(p.Endpoint) != "quick.sock" {
		t.Errorf("%+v", p)
	}
	if err := check.Receive(r, registered); err == nil {
		t.Error("the first one registered as well")
	}
	close(release)
	check.Until(r, "the answer of the first", func() bool { return slow.Answered() == 1 })
	r.register(&plugintest.Plugin{Resource: "example.com/other"}, "other.sock")
	if p := check.Receive(r, r.events); p.Resource != "example.com/other" {
		t.Errorf("the first registration has overtaken: %+v", p)
	}
}

// TestTwoResources: one plugin may serve two, and the end of one is none of the other.
func TestTwoResources(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	plugin.List("a")
	one := r.serve(plugin)
	two := one
	two.Resource = "example.com/gpu-share"
	allOfOne, _ := r.watch(one)
	check.Receive(r, allOfOne)
	ctx, cancel := context.WithCancel(context.Background())
	all, ended := make(chan []devices.Device, 10), make(chan error, 1)
	r.Devices(ctx, two, func(d []devices.Device) { all <- d }, func(err error) { ended <- err })
	check.Receive(r, all)
	cancel()
	if err := check.Receive(r, ended); port.KindOf(err) != port.Canceled {
		t.Error(err)
	}
	if _, err := r.allocate(one, "a"); err != nil {
		t.Errorf("the other resource: %v", err)
	}
	if _, err := r.allocate(two, "a"); port.KindOf(err) != port.Unavailable {
		t.Errorf("the one that has ended: %v", err)
	}
}

// TestNodes: NUMA nodes that no decision can be made about are left out.
func TestNodes(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu", Nodes: map[string][]int64{"a": {63, 0, 64, -1, 0}}}
	plugin.List("a", "b")
	all, _ := r.watch(r.serve(plugin))
	if got := fmt.Sprint(check.Receive(r, all)); got != "[{a true [0 63]} {b true []}]" {
		t.Error(got)
	}
}

// TestRegistryRestarts: a plugin that is back at once is registered again, also if the file system gives its socket the
// number of the old one: then it is known by its time.
func TestRegistryRestarts(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.root, registry.Directory, "p.sock")
	var plugin *plugintest.Plugin
	for i := range 3 {
		plugin = &plugintest.Plugin{Resource: "example.com/gpu"}
		check.Fatal(t, plugin.Serve(path))
		defer plugin.Stop()
		check.Until(r, fmt.Sprintf("registration %d", i), func() bool { return plugin.Notified() != nil })
		if i < 2 {
			plugin.Stop() // removes the socket
		}
	}
	check.Fatal(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Second)))
	check.Until(r, "registration of the same file with another time", func() bool { return plugin.Answered() > 1 })
}

// TestSocketStays: it shows the next agent that one was here, so that it does not take the node for one with a new disk.
func TestSocketStays(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.stop()
		if s, err := checkpoints.Devices(r.dir()); err != nil || s.Lost() != "" {
			t.Errorf("lost %q, %v", s.Lost(), err)
		}
		r.Plugins = deviceplugins.New(r.dir(), r.root, zerolog.Nop())
		r.listen()
	}
}
