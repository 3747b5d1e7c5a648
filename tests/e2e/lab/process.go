package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// Process is a child in a session of its own, so that Ctrl-C at the terminal does not reach it,
// and which the kernel kills when this process dies.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// StartProcess starts cmd.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// By a parent's death the kernel means that of the thread that forked: it must live as
		// long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed once the process has ended and was waited for.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err is how the process ended, once Exited is closed: nil for exit code 0, else an
// *exec.ExitError.
func (p *Process) Err() error { return p.err }

// Signal sends a signal. A process that has ended already is not an error.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// End sends signal, and SIGKILL if the process is there still after patience or the end of ctx,
// and returns once it has ended.
func (p *Process) End(ctx context.Context, signal syscall.Signal, patience time.Duration) (err error) {
	defer check.Return(&err)
	check.OK(p.Signal(signal))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	check.OK(p.Signal(syscall.SIGKILL))
	<-p.exited
	return nil
}

// awaitReady polls ready for at most d, and no longer than the process lives.
func (p *Process) awaitReady(ctx context.Context, d time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var last error
	err := poll(ctx, func() (bool, error) {
		select {
		case <-p.exited:
			return false, fmt.Errorf("it exited: %v", p.err)
		default:
		}
		last = ready(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}
