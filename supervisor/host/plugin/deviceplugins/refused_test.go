package deviceplugins_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/registry"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestRegistryTriesAgain: a plugin that can't say its options yet is told so, and asked again.
func TestRegistryTriesAgain(t *testing.T) {
	r := newRig(t)
	ready := make(chan struct{})
	late := &plugintest.Plugin{Resource: "example.com/gpu", OptionsError: func() error {
		select {
		case <-ready:
			return nil
		default:
			return status.Error(codes.Internal, "the driver is not loaded")
		}
	}, Options: &api.DevicePluginOptions{PreStartRequired: true}}
	check.Fatal(t, late.Serve(filepath.Join(r.root, registry.Directory, "late.sock")))
	defer late.Stop()
	check.Until(r, "the notice", func() bool { return late.Notified() != nil })
	if n := late.Notified(); n.PluginRegistered || !strings.Contains(n.Error, "the driver is not loaded") {
		t.Error(n)
	}
	close(ready)
	if p := check.Receive(r, r.events); p.Resource != "example.com/gpu" || !p.Options.PreStart {
		t.Errorf("%+v", p)
	}
	check.Until(r, "the next notice", func() bool { return late.Notified().PluginRegistered })
}

// TestNoticeFails: a plugin that does not take the notice of its registration is used, and told again.
func TestNoticeFails(t *testing.T) {
	r := newRig(t)
	var tries atomic.Int32
	plugin := &plugintest.Plugin{Resource: "example.com/gpu", NoticeError: func() error {
		if tries.Add(1) == 1 {
			return status.Error(codes.Internal, "not now")
		}
		return nil
	}}
	path := filepath.Join(r.root, registry.Directory, "gpu.sock")
	check.Fatal(t, plugin.Serve(path))
	defer plugin.Stop()
	if p := check.Receive(r, r.events); p.Resource != "example.com/gpu" || p.Gone {
		t.Errorf("%+v", p)
	}
	check.Until(r, "the notice", func() bool { return plugin.Notified() != nil })
	if n := plugin.Notified(); !n.PluginRegistered || len(r.events) > 0 {
		t.Errorf("%v, and %d more events", n, len(r.events))
	}
	check.Fatal(t, os.Remove(path))
	if p := check.Receive(r, r.events); !p.Gone {
		t.Errorf("%+v", p)
	}
}

// TestOptionsFail: a plugin that fails to say its options is not used, and told why. One that was there before stays.
func TestOptionsFail(t *testing.T) {
	for _, code := range []codes.Code{codes.Unimplemented, codes.Unknown} {
		t.Run(code.String(), func(t *testing.T) {
			r := newRig(t)
			fails := &plugintest.Plugin{Resource: "example.com/gpu", OptionsError: func() error {
				return status.Error(code, "no driver")
			}}
			check.Fatal(t, fails.Serve(filepath.Join(r.dir(), "fails.sock")))
			defer fails.Stop()
			refused := func() {
				t.Helper()
				err := fails.Register(t.Context(), r.dir(), "fails.sock")
				for _, want := range []string{"failed to get device plugin options", "no driver"} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %q", err, want)
					}
				}
			}
			refused()
			works := r.serve(&plugintest.Plugin{Resource: "example.com/gpu"})
			refused()
			if n := fails.Answered(); n != 2 {
				t.Errorf("it was asked %d times", n)
			}
			r.stop()
			r.listen()
			if p := check.Receive(r, r.events); p != works || len(r.events) > 0 {
				t.Errorf("%+v, and %d more", p, len(r.events))
			}
		})
	}
}

// TestListFails: a plugin whose list ends counts again when it registers again. Who listens again is not told of it.
func TestListFails(t *testing.T) {
	r := newRig(t)
	fails := &plugintest.Plugin{Resource: "example.com/gpu", Watched: func() error { return errors.New("no driver") }}
	fails.List("a")
	p := r.serve(fails)
	all, ended := r.watch(p)
	check.Receive(r, all)
	if err := check.Receive(r, ended); err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Error(err)
	}
	r.stop()
	r.listen()
	r.register(&plugintest.Plugin{Resource: "example.com/nic"}, "nic.sock")
	if got := check.Receive(r, r.events); got.Resource != "example.com/nic" {
		t.Errorf("%+v", got)
	}
	check.Fatal(t, fails.Register(t.Context(), r.dir(), "p.sock"))
	if got := check.Receive(r, r.events); got != p {
		t.Errorf("%+v; want %+v", got, p)
	}
}

// TestBelow: the socket of a plugin may be in a directory below, as with a kubelet.
func TestBelow(t *testing.T) {
	r := newRig(t)
	check.Fatal(t, os.Mkdir(filepath.Join(r.dir(), "sub"), 0o750))
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	r.register(plugin, "sub/x.sock")
	if p := check.Receive(r, r.events); p.Endpoint != filepath.Join(r.dir(), "sub", "x.sock") {
		t.Errorf("%+v", p)
	}
}

// TestNamelessDevices: devices that nobody can name are left out; others of the list count.
func TestNamelessDevices(t *testing.T) {
	r := newRig(t)
	plugin := &plugintest.Plugin{Resource: "example.com/gpu"}
	plugin.ListAll([]*api.Device{
		{ID: "b", Health: api.Healthy}, {Health: api.Healthy}, {ID: strings.Repeat("x", 1025), Health: api.Healthy},
		{ID: "a", Health: api.Healthy},
	})
	all, _ := r.watch(r.serve(plugin))
	if got := fmt.Sprint(check.Receive(r, all)); got != "[{a true []} {b true []}]" {
		t.Error(got)
	}
}
