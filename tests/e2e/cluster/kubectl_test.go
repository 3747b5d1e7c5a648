package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// kubectlProgram is the machine's own kubectl, the one that a user would have, or else one that is built.
var kubectlProgram = sync.OnceValues(func() (string, error) {
	if path, err := lab.LookPath("kubectl"); err == nil {
		return path, nil
	}
	repository, err := lab.Repository()
	if err != nil {
		return "", err
	}
	return lab.BuildKubernetes(context.Background(), repository, "kubectl", os.Stderr)
})

// callable makes the agent answer the apiserver over HTTPS, at a port of its own.
func callable(t *testing.T) func(*setup) {
	t.Helper()
	p := plane(t)
	return func(s *setup) {
		s.plane = p
		serves(s)
	}
}

// users counts those that were made: each command has a kubeconfig of its own.
var users atomic.Int64

// command is kubectl, run by an administrator in the bed's namespace. It ends with the test.
func (b *bed) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program := check.Value(kubectlProgram())(t)
	kubeconfig := check.Value(b.plane.Kubeconfig(fmt.Sprintf("user-%d-of-%s", users.Add(1), b.name), "system:masters"))(t)
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", kubeconfig, "--namespace", b.name}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(kubeconfig)) // for its cache
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// said is what a command came to.
type said struct {
	out, err string
	code     int
}

// do runs kubectl to its end.
func (b *bed) do(t *testing.T, stdin io.Reader, args ...string) said {
	t.Helper()
	return finish(t, b.command(t, args...), stdin)
}

func finish(t *testing.T, cmd *exec.Cmd, stdin io.Reader) said {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	s := said{out.String(), errs.String(), 0}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		s.code = exit.ExitCode()
	} else if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return s
}

// terminal runs a command on a terminal of its own.
type terminal struct {
	master *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	shown  strings.Builder
	ended  chan struct{}
}

func onTerminal(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *terminal {
	t.Helper()
	master := check.Value(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave := check.Value(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer slave.Close()
	term := &terminal{master: master, cmd: cmd, ended: make(chan struct{})}
	term.resize(t, columns, rows)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	check.Fatal(t, cmd.Start())
	go func() {
		defer close(term.ended)
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			term.mu.Lock()
			term.shown.Write(b[:n])
			term.mu.Unlock()
			if err != nil { // EIO once nobody has the other end open
				return
			}
		}
	}()
	return term
}

func (term *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	check.Fatal(t, unix.IoctlSetWinsize(int(term.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// await waits until the terminal shows a text.
func (term *terminal) await(t *testing.T, text string) {
	t.Helper()
	check.Fatal(t, lab.Eventually(t.Context(), patience, "the terminal shows "+text, func() error {
		if !strings.Contains(term.text(), text) {
			return fmt.Errorf("it shows %q", term.text())
		}
		return nil
	}))
}

func (term *terminal) enter(t *testing.T, text string) {
	t.Helper()
	check.Value(term.master.WriteString(text))(t)
}

// end waits for the command's end and returns its code.
func (term *terminal) end(t *testing.T) int {
	t.Helper()
	err := term.cmd.Wait()
	<-term.ended
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}
