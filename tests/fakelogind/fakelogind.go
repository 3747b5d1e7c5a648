// Package fakelogind is a systemd-logind for tests, and the part of systemd that reloads it, on a dbus-daemon of
// its own.
package fakelogind

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
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
	// Narrow: it has only what a kubelet uses, as the stand-in of Talos (siderolabs/talos, internal/pkg/logind). Of the
	// properties there is InhibitDelayMaxUSec, and PrepareForShutdown is emitted under the name of the service.
	Narrow bool
}

// Logind is the service. It gives delay locks against shutdown, and none while the machine shuts down.
type Logind struct {
	config  Config
	address string
	stop    func()
	conn    *dbus.Conn
	// fail is told what is wrong.
	fail func(error)

	mu        sync.Mutex
	max       time.Duration
	preparing bool
	// open are this side's copies of the locks, released is closed when no copy of the newest one is left.
	open     []*os.File
	released chan struct{}
	// close undoes what was begun, the last first.
	close []func()
}

// Start starts a bus and the service, both until the end of the test. It skips the test without dbus-daemon.
func Start(t testing.TB, c Config) *Logind {
	t.Helper()
	_, err := exec.LookPath("dbus-daemon")
	hosttest.Need(t, "dbus-daemon, of the package dbus-daemon", err)
	l, err := Run(c, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// Run is Start outside of a test: Close ends it, and fail is told what is wrong, at any time.
func Run(c Config, fail func(error)) (_ *Logind, err error) {
	l := &Logind{config: c, max: c.MaxDelay, fail: fail}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if err := l.startBus(); err != nil {
		return nil, fmt.Errorf("start dbus-daemon: %w", err)
	}
	if l.conn, err = dbus.Connect(l.address); err != nil {
		return nil, err
	}
	l.later(func() { _ = l.conn.Close() })
	err = errors.Join(
		l.conn.ExportMethodTable(map[string]any{"Inhibit": l.inhibit}, path, manager),
		l.conn.ExportMethodTable(map[string]any{"Get": l.get}, path, properties),
		l.conn.ExportMethodTable(map[string]any{"KillUnit": l.killUnit}, systemdPath, systemd+".Manager"),
	)
	for _, name := range []string{service, systemd} {
		_, e := l.conn.RequestName(name, dbus.NameFlagDoNotQueue)
		err = errors.Join(err, e)
	}
	return l, err
}

// later has something done by Close.
func (l *Logind) later(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close = append(l.close, do)
}

// Close ends the service and the bus.
func (l *Logind) Close() {
	l.mu.Lock()
	all := l.close
	l.close = nil
	l.mu.Unlock()
	for _, do := range slices.Backward(all) {
		do()
	}
}

// startBus starts the bus. Its socket is not in a directory of the test, which may be too long a path.
func (l *Logind) startBus() (err error) {
	defer check.Return(&err)
	dir := check.Must(os.MkdirTemp("", "bus-"))
	l.later(func() { _ = os.RemoveAll(dir) })
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address", "--address=unix:dir="+dir)
	out := check.Must(cmd.StdoutPipe())
	check.OK(cmd.Start())
	l.stop = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	l.later(l.stop)
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
	if _, err := l.conn.ReleaseName(service); err != nil {
		l.fail(err)
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
	l.mu.Lock()
	l.preparing = on
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for _, f := range open {
		_ = f.Close() // the answers with their own copies are long written
	}
	from := manager
	if l.config.Narrow {
		from = service
	}
	if err := l.conn.Emit(path, from+".PrepareForShutdown", on); err != nil {
		l.fail(err)
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
		l.fail(fmt.Errorf("a lock of kind %s against %s", mode, what))
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
	l.close = append(l.close, func() { _ = w.Close() })
	return dbus.UnixFD(w.Fd()), nil
}

// get is org.freedesktop.DBus.Properties.Get.
func (l *Logind) get(_, name string) (dbus.Variant, *dbus.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case name == "PreparingForShutdown" && !l.config.Narrow:
		return dbus.MakeVariant(l.preparing), nil
	case name == "InhibitDelayMaxUSec":
		return dbus.MakeVariant(uint64(l.max.Microseconds())), nil //nolint:gosec // never negative
	}
	return dbus.Variant{}, prop.ErrPropNotFound
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
