// Package fakelogind is a systemd-logind for tests, and the part of systemd that reloads it, on a dbus-daemon of
// its own.
package fakelogind

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

const (
	service     = "org.freedesktop.login1"
	path        = dbus.ObjectPath("/org/freedesktop/login1")
	manager     = service + ".Manager"
	systemd     = "org.freedesktop.systemd1"
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	properties  = "org.freedesktop.DBus.Properties"
)

// Config is what a Logind is made with.
type Config struct {
	// MaxDelay is InhibitDelayMaxSec at first.
	MaxDelay time.Duration
	// Reload is called for a signal to systemd-logind, and returns the new InhibitDelayMaxSec. Nil: signals are
	// refused.
	Reload func(unit, who string, signal int32) time.Duration
}

// Logind is the service. It gives delay locks against shutdown, and none while the machine shuts down.
type Logind struct {
	t       testing.TB
	config  Config
	address string
	stop    func()
	conn    *dbus.Conn

	mu        sync.Mutex
	max       time.Duration
	preparing bool
	// open are this side's copies of the locks, released is closed when no copy of the newest one is left.
	open     []*os.File
	released chan struct{}
}

// Start starts a bus and the service, both until the end of the test. It skips the test without dbus-daemon.
func Start(t testing.TB, c Config) *Logind {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("dbus-daemon is missing: install the package dbus-daemon")
	}
	l := &Logind{t: t, config: c, max: c.MaxDelay}
	if err := l.startBus(); err != nil {
		t.Fatal("start dbus-daemon: ", err)
	}
	var err error
	if l.conn, err = dbus.Connect(l.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.conn.Close() })
	err = errors.Join(
		l.conn.ExportMethodTable(map[string]any{"Inhibit": l.inhibit}, path, manager),
		l.conn.ExportMethodTable(map[string]any{"Get": l.get}, path, properties),
		l.conn.ExportMethodTable(map[string]any{"KillUnit": l.killUnit}, systemdPath, systemd+".Manager"),
	)
	for _, name := range []string{service, systemd} {
		_, e := l.conn.RequestName(name, dbus.NameFlagDoNotQueue)
		err = errors.Join(err, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// startBus starts the bus. Its socket is not in t.TempDir, which may be too long a path.
func (l *Logind) startBus() error {
	dir, err := os.MkdirTemp("", "bus-")
	if err != nil {
		return err
	}
	l.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:dir="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	l.stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l.t.Cleanup(l.stop)
	l.address, err = bufio.NewReader(out).ReadString('\n')
	l.address = strings.TrimSpace(l.address)
	return err
}

// Address is the bus, as DBUS_SYSTEM_BUS_ADDRESS has it.
func (l *Logind) Address() string { return l.address }

// StopBus ends the bus.
func (l *Logind) StopBus() { l.stop() }

// Leave takes the service off the bus, as its restart does.
func (l *Logind) Leave() {
	l.t.Helper()
	if _, err := l.conn.ReleaseName(service); err != nil {
		l.t.Error(err)
	}
}

// Released is closed when nobody holds the newest lock any more. It is looked at during a shutdown only: before
// that, the service has a copy itself. Nil if there was no lock.
func (l *Logind) Released() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// PrepareForShutdown begins a shutdown, or cancels it.
func (l *Logind) PrepareForShutdown(on bool) {
	l.t.Helper()
	l.mu.Lock()
	l.preparing = on
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for _, f := range open {
		_ = f.Close() // the answers with their own copies are long written
	}
	if err := l.conn.Emit(path, manager+".PrepareForShutdown", on); err != nil {
		l.t.Error(err)
	}
}

// inhibit is org.freedesktop.login1.Manager.Inhibit.
func (l *Logind) inhibit(what, _, _, mode string) (dbus.UnixFD, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.preparing {
		return 0, dbus.NewError(service+".OperationInProgress", []any{"a shutdown is under way"})
	}
	if what != "shutdown" || mode != "delay" {
		l.t.Errorf("a lock of kind %s against %s", mode, what)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	released := make(chan struct{})
	go func() {
		_, _ = r.Read(make([]byte, 1)) // the end, when no copy of the lock is left
		_ = r.Close()
		close(released)
	}()
	l.released, l.open = released, append(l.open, w)
	l.t.Cleanup(func() { _ = w.Close() })
	return dbus.UnixFD(w.Fd()), nil
}

// get is org.freedesktop.DBus.Properties.Get.
func (l *Logind) get(_, name string) (dbus.Variant, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch name {
	case "PreparingForShutdown":
		return dbus.MakeVariant(l.preparing), nil
	case "InhibitDelayMaxUSec":
		return dbus.MakeVariant(uint64(l.max.Microseconds())), nil //nolint:gosec // never negative
	}
	return dbus.Variant{}, dbus.MakeFailedError(errors.New("no property " + name))
}

// killUnit is org.freedesktop.systemd1.Manager.KillUnit.
func (l *Logind) killUnit(unit, who string, signal int32) *dbus.Error {
	if l.config.Reload == nil {
		return dbus.MakeFailedError(errors.New("no signals here"))
	}
	to := l.config.Reload(unit, who, signal)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.max = to
	return nil
}
