package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// What is said on the connection by which a process of tests has the control plane. It has it until the connection
// ends, as it also does when the process is killed.
const (
	planeIsYours = "yours"
	planeIsTaken = "taken"
	takePlane    = "take"
	planeIsBack  = "back"
)

// lender lends a control plane to one process of tests after another. Between two it is made as new, so that what one
// has left in it is not there for the next.
type lender struct {
	plane *ControlPlane
	log   io.Writer
	taken atomic.Bool
	turn  sync.Mutex // of who has it, or makes it as new
}

// SharePlane starts a control plane as the tests of a cluster want it, and lends it to those that are run until ctx
// ends: see [TakeControlPlane]. started is called when they can have it.
func SharePlane(ctx context.Context, repository string, log io.Writer, started func(kubeconfig string)) (err error) {
	defer check.Return(&err)
	dir := filepath.Join(repository, ".run/lab")
	check.OK(os.MkdirAll(dir, 0o755))
	running := check.Must(os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644))
	defer running.Close()
	if err := syscall.Flock(int(running.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return fmt.Errorf("go tool task lab runs already in %s: %w", dir, err)
	}
	config := ControlPlaneConfig{
		Dir: filepath.Join(dir, "plane"), ControllerManager: true, Scheduler: true, Repository: repository, Log: log,
	}
	if err := os.RemoveAll(config.Dir); err != nil { // of an earlier one
		return err
	}
	plane := check.Must(StartControlPlane(ctx, config))
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		err = errors.Join(err, plane.Stop(ctx))
	}()
	return plane.share(ctx, planeFileIn(repository), log, started)
}

// share lends the control plane until ctx ends.
func (c *ControlPlane) share(
	ctx context.Context, path string, log io.Writer, started func(kubeconfig string),
) (err error) {
	defer check.Return(&err)
	kubeconfig := check.Must(c.KubeconfigOf(Identity{User: "lab-admin", Groups: []string{"system:masters"}}))
	fingerprint := check.Must(c.config.fingerprint())
	listener := check.Must(net.Listen("tcp", "127.0.0.1:0"))
	file := planeFile{
		Address: c.Address(), Kubeconfig: kubeconfig, Dir: c.config.Dir, PKI: c.pki(), Ports: c.ports,
		PID: os.Getpid(), Lender: listener.Addr().String(), Config: fingerprint,
	}
	if err := file.write(path); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer os.Remove(path)
	started(kubeconfig)
	failed := (&lender{plane: c, log: log}).serve(ctx, listener)
	if ctx.Err() != nil {
		return nil
	}
	return failed
}

// serve answers who asks at a listener until ctx ends, or the control plane cannot be lent any more.
func (l *lender) serve(ctx context.Context, listener net.Listener) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	var asked sync.WaitGroup
	for {
		conn, err := listener.Accept()
		if err != nil {
			stop(err)
			asked.Wait()
			return context.Cause(ctx)
		}
		asked.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := l.lend(ctx, conn); err != nil {
				stop(err)
			}
		})
	}
}

// lend answers one who wants the control plane. Its error is that of a control plane that cannot be lent any more.
func (l *lender) lend(ctx context.Context, conn net.Conn) error {
	// Who asks while it is made as new waits for that, but not for one who was faster.
	err := poll(ctx, func() (bool, error) {
		if l.taken.Load() {
			return false, errors.New(planeIsTaken)
		}
		return l.turn.TryLock(), nil
	})
	if err != nil {
		fmt.Fprintln(conn, planeIsTaken)
		return nil //nolint:nilerr // it is told
	}
	defer l.turn.Unlock()
	if err := l.plane.serves(ctx); err != nil {
		fmt.Fprintln(l.log, "the control plane does not serve, and is started again:", err)
		if err := l.plane.renew(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(conn, planeIsYours)
	from := bufio.NewReader(conn)
	if _, err := from.ReadString('\n'); err != nil {
		return nil //nolint:nilerr // it did not wait
	}
	l.taken.Store(true)
	_, _ = io.Copy(io.Discard, from) // until it is given back, or the process is no more
	l.taken.Store(false)
	fmt.Fprintln(conn, planeIsBack)
	if ctx.Err() != nil {
		return nil
	}
	return l.plane.renew(ctx)
}

// serves asks all components.
func (c *ControlPlane) serves(ctx context.Context) error {
	for _, p := range c.components() {
		if err := p.ready(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// renew starts the control plane again at the same addresses, with the same keys and none of its objects and logs.
func (c *ControlPlane) renew(ctx context.Context) (err error) {
	defer check.Return(&err)
	// Nothing is kept of it: there is nothing to end in order.
	check.OK(c.end(ctx, syscall.SIGKILL))
	check.OK(os.RemoveAll(c.store.data()))
	for _, p := range c.components() {
		check.OK(os.RemoveAll(p.logPath))
	}
	return c.start(ctx)
}
