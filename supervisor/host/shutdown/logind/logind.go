// Package logind delays the shutdown of the machine with the locks of systemd-logind
// (https://systemd.io/INHIBITOR_LOCKS, org.freedesktop.login1(5)), over D-Bus.
package logind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/disk/durable"
)

const (
	service = "org.freedesktop.login1"
	path    = dbus.ObjectPath("/org/freedesktop/login1")
	manager = service + ".Manager"

	systemd     = "org.freedesktop.systemd1"
	systemdPath = dbus.ObjectPath("/org/freedesktop/systemd1")
	unit        = "systemd-logind.service"

	busInterface = "org.freedesktop.DBus"
)

// DropIn is the file that raises InhibitDelayMaxSec. It sorts after 99-kubelet.conf, so it counts if a kubelet
// ran on this machine before.
const DropIn = "99-troupe.conf"

// Config is what a Logind is made with.
type Config struct {
	// Address is the bus; empty for the system's.
	Address string
	// ConfigDir has the drop-ins of logind.conf; empty for /etc/systemd/logind.conf.d.
	ConfigDir string
}

// Logind implements port.Inhibitor. The lock is held by a file of this process, so it ends with the process.
type Logind struct {
	config Config
	mu     sync.Mutex
	conn   *dbus.Conn
	lock   *os.File
}

var _ port.Inhibitor = (*Logind)(nil)

// New makes one. It connects with the first call, and again after the bus was restarted.
func New(c Config) *Logind {
	if c.ConfigDir == "" {
		c.ConfigDir = "/etc/systemd/logind.conf.d"
	}
	return &Logind{config: c}
}

// Close gives the lock back and ends the connection.
func (l *Logind) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.lock != nil {
		err, l.lock = l.lock.Close(), nil
	}
	if l.conn != nil {
		err = errors.Join(err, l.conn.Close())
		l.conn = nil
	}
	return err
}

// bus is the connection, made anew if the last one has ended.
func (l *Logind) bus() (*dbus.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn.Connected() {
		return l.conn, nil
	}
	var err error
	if l.config.Address != "" {
		l.conn, err = dbus.Connect(l.config.Address)
	} else {
		l.conn, err = dbus.ConnectSystemBus()
	}
	if err != nil {
		l.conn = nil
		return nil, err
	}
	return l.conn, nil
}

func (l *Logind) manager() (dbus.BusObject, error) {
	c, err := l.bus()
	if err != nil {
		return nil, err
	}
	return c.Object(service, path), nil
}

// Watch implements port.Inhibitor.
func (l *Logind) Watch(ctx context.Context, event func(bool), done func(error)) {
	const verb = "WatchShutdown"
	rescue.Do(ctx, func() error { return failed(verb, l.watch(ctx, event)) }, port.Panicked(verb, object), done)
}

// object is what errors name.
const object = "systemd-logind"

var errGone = errors.New("systemd-logind is gone from the bus")

func (l *Logind) watch(ctx context.Context, event func(bool)) error {
	conn, err := l.bus()
	if err != nil {
		return err
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	defer conn.RemoveSignal(signals)
	for _, match := range [][]dbus.MatchOption{
		// Without the interface: Talos emits it under the name of the service. So the daemon holds who sends it.
		{dbus.WithMatchSender(service), dbus.WithMatchMember("PrepareForShutdown"), dbus.WithMatchObjectPath(path)},
		{dbus.WithMatchInterface(busInterface), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, service)},
	} {
		if err := conn.AddMatchSignalContext(ctx, match...); err != nil {
			return err
		}
		defer func() { _ = conn.RemoveMatchSignal(match...) }() // it goes with the connection in any case
	}
	var now bool
	if err := l.property(ctx, "PreparingForShutdown", &now); err != nil && !missing(err) {
		return err
	}
	event(now)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case s, open := <-signals:
			if !open {
				return errGone
			}
			if gone := handle(s, event); gone {
				return errGone
			}
		}
	}
}

// handle reports whether the service went away.
func handle(s *dbus.Signal, event func(bool)) (gone bool) {
	switch {
	case s.Path == path && strings.HasSuffix(s.Name, ".PrepareForShutdown"):
		if len(s.Body) > 0 {
			if on, is := s.Body[0].(bool); is {
				event(on)
			}
		}
	case s.Name == busInterface+".NameOwnerChanged":
		if len(s.Body) == 3 && s.Body[0] == service {
			return s.Body[2] == ""
		}
	}
	return false
}

func (l *Logind) property(ctx context.Context, name string, into any) error {
	o, err := l.manager()
	if err != nil {
		return err
	}
	var v dbus.Variant
	call := o.CallWithContext(ctx, busInterface+".Properties.Get", 0, manager, name)
	if err := call.Store(&v); err != nil {
		return err
	}
	return v.Store(into)
}

// missing says whether the service answers that it has no such property. Talos' stand-in has one alone: it is a machine
// that does not shut down yet.
func missing(err error) bool {
	e, is := errors.AsType[dbus.Error](err)
	if !is {
		return false
	}
	switch e.Name {
	case busInterface + ".Error.UnknownProperty", busInterface + ".Error.UnknownInterface",
		busInterface + ".Error.UnknownMethod", busInterface + ".Properties.Error.PropertyNotFound",
		busInterface + ".Properties.Error.InterfaceNotFound":
		return true
	}
	return false
}

// Inhibit implements port.Inhibitor.
func (l *Logind) Inhibit(ctx context.Context, done func(error)) {
	const verb = "Inhibit"
	rescue.Do(ctx, func() error { return failed(verb, l.inhibit(ctx)) }, port.Panicked(verb, object), done)
}

func (l *Logind) inhibit(ctx context.Context) error {
	o, err := l.manager()
	if err != nil {
		return err
	}
	var fd dbus.UnixFD
	call := o.CallWithContext(ctx, manager+".Inhibit", 0, "shutdown", "troupe",
		"pods end before the machine goes down", "delay")
	if err := call.Store(&fd); err != nil {
		return err
	}
	syscall.CloseOnExec(int(fd)) // a child that outlives the agent would hold the lock
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.lock
	l.lock = os.NewFile(uintptr(fd), "shutdown lock")
	if old != nil {
		return old.Close()
	}
	return nil
}

// Release implements port.Inhibitor.
func (l *Logind) Release(ctx context.Context, done func(error)) {
	const verb = "Release"
	rescue.Do(ctx, func() (err error) {
		l.mu.Lock()
		lock := l.lock
		l.lock = nil
		l.mu.Unlock()
		if lock != nil {
			err = lock.Close()
		}
		return failed(verb, err)
	}, port.Panicked(verb, object), done)
}

// MaxDelay implements port.Inhibitor.
func (l *Logind) MaxDelay(ctx context.Context, done func(time.Duration, error)) {
	const verb = "MaxDelay"
	rescue.Ask(ctx, func() (time.Duration, error) {
		d, err := l.maxDelay(ctx)
		return d, failed(verb, err)
	}, port.Panicked(verb, object), done)
}

func (l *Logind) maxDelay(ctx context.Context) (time.Duration, error) {
	var microseconds uint64
	err := l.property(ctx, "InhibitDelayMaxUSec", &microseconds)
	const most = uint64(1<<63-1) / uint64(time.Microsecond)
	return time.Duration(min(microseconds, most)) * time.Microsecond, err
}

// RaiseMaxDelay implements port.Inhibitor: a drop-in of logind.conf, and a reload.
func (l *Logind) RaiseMaxDelay(ctx context.Context, to time.Duration, done func(error)) {
	const verb = "RaiseMaxDelay"
	rescue.Do(ctx, func() error { return failed(verb, l.raise(ctx, to)) }, port.Panicked(verb, object), done)
}

// rereads is how often the setting is read after a reload, which answers before it has happened.
const rereads = 6

func (l *Logind) raise(ctx context.Context, to time.Duration) error {
	seconds := (to + time.Second - 1) / time.Second
	text := fmt.Sprintf("# Written by troupe: its shutdown grace periods.\n[Login]\nInhibitDelayMaxSec=%d\n",
		seconds)
	if err := os.MkdirAll(l.config.ConfigDir, 0o755); err != nil { //nolint:gosec // systemd's own mode
		return err
	}
	file := filepath.Join(l.config.ConfigDir, DropIn)
	if err := durable.WriteAt(file, []byte(text), 0o644, durable.Whole); err != nil {
		return err
	}
	conn, err := l.bus()
	if err != nil {
		return err
	}
	if err := conn.Object(systemd, systemdPath).CallWithContext(ctx, systemd+".Manager.KillUnit", 0, unit, "main",
		int32(syscall.SIGHUP)).Err; err != nil {
		return err
	}
	wait, now := 50*time.Millisecond, time.Duration(0)
	for range rereads {
		if now, err = l.maxDelay(ctx); err != nil || now >= to {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait *= 2
		}
	}
	return fmt.Errorf("InhibitDelayMaxSec is %v after a reload with %s, want %v: another file may set it",
		now, file, to)
}

// failed translates an error; nil for none.
func failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	out := &port.Error{Kind: port.Unavailable, Verb: verb, Object: object, Detail: err.Error()}
	if e, is := errors.AsType[*os.PathError](err); is {
		out.Kind, out.Object = port.Other, e.Path
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		out.Kind = port.Deadline
	case errors.Is(err, context.Canceled):
		out.Kind = port.Canceled
	}
	e, is := errors.AsType[dbus.Error](err)
	if !is {
		return out
	}
	switch e.Name {
	case service + ".OperationInProgress":
		out.Kind = port.StateConflict
	case busInterface + ".Error.AccessDenied", busInterface + ".Error.InteractiveAuthorizationRequired":
		out.Kind = port.Forbidden
	}
	return out
}
