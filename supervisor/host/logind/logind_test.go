package logind

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/troupe-dev/troupe/actors/port"
)

// fake is a logind, and the part of systemd that reloads it, on a bus of its own.
type fake struct {
	t    *testing.T
	dir  string
	conn *dbus.Conn
	mu   sync.Mutex
	max  uint64
	busy bool
	// held is the other end of the newest lock.
	held *os.File
}

// Inhibit is org.freedesktop.login1.Manager.Inhibit.
func (f *fake) Inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		return 0, dbus.NewError(service+".OperationInProgress", []any{"a shutdown is under way"})
	}
	if what != "shutdown" || mode != "delay" {
		f.t.Errorf("a lock of kind %s against %s", mode, what)
	}
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Error(err)
	}
	f.held = r
	fd := dbus.UnixFD(w.Fd())
	f.t.Cleanup(func() { _ = w.Close() })
	time.AfterFunc(500*time.Millisecond, func() { _ = w.Close() }) // the answer has its own copy by then
	return fd, nil
}

// Get is org.freedesktop.DBus.Properties.Get.
func (f *fake) Get(_, name string) (dbus.Variant, *dbus.Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == "PreparingForShutdown" {
		return dbus.MakeVariant(f.busy), nil
	}
	return dbus.MakeVariant(f.max), nil
}

// KillUnit is org.freedesktop.systemd1.Manager.KillUnit.
func (f *fake) KillUnit(name, who string, signal int32) *dbus.Error {
	text, err := os.ReadFile(filepath.Join(f.dir, DropIn))
	if err != nil || name != unit || who != "main" || signal != 1 || !strings.Contains(string(text), "\nInhibitDelayMaxSec=31\n") {
		f.t.Errorf("KillUnit %s %s %d with %q, %v", name, who, signal, text, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.max = 31e6
	return nil
}

func (f *fake) prepare(on bool) {
	f.mu.Lock()
	f.busy = on
	f.mu.Unlock()
	if err := f.conn.Emit(path, manager+".PrepareForShutdown", on); err != nil {
		f.t.Error(err)
	}
}

// bus starts a bus with a fake logind, and returns its address and what stops the bus.
func bus(t *testing.T) (*fake, string, func()) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("dbus-daemon is missing: install the package dbus-daemon")
	}
	f := &fake{t: t, dir: filepath.Join(t.TempDir(), "logind.conf.d"), max: 5e6}
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:dir="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop := func() { once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) }
	t.Cleanup(stop)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	if f.conn, err = dbus.Connect(address); err != nil {
		t.Fatal(err)
	}
	for _, e := range []error{
		f.conn.ExportMethodTable(map[string]any{"Inhibit": f.Inhibit}, path, manager),
		f.conn.ExportMethodTable(map[string]any{"Get": f.Get}, path, busInterface+".Properties"),
		f.conn.ExportMethodTable(map[string]any{"KillUnit": f.KillUnit}, systemdPath, systemd+".Manager"),
	} {
		if e != nil {
			t.Fatal(e)
		}
	}
	for _, name := range []string{service, systemd} {
		if _, err := f.conn.RequestName(name, dbus.NameFlagDoNotQueue); err != nil {
			t.Fatal(err)
		}
	}
	return f, address, stop
}

func wait[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no answer", what)
		panic("unreachable")
	}
}

func call(t *testing.T, what string, f func(context.Context, func(error))) error {
	t.Helper()
	c := make(chan error, 1)
	f(t.Context(), func(err error) { c <- err })
	return wait(t, what, c)
}

// TestLogind: a shutdown is heard of, waits for the lock, and can be made to wait longer.
func TestLogind(t *testing.T) {
	f, address, stop := bus(t)
	l := New(Config{Address: address, ConfigDir: f.dir})
	defer func() { _ = l.Close() }()
	events, ended := make(chan bool, 4), make(chan error, 1)
	l.Watch(t.Context(), func(on bool) { events <- on }, func(err error) { ended <- err })
	if wait(t, "the state at first", events) {
		t.Error("shutting down at first")
	}
	if err := call(t, "Inhibit", l.Inhibit); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() {
		_, err := f.held.Read(make([]byte, 1)) // the end, when no copy of the lock is left
		over <- err
	}()
	if err := call(t, "RaiseMaxDelay", func(c context.Context, done func(error)) {
		l.RaiseMaxDelay(c, 30500*time.Millisecond, done)
	}); err != nil {
		t.Error(err)
	}
	if err := call(t, "MaxDelay", func(c context.Context, done func(error)) {
		l.MaxDelay(c, func(d time.Duration, err error) {
			if d != 31*time.Second {
				t.Errorf("the longest delay is %v", d)
			}
			done(err)
		})
	}); err != nil {
		t.Error(err)
	}
	f.prepare(true)
	if !wait(t, "the shutdown", events) {
		t.Error("not shutting down")
	}
	if err := call(t, "Inhibit", l.Inhibit); port.KindOf(err) != port.StateConflict {
		t.Errorf("a lock in a shutdown: %v", err)
	}
	select {
	case <-over:
		t.Error("the lock is gone")
	default:
	}
	for range 2 {
		if err := call(t, "Release", l.Release); err != nil {
			t.Error(err)
		}
	}
	_ = wait(t, "the end of the lock", over)
	f.prepare(false)
	if wait(t, "the cancellation", events) {
		t.Error("still shutting down")
	}
	stop()
	if err := wait(t, "the end of the bus", ended); port.KindOf(err) != port.Unavailable {
		t.Errorf("without a bus the watch ends with %v", err)
	}
	if err := call(t, "Inhibit", l.Inhibit); port.KindOf(err) != port.Unavailable {
		t.Errorf("without a bus: %v", err)
	}
}

// TestLogindRestarts: the watch ends, so that a new lock is taken.
func TestLogindRestarts(t *testing.T) {
	f, address, _ := bus(t)
	l := New(Config{Address: address})
	defer func() { _ = l.Close() }()
	events, ended := make(chan bool, 4), make(chan error, 1)
	l.Watch(t.Context(), func(on bool) { events <- on }, func(err error) { ended <- err })
	wait(t, "the state at first", events)
	if _, err := f.conn.ReleaseName(service); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, "the end", ended); port.KindOf(err) != port.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
}
