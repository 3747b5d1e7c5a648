package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Daemon is a node agent's process, when it runs, and the files that it works on. Its methods are for one goroutine at a
// time, but those that only ask.
type Daemon struct {
	// Name is what people call it.
	Name string
	// Dir holds what the agent makes and what it is given:
	//
	//	root/ its root directory    logs/ of containers    links/ to those logs    config.yaml    agent.log
	Dir string
	// Patience is how long it has to end after SIGTERM.
	Patience time.Duration

	process *Process
}

// Root is the agent's root directory.
func (d *Daemon) Root() string { return filepath.Join(d.Dir, "root") }

// Logs is the directory of the containers' logs.
func (d *Daemon) Logs() string { return filepath.Join(d.Dir, "logs") }

// Links is the directory of links to those logs. It is not /var/log/containers, which may be another
// agent's.
func (d *Daemon) Links() string { return filepath.Join(d.Dir, "links") }

// DevicePlugins is the directory of the sockets of device plugins. It is not that of the machine's kubelet.
func (d *Daemon) DevicePlugins() string { return filepath.Join(d.Root(), "device-plugins") }

// ConfigFile is the KubeletConfiguration.
func (d *Daemon) ConfigFile() string { return filepath.Join(d.Dir, "config.yaml") }

// LogFile is what the agent writes on stdout and stderr, of all its runs.
func (d *Daemon) LogFile() string { return filepath.Join(d.Dir, "agent.log") }

// Run starts the process, with more variables of its environment, and does not wait for anything.
func (d *Daemon) Run(command, env []string) error {
	if d.process != nil {
		return fmt.Errorf("%s runs already", d.Name)
	}
	log, err := os.OpenFile(d.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	if d.process, err = StartProcess(cmd); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	return nil
}

// Running is nil while the process runs, and else says how it ended.
func (d *Daemon) Running() error {
	if d.process == nil {
		return fmt.Errorf("%s does not run", d.Name)
	}
	select {
	case <-d.process.Exited():
		return fmt.Errorf("%s ended: %v; the end of its log:\n%s", d.Name, d.process.Err(), d.LogTail(2000))
	default:
		return nil
	}
}

// Exit is how a process that has ended by itself did so: nil for code 0.
func (d *Daemon) Exit() error { return d.process.Err() }

// PID is the process ID, 0 if the agent does not run.
func (d *Daemon) PID() int {
	if d.process == nil {
		return 0
	}
	return d.process.PID()
}

// Kill ends the agent by SIGKILL. Its pods go on.
func (d *Daemon) Kill(ctx context.Context) error { return d.end(ctx, syscall.SIGKILL) }

// Stop ends the agent by SIGTERM, and by SIGKILL after its patience. Its pods go on. The error is an *exec.ExitError if it
// did not end with code 0.
func (d *Daemon) Stop(ctx context.Context) error {
	process := d.process
	if process == nil {
		return nil
	}
	if err := d.end(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	if err := process.Err(); err != nil {
		return fmt.Errorf("%s ended after SIGTERM with %w; the end of its log:\n%s", d.Name, err, d.LogTail(2000))
	}
	return nil
}

func (d *Daemon) end(ctx context.Context, signal syscall.Signal) error {
	if d.process == nil {
		return nil
	}
	err := d.process.End(ctx, signal, d.Patience)
	d.process = nil
	return err
}

// Log is all the agent wrote so far.
func (d *Daemon) Log() string {
	text, err := os.ReadFile(d.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail is the end of the log, at most n bytes.
func (d *Daemon) LogTail(n int) string {
	text := d.Log()
	return strings.ToValidUTF8(text[max(0, len(text)-n):], "")
}

// Races is what the race detector says in the log, of an agent that has one; empty for nothing.
func (d *Daemon) Races() string {
	log := d.Log()
	i := strings.Index(log, "WARNING: DATA RACE")
	if i < 0 {
		return ""
	}
	const enough = 8000
	return log[i:min(len(log), i+enough)]
}

// Keep keeps the log, and where the process is in the kernel.
func (d *Daemon) Keep(e Evidence) {
	e.File("agent.log", d.LogFile())
	if d.PID() != 0 {
		e.Stacks("agent.stack", d.PID())
	}
}

// Discard removes the agent's directory; the agent must have ended. Never through a mount: what is
// behind one is not ours, and what the agent mounted itself is unmounted first.
func (d *Daemon) Discard() error {
	if err := Unmount(d.Dir); err != nil {
		return err
	}
	return os.RemoveAll(d.Dir)
}
