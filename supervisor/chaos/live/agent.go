package live

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// agent is the daemon's process, and all that it starts: a session of its own, which the kernel
// kills with this process. Its methods are for one goroutine at a time, but signal.
type agent struct {
	command string
	output  io.Writer

	mu      sync.Mutex
	process *process // nil: it does not run
}

type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// stopPatience is how long an agent may take to end after SIGTERM.
const stopPatience = 15 * time.Second

func newAgent(c *Config, socket, kubeconfig string) *agent {
	command := strings.NewReplacer(RuntimeSocket, socket, Kubeconfig, kubeconfig).Replace(c.Agent)
	return &agent{command: command, output: c.Output}
}

func (a *agent) start() error {
	cmd := exec.Command("/bin/sh", "-c", a.command)
	cmd.Stdout, cmd.Stderr = a.output, a.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that has forked: it has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // an agent that ends by itself is started again
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	a.set(p)
	return nil
}

func (a *agent) set(p *process) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.process = p
}

func (a *agent) get() *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.process
}

// signal is sent to the agent and all that it has started. One that does not run gets none.
func (a *agent) signal(s syscall.Signal) {
	if p := a.get(); p != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may have ended
	}
}

// running reports whether the process is there.
func (a *agent) running() bool {
	p := a.get()
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill is kill -9, and returns when the process has ended.
func (a *agent) kill() {
	a.signal(syscall.SIGKILL)
	if p := a.get(); p != nil {
		<-p.exited
		a.set(nil)
	}
}

// stop ends the agent as an operator does.
func (a *agent) stop() {
	a.signal(syscall.SIGCONT)
	a.signal(syscall.SIGTERM)
	if p := a.get(); p != nil {
		select {
		case <-p.exited:
		case <-time.After(stopPatience):
		}
	}
	a.kill()
}
