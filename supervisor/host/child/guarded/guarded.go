// Package guarded runs a program of somebody else, which must end when the agent does, also when the agent is killed.
//
//	agent ──starts──► guard ──starts──► program ──starts──► its own processes
//	   └──── a socket ────┘ └───────────── one process group ──────────────┘
//
// The program can't be asked to watch the agent, so a guard does: this program again, which is the leader of a process
// group. The socket ends with the agent, and then the guard kills the group. The other way it tells how the program
// ended. (PR_SET_PDEATHSIG would not reach what the program itself has started.)
//
// A guard does its work in an init function and never gets to main, as the children of package filecount. So this
// package imports nothing outside of the standard library but golang.org/x/sys and filecount.
package guarded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/child/filecount"
)

const (
	// arg is the first argument of a guard. No user passes it.
	arg = "__host-guard"
	// socket is the guard's end of the socket.
	socket = 3
)

// ErrPipes says that a program ended, but processes that it started kept its stdout or stderr open. They were killed.
var ErrPipes = errors.New("it ended, but processes that it started did not close its stdout or stderr")

// Program is a program to run.
type Program struct {
	Path      string
	Args, Env []string
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	// PipeDelay is how long it is waited, after the program has ended, for processes that keep its pipes open.
	PipeDelay time.Duration
}

// verdict is what a guard tells of its program.
type verdict struct {
	// Start is why it can't be run, End how it failed. Both are empty if it worked.
	Start string `json:"start,omitempty"`
	End   string `json:"end,omitempty"`
}

// Run runs a program, and waits for its end. Its process group is killed when ctx ends, and when this process does.
// The error is nil if it exited with status 0; it is for people.
func (p *Program) Run(ctx context.Context) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close() //nolint:errcheck // nothing is written
	// Not os.Executable: the file may have been replaced by another version.
	c := exec.CommandContext(ctx, "/proc/self/exe", append([]string{arg, p.Path}, p.Args...)...)
	c.Args[0] = os.Args[0]
	c.Stdin, c.Stdout, c.Stderr, c.Env = p.Stdin, p.Stdout, p.Stderr, p.Env
	c.ExtraFiles = []*os.File{theirs}
	c.WaitDelay = p.PipeDelay
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kill := func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.Cancel = kill
	if err := errors.Join(c.Start(), theirs.Close()); err != nil {
		return err
	}
	err = c.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = kill() // they may have ended meanwhile
		err = ErrPipes
	}
	if told, bad := io.ReadAll(io.LimitReader(ours, filecount.Limit)); bad == nil && len(told) > 0 {
		var v verdict
		switch bad := json.Unmarshal(told, &v); {
		case bad != nil:
			return bad
		case v.Start != "":
			return errors.New("it can't be run: " + v.Start)
		case v.End != "":
			return errors.New(v.End)
		}
		return err
	}
	_ = kill() // without its guard the program would go on
	if err == nil {
		err = errors.New("its guard ended without a word")
	}
	return err
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "guard"), os.NewFile(uintptr(fds[1]), "agent"), nil
}

func init() {
	if len(os.Args) >= 3 && os.Args[1] == arg {
		syscall.Exit(serve(os.Args[2], os.Args[2:]))
	}
}

// serve is the work of a guard.
func serve(path string, argv []string) int {
	unix.CloseOnExec(socket)
	agent := os.NewFile(socket, "agent")
	filecount.EndWith(agent)
	var v verdict
	attr := &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	p, err := os.StartProcess(path, argv, attr)
	if err == nil {
		// The program alone has its pipes: who writes to its stdin learns when it does not read any more.
		err = letGo()
	}
	if err != nil {
		v.Start = err.Error()
		if e, is := errors.AsType[*fs.PathError](err); is {
			v.Start = e.Err.Error()
		}
	} else if state, err := p.Wait(); err != nil {
		v.End = err.Error()
	} else if !state.Success() {
		v.End = state.String()
	}
	if json.NewEncoder(agent).Encode(v) != nil {
		return filecount.NoAnswer
	}
	return filecount.Done
}

// letGo gives up stdin, stdout and stderr.
func letGo() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	for fd := range 3 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return err
		}
	}
	return nil
}
