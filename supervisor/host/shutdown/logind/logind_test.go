package logind

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/fakelogind"
)

// start starts a logind whose InhibitDelayMaxSec is 5, and 31 after a reload with the drop-in for that in dir.
func start(t *testing.T) (f *fakelogind.Logind, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "logind.conf.d")
	return fakelogind.Start(t, fakelogind.Config{
		MaxDelay: 5 * time.Second,
		Reload: func(name, who string, signal int32) time.Duration {
			text, err := os.ReadFile(filepath.Join(dir, DropIn))
			if err != nil || name != unit || who != "main" || signal != 1 ||
				!strings.Contains(string(text), "\nInhibitDelayMaxSec=31\n") {
				t.Errorf("KillUnit %s %s %d with %q, %v", name, who, signal, text, err)
			}
			return 31 * time.Second
		},
	}), dir
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
	f, dir := start(t)
	l := New(Config{Address: f.Address(), ConfigDir: dir})
	defer func() { _ = l.Close() }()
	events, ended := make(chan bool, 4), make(chan error, 1)
	l.Watch(t.Context(), func(on bool) { events <- on }, func(err error) { ended <- err })
	if wait(t, "the state at first", events) {
		t.Error("shutting down at first")
	}
	check.Fatal(t, call(t, "Inhibit", l.Inhibit))
	over := f.Released()
	check.Error(t, call(t, "RaiseMaxDelay", func(c context.Context, done func(error)) {
		l.RaiseMaxDelay(c, 30500*time.Millisecond, done)
	}))
	check.Error(t, call(t, "MaxDelay", func(c context.Context, done func(error)) {
		l.MaxDelay(c, func(d time.Duration, err error) {
			check.Equal(t, d, 31*time.Second, "the longest delay")
			done(err)
		})
	}))
	f.PrepareForShutdown(true)
	if !wait(t, "the shutdown", events) {
		t.Error("not shutting down")
	}
	if err := call(t, "Inhibit", l.Inhibit); port.KindOf(err) != port.StateConflict {
		t.Errorf("a lock in a shutdown: %v", err)
	}
	select {
	case err := <-over:
		t.Errorf("the lock is gone: %v", err)
	default:
	}
	for range 2 {
		check.Error(t, call(t, "Release", l.Release))
	}
	_ = wait(t, "the end of the lock", over)
	f.PrepareForShutdown(false)
	if wait(t, "the cancellation", events) {
		t.Error("still shutting down")
	}
	f.StopBus()
	if err := wait(t, "the end of the bus", ended); port.KindOf(err) != port.Unavailable {
		t.Errorf("without a bus the watch ends with %v", err)
	}
	if err := call(t, "Inhibit", l.Inhibit); port.KindOf(err) != port.Unavailable {
		t.Errorf("without a bus: %v", err)
	}
}

// TestLogindRestarts: the watch ends, so that a new lock is taken.
func TestLogindRestarts(t *testing.T) {
	f, _ := start(t)
	l := New(Config{Address: f.Address()})
	defer func() { _ = l.Close() }()
	events, ended := make(chan bool, 4), make(chan error, 1)
	l.Watch(t.Context(), func(on bool) { events <- on }, func(err error) { ended <- err })
	wait(t, "the state at first", events)
	f.Leave()
	if err := wait(t, "the end", ended); port.KindOf(err) != port.Unavailable {
		t.Errorf("the watch ends with %v", err)
	}
}

// TestNarrowLogind: what a kubelet uses of logind is enough for a shutdown that waits.
func TestNarrowLogind(t *testing.T) {
	f := fakelogind.Start(t, fakelogind.Config{MaxDelay: time.Hour, Narrow: true})
	l := New(Config{Address: f.Address(), ConfigDir: t.TempDir()})
	defer func() { _ = l.Close() }()
	events := make(chan bool, 4)
	l.Watch(t.Context(), func(on bool) { events <- on }, func(err error) { t.Logf("the watch ends: %v", err) })
	if wait(t, "the state at first", events) {
		t.Error("shutting down at first")
	}
	check.Fatal(t, call(t, "Inhibit", l.Inhibit))
	over := f.Released()
	f.PrepareForShutdown(true)
	if !wait(t, "the shutdown", events) {
		t.Error("not shutting down")
	}
	check.Error(t, call(t, "Release", l.Release))
	_ = wait(t, "the end of the lock", over)
}

// TestMissing: only an answer that there is no such property is one.
func TestMissing(t *testing.T) {
	for name, want := range map[string]bool{
		"org.freedesktop.DBus.Error.UnknownProperty":              true,
		"org.freedesktop.DBus.Properties.Error.PropertyNotFound":  true,
		"org.freedesktop.DBus.Properties.Error.InterfaceNotFound": true,
		"org.freedesktop.DBus.Error.UnknownInterface":             true,
		"org.freedesktop.DBus.Error.UnknownMethod":                true,
		"org.freedesktop.DBus.Error.ServiceUnknown":               false,
		"org.freedesktop.DBus.Error.NoReply":                      false,
		"org.freedesktop.DBus.Error.AccessDenied":                 false,
	} {
		check.Equal(t, missing(dbus.Error{Name: name}), want, "%s", name)
	}
	if missing(errGone) {
		t.Error("a service that is gone")
	}
}
