package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/rescue"
)

// Command is this program with an argument that makes it a child, in a process group of its own, so that what it starts
// is killed with it.
func Command(arg string) *exec.Cmd {
	// Not os.Executable: the file may have been replaced by another version.
	c := exec.Command("/proc/self/exe", arg)
	c.Args[0] = os.Args[0]
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=none", "PATH=" + os.Getenv("PATH")}
	return c
}

// exchange is one child: it gets a request, and is read.
type exchange struct {
	command *exec.Cmd
	ask     []byte
	// read takes what the child writes, at most so many bytes, until it has the answer.
	read func(io.Reader) error
	most int64
	// started is told the process, and gone once that the child is no more, or never was.
	started func(pid int)
	gone    func()
}

// wordsLimit bounds what is told of the stderr of a child that failed, in bytes.
const wordsLimit = 2000

// run starts the child, and waits until it has answered and ended, or until ctx ends. Then it is killed with its
// process group, and nobody waits for its end: it may hang in the kernel.
func (e *exchange) run(ctx context.Context) error {
	in, out, words, err := e.start()
	if err != nil {
		e.gone()
		return fmt.Errorf("start a child process: %w", err)
	}
	defer words.Close() //nolint:errcheck // it is in memory
	e.started(e.command.Process.Pid)
	stop := context.AfterFunc(ctx, func() {
		// Ends the reading and writing below, whatever becomes of the child.
		past := time.Unix(1, 0)
		in.SetWriteDeadline(past) //nolint:errcheck // a pipe has deadlines
		out.SetReadDeadline(past) //nolint:errcheck // a pipe has deadlines
	})
	_, err = in.Write(append(e.ask, '\n'))
	if err == nil {
		err = e.read(io.LimitReader(out, e.most))
	}
	if err == nil {
		// It ends by itself: when its stdin ends, it kills what it has started.
		_, err = io.Copy(io.Discard, io.LimitReader(out, e.most))
	}
	stop()
	if err != nil {
		syscall.Kill(-e.command.Process.Pid, syscall.SIGKILL) //nolint:errcheck // it may have ended by itself
	}
	err = errors.Join(err, in.Close(), out.Close())
	if ctx.Err() != nil {
		// It may survive even SIGKILL: another goroutine waits for it, at the price of a thread.
		rescue.Go(ctx, func() {
			defer e.gone()
			e.command.Wait() //nolint:errcheck // the caller has gone
		}, rescue.Answered)
		if err != nil {
			return ctx.Err()
		}
		return nil
	}
	ended := e.command.Wait()
	e.gone()
	if err != nil {
		return fmt.Errorf("the child process gave no answer: %w", errors.Join(said(words), ended, err))
	}
	return nil
}

// start starts the child, and gives the agent's ends of its stdin and stdout, and a file in memory that is its stderr.
// They are files, which have deadlines, and Wait copies nothing of them, so it waits for the child alone.
func (e *exchange) start() (in, out, words *os.File, err error) {
	fd, err := unix.MemfdCreate("stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, nil, os.NewSyscallError("memfd_create", err)
	}
	words = os.NewFile(uintptr(fd), "stderr")
	e.command.Stderr = words
	stdin, err := e.command.StdinPipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, words.Close())
	}
	stdout, err := e.command.StdoutPipe()
	if err == nil {
		err = e.command.Start()
	}
	if err != nil {
		stdin.Close() //nolint:errcheck // Start has closed it, if it was that
		return nil, nil, nil, errors.Join(err, words.Close())
	}
	return stdin.(*os.File), stdout.(*os.File), words, nil
}

// said is what a child has written to its stderr, such as the reason of a panic; nil for nothing.
func said(words *os.File) error {
	text, err := io.ReadAll(io.NewSectionReader(words, 0, wordsLimit))
	if line := strings.Join(strings.Fields(string(text)), " "); line != "" {
		return errors.Join(errors.New(line), err)
	}
	return err
}
