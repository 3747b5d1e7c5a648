package dradrivers_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/http2"
	"k8s.io/apimachinery/pkg/types"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	api "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/dradrivers/drivertest"
	"github.com/troupe-dev/troupe/supervisor/host/plugin/plugintest"
	"github.com/troupe-dev/troupe/tests/check"
)

const gpu = "gpu.example.com"

// found serves a driver that is known as if the registry had found it.
func (r *rig) found(d *drivertest.Driver) port.DRADriver {
	r.Helper()
	of := port.DRADriver{Name: d.Name, Endpoint: filepath.Join(r.root, d.Name), Service: api.DRAPluginService}
	check.Fatal(r, d.Serve(filepath.Join(r.root, d.Name+".r"), of.Endpoint))
	r.Cleanup(d.Stop)
	r.Found(of)
	check.Fatal(r, check.Is(r.next(), of, "it"))
	return of
}

// TestHostileAnswers: whatever a driver answers, each claim has devices that fit into the checkpoint, or an error; another
// driver is not affected.
func TestHostileAnswers(t *testing.T) {
	r := newRig(t)
	h := drivertest.NewHostile(1)
	bad := r.found(&drivertest.Driver{
		Name: gpu, Spoil: h.Spoil, Answer: h.Prepare, Unprepared: func(*api.Claim) string { return strings.ToValidUTF8(h.Text(), "") },
	})
	good := r.found(&drivertest.Driver{Name: "net.example.com", Devices: gives})
	before, failed, refused, prepared := plugintest.Heap(), 0, 0, 0
	for i := range 1000 {
		run, verb := r.Prepare, "NodePrepareResources"
		if i%10 == 0 {
			run, verb = r.Unprepare, "NodeUnprepareResources"
		}
		got, err := r.calls(run, bad, "a", "b", "c")
		if err != nil {
			failed++
			plugintest.Named(r, verb, gpu, err)
		}
		for _, uid := range []types.UID{"uid-a", "uid-b", "uid-c"} {
			a, has := got[uid]
			size := len(a.Error)
			for _, d := range a.Devices {
				size += len(d.Pool) + len(d.Name) + len(d.Share) + len(strings.Join(d.CDI, "")) + len(strings.Join(d.Requests, ""))
			}
			switch {
			case size > 64<<10 || a.Error != "" && (len(a.Error) > 3000 || len(a.Devices) > 0 || !utf8.ValidString(a.Error)):
				t.Fatalf("%d: %s has %d bytes: %.200q", i, uid, size, a.Error)
			case !has || a.Error != "":
				refused++
			default:
				prepared++
			}
		}
		if i%10 == 0 {
			if got, err := r.calls(r.Prepare, good, "a"); err != nil || len(got["uid-a"].Devices) != 1 {
				t.Fatalf("%d: the other driver: %v, %v", i, got, err)
			}
		}
	}
	if min(failed, refused, prepared) < 50 {
		t.Errorf("%d calls failed, %d claims were refused, %d prepared", failed, refused, prepared)
	}
	if now := plugintest.Heap(); now > before+64<<20 {
		t.Errorf("%d bytes are in use, before it were %d", now, before)
	}
}

// TestHostileHealth: whatever a driver says of its devices, what is kept of it is bounded.
func TestHostileHealth(t *testing.T) {
	r := newRig(t)
	h := drivertest.NewHostile(2)
	d := &drivertest.Driver{Name: gpu, Spoil: h.Spoil, Watched: h.Error}
	d.Says()
	of := r.found(d)
	before, heard, all := plugintest.Heap(), 0, claims.Reports{}
	for i := range 1000 {
		d.Says(h.Devices()...)
		got, ended := make(chan []claims.Report, 10), make(chan error, 1)
		r.Health(t.Context(), of, func(all []claims.Report) { got <- all }, func(err error) { ended <- err })
		select {
		case err := <-ended:
			plugintest.Named(r, "NodeWatchResources", gpu, err)
		case <-time.After(patience):
			t.Fatalf("%d: nothing came", i)
		}
		if len(got) == 0 {
			continue // it ended first
		}
		heard++
		reports := <-got
		for _, one := range reports {
			if len(one.Pool)+len(one.Device) > 506 || len(one.Message) > 3000 || one.For <= 0 || one.For > 24*time.Hour || one.Health == "" {
				t.Fatalf("%d: %+v", i, one)
			}
		}
		if all.Add(time.Now(), reports); len(all) > claims.MaxReports {
			t.Fatalf("%d: %d reports are kept", i, len(all))
		}
	}
	check.AtLeast(t, heard, 500, "%d of 1000 were heard", heard)
	if now := plugintest.Heap(); now > before+64<<20 {
		t.Errorf("%d bytes are in use, before it were %d", now, before)
	}
}

// TestAFloodOfHealth: a driver that talks without end is heard ten times a second, and nothing that it said last of a device
// is lost.
func TestAFloodOfHealth(t *testing.T) {
	r := newRig(t)
	d := &drivertest.Driver{Name: gpu}
	said := 0
	d.Watched = func() error { // one call after the other
		var all []*health.DeviceHealth
		for range 10 {
			said++
			all = append(all, device(fmt.Sprint(said%1000), health.HealthStatus_HEALTHY, 5))
		}
		d.Says(all...)
		return nil
	}
	d.Says()
	of := r.found(d)
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan []claims.Report), make(chan error, 1)
	r.Health(ctx, of, func(all []claims.Report) { got <- all }, func(err error) { ended <- err })
	begun := time.Now()
	most := 0
	for range 4 {
		most = max(most, len(check.Receive(t, got)))
	}
	if took := time.Since(begun); took < 300*time.Millisecond || most <= 10 {
		t.Errorf("four reports of at most %d devices came within %v", most, took)
	}
	cancel()
	for {
		select {
		case <-got:
			continue
		case err := <-ended:
			check.Equal(t, port.KindOf(err), port.Canceled, "%v", err)
		case <-time.After(patience):
			t.Error("it did not end")
		}
		return
	}
}

// ready plays a server until its client takes it for one.
func ready(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	frames := http2.NewFramer(conn, conn)
	for err := frames.WriteSettings(); err == nil; {
		var f http2.Frame
		if f, err = frames.ReadFrame(); err == nil && f.Header().Flags.Has(http2.FlagSettingsAck) {
			return
		}
	}
}

// TestAFlappingDriver: a driver whose connections end at once is tried again after waits that grow.
func TestAFlappingDriver(t *testing.T) {
	r := newRig(t)
	of := port.DRADriver{Name: gpu, Endpoint: filepath.Join(r.root, "g"), Service: api.DRAPluginService}
	l := check.Value(net.Listen("unix", of.Endpoint))(t)
	defer l.Close() //nolint:errcheck // it ends the goroutine
	made := make(chan time.Time, 10_000)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			made <- time.Now()
			ready(conn)
			_ = conn.Close()
		}
	}()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-r.events: // there and gone
			case <-done:
				return
			}
		}
	}()
	r.Found(of)
	var first time.Time
	for i := range 5 {
		select {
		case at := <-made:
			if i == 0 {
				first = at
			} else if i == 4 && at.Sub(first) < 500*time.Millisecond {
				t.Errorf("the fifth connection came %v after the first", at.Sub(first))
			}
		case <-time.After(patience):
			t.Fatal("no connection came")
		}
	}
}
