package deviceplugins_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	regapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/deviceplugins"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestHostileAnswers: whatever a plugin answers, a call ends with an answer for one container, or with an error that names
// the plugin; another plugin is not affected.
func TestHostileAnswers(t *testing.T) {
	r := newRig(t)
	h := plugintest.NewHostile(1)
	late, asked := make(chan struct{}), make(chan struct{})
	hostile := &plugintest.Plugin{
		Resource: "example.com/gpu", Spoil: h.Spoil, PreferAnswer: h.Prefer, Started: h.Error,
		Answer: func(ids []string) (*api.AllocateResponse, error) {
			if ids[0] == "late" {
				asked <- struct{}{}
				<-late
			}
			return h.Allocate(ids)
		},
	}
	hostile.List("a")
	good := &plugintest.Plugin{Resource: "example.com/nic"}
	good.List("n")
	// They are known as if they had registered: what is spoiled may be their registration.
	of := func(p *plugintest.Plugin, name string) port.DevicePlugin {
		path := filepath.Join(r.dir(), name)
		check.Fatal(t, p.Serve(path))
		t.Cleanup(p.Stop)
		return port.DevicePlugin{Resource: "example.com/gpu", Endpoint: path}
	}
	bad, nic := of(hostile, "h.sock"), of(good, "g.sock")
	nic.Resource = "example.com/nic"
	r.standing(bad)
	r.standing(nic)
	t.Cleanup(func() { close(late) })
	before, failed := plugintest.Heap(), map[string]int{}
	for i := range 1000 {
		what := [...]string{"Allocate", "GetPreferredAllocation", "PreStartContainer", "late"}[h.IntN(4)]
		var err error
		switch what {
		case "Allocate":
			var data []byte
			if data, err = r.allocate(bad, "a"); (err == nil) != (data != nil) {
				t.Fatalf("%d: %q, %v", i, data, err)
			}
		case "GetPreferredAllocation":
			got := make(chan error, 1)
			q := devices.Question{Available: []string{"a", "b", "c", "d"}, Must: []string{"b"}, Size: 1 + h.IntN(4)}
			r.Prefer(t.Context(), bad, q, func(_ []string, err error) { got <- err })
			err = check.Receive(r, got)
		case "PreStartContainer":
			got := make(chan error, 1)
			r.PreStart(t.Context(), bad, []string{"a"}, func(err error) { got <- err })
			err = check.Receive(r, got)
		default: // the answer comes after the call was given up
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan error, 1)
			r.Allocate(ctx, bad, []string{"late"}, func(_ []byte, err error) { got <- err })
			check.Receive(r, asked)
			cancel()
			if err = check.Receive(r, got); port.KindOf(err) != port.Canceled {
				t.Errorf("%d: %v", i, err)
			}
			late <- struct{}{}
			what = "Allocate"
		}
		if err != nil {
			failed[what]++
			plugintest.Named(r, what, "example.com/gpu", err)
		}
		if h.IntN(10) == 0 {
			if data, err := r.allocate(nic, "n"); err != nil || !strings.Contains(string(data), "[n]") {
				t.Fatalf("%d: the other plugin: %q, %v", i, data, err)
			}
		}
	}
	for _, what := range []string{"Allocate", "GetPreferredAllocation", "PreStartContainer"} {
		if failed[what] < 20 {
			t.Errorf("%d times %s failed", failed[what], what)
		}
	}
	if now := plugintest.Heap(); now > before+64<<20 {
		t.Errorf("%d bytes are in use, before it were %d", now, before)
	}
}

// standing watches the devices of a plugin until it tells them: calls need that.
func (r *rig) standing(p port.DevicePlugin) {
	r.Helper()
	for { // what it says may be spoiled
		all, ended := r.watch(p)
		select {
		case <-all:
			return
		case err := <-ended:
			plugintest.Named(r, "ListAndWatch", "example.com/gpu", err)
		case <-time.After(patience):
			r.Fatal("no list came")
		}
	}
}

// TestHostileLists: whatever a plugin lists, what is passed on are devices with names that differ, near to nodes that there
// may be; or its watch ends with an error that names it.
func TestHostileLists(t *testing.T) {
	r := newRig(t)
	h := plugintest.NewHostile(2)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu", Spoil: h.Spoil, Watched: func() error {
		if h.IntN(2) == 0 {
			return nil // once more
		}
		return h.Error()
	}}
	path := filepath.Join(r.dir(), "h.sock")
	plugin.ListAll(nil)
	check.Fatal(t, plugin.Serve(path))
	defer plugin.Stop()
	p := port.DevicePlugin{Resource: "example.com/gpu", Endpoint: path}
	before, lists := plugintest.Heap(), 0
	for i := range 1000 {
		plugin.ListAll(h.Devices())
		ctx, cancel := context.WithCancel(t.Context())
		got, ended := make(chan []devices.Device, 10), make(chan error, 1)
		r.Devices(ctx, p, func(all []devices.Device) { got <- all }, func(err error) { ended <- err })
		sound := func(all []devices.Device) {
			lists++
			for j, d := range all {
				if d.ID == "" || len(d.ID) > 1024 || j > 0 && d.ID <= all[j-1].ID || !utf8.ValidString(d.ID) {
					t.Fatalf("%d: device %d is %.100q", i, j, d.ID)
				}
				if !slices.IsSorted(d.Nodes) || len(d.Nodes) > 0 && (d.Nodes[0] < 0 || d.Nodes[len(d.Nodes)-1] > 63) {
					t.Fatalf("%d: device %q is near to %v", i, d.ID, d.Nodes)
				}
			}
		}
		select {
		case all := <-got:
			sound(all)
			cancel()
			plugintest.Named(r, "ListAndWatch", "example.com/gpu", check.Receive(r, ended))
		case err := <-ended:
			plugintest.Named(r, "ListAndWatch", "example.com/gpu", err)
		case <-time.After(patience):
			t.Fatalf("%d: nothing came", i)
		}
		cancel()
	}
	if lists < 300 || lists > 990 {
		t.Errorf("%d lists of 1000 were passed on", lists)
	}
	if now := plugintest.Heap(); now > before+64<<20 {
		t.Errorf("%d bytes are in use, before it were %d", now, before)
	}
}

// TestAFlood: a plugin whose list changes all the time is heard ten times a second.
func TestAFlood(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	n := 0
	plugin.Watched = func() error {
		n++
		plugin.List(fmt.Sprint("d", n))
		return nil
	}
	plugin.List("d0")
	all, _ := r.watch(r.serve(plugin))
	begun := time.Now()
	for range 4 {
		check.Receive(r, all)
	}
	if took := time.Since(begun); took < 300*time.Millisecond {
		t.Errorf("four lists came within %v", took)
	}
}

// TestHostileNames: what a plugin says of itself is not repeated at any length.
func TestHostileNames(t *testing.T) {
	r := newRig(t)
	r.stop()
	log := &strings.Builder{}
	r.Plugins = deviceplugins.New(r.dir(), r.root, zerolog.New(zerolog.SyncWriter(log)))
	r.listen()
	long := strings.Repeat("long", 1<<18)
	for i, info := range []*regapi.PluginInfo{
		{Type: long, Name: "example.com/gpu"},
		{Type: regapi.DevicePlugin, Name: long, SupportedVersions: []string{api.Version}},
		{Type: regapi.DevicePlugin, Name: "example.com/gpu", SupportedVersions: []string{long}},
	} {
		plugin := &plugintest.Plugin{Info: info}
		check.Fatal(t, plugin.Serve(filepath.Join(r.root, registry.Directory, fmt.Sprint(i, ".sock"))))
		defer plugin.Stop()
		check.Until(r, "the refusal", func() bool { return plugin.Notified() != nil })
		if n := plugin.Notified(); n.GetPluginRegistered() || len(n.GetError()) > 3000 {
			t.Errorf("%d: it is told %.100q", i, n.GetError())
		}
	}
	r.stop()
	if n := log.Len(); n == 0 || n > 20_000 {
		t.Errorf("%d bytes were logged", n)
	}
	r.listen()
}

// TestRegistrationsWithoutEnd: of a plugin that registers all the time, one registration is under way; and there is an end
// to the resources.
func TestRegistrationsWithoutEnd(t *testing.T) {
	r := newRig(t)
	conn, err := registry.Dial(filepath.Join(r.dir(), "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	register := func(name string) error {
		_, err := api.NewRegistrationClient(conn).Register(t.Context(), &api.RegisterRequest{
			Version: api.Version, Endpoint: "p.sock", ResourceName: name,
		})
		return err
	}
	var all sync.WaitGroup
	ended := atomic.Int32{}
	for range 500 {
		all.Go(func() {
			if register("example.com/gpu") != nil { // nobody serves at its socket
				ended.Add(1)
			}
		})
	}
	check.Until(r, "all but one are given up", func() bool { return ended.Load() == 499 })
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	r.register(plugin, "p.sock")
	all.Wait()
	if got := check.Receive(r, r.events); got.Resource != "example.com/gpu" || len(r.events) > 0 {
		t.Errorf("%+v, and %d more", got, len(r.events))
	}
	events := r.events
	go func() {
		for range 255 {
			<-events
		}
	}()
	for i := range 256 {
		err = register(fmt.Sprint("example.com/", i))
	}
	if err == nil || !strings.Contains(err.Error(), "256 resources") {
		t.Errorf("the last: %v", err)
	}
}
