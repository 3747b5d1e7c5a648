package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// NodeName is the node's name: it is the end of every static pod's name.
const NodeName = "node1"

const (
	startTimeout = 3 * time.Minute // much, for a busy or an emulated machine
	stopPatience = 30 * time.Second
)

// Config says how to run the agent. Binary, Dir and Endpoint must be set.
type Config struct {
	// Binary is what [lab.BuildTroupe] gave.
	Binary string
	// Dir holds what the agent makes and what it is given:
	//
	//	root/ its root directory    manifests/ the pods    logs/ of containers
	//	config.yaml                 agent.log              links/ to those logs
	Dir string
	// Endpoint of the runtime, as a URL.
	Endpoint string
	// CgroupRoot is where the cgroups of pods are, so that two agents on one host do not take each
	// other's for what is left of their own; if empty, pods have none of their own.
	CgroupRoot string
	// CgroupDriver is cgroupfs if empty.
	CgroupDriver string
	// Port is where it serves others over HTTPS; 0 for nowhere.
	Port int
	// Settings are more lines of KubeletConfiguration.
	Settings string
	// Flags are more flags.
	Flags []string
	// Env are further variables of its environment, as NAME=value.
	Env []string
	// NoManifests leaves out --pod-manifest-path.
	NoManifests bool
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Binary == "" || c.Dir == "" || c.Endpoint == "" {
		return errors.New("an agent needs a Binary, a Dir and an Endpoint")
	}
	return nil
}

// Agent is a node: the agent's process, when it runs, and the files it works on. Its methods are
// for one goroutine at a time, but those that only ask or write manifests.
type Agent struct {
	config  Config
	process *lab.Process
}

// New prepares an agent. [Agent.Start] runs it.
func New(config Config) (*Agent, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	a := &Agent{config: config}
	for _, dir := range []string{a.Root(), a.Manifests()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	cgroups := "cgroupRoot: " + config.CgroupRoot
	if config.CgroupRoot == "" {
		cgroups = "cgroupsPerQOS: false\nenforceNodeAllocatable: [none]"
	}
	server := "enableServer: false"
	if config.Port != 0 {
		server = fmt.Sprintf("port: %d", config.Port)
	}
	text := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: %s
podLogsDir: %s
healthzPort: 0
maxPods: 250
%s
%s
%s%s`, cmp.Or(config.CgroupDriver, "cgroupfs"), a.Logs(), cgroups, server,
		lab.Defaults(lenient, config.Settings), config.Settings)
	return a, os.WriteFile(a.ConfigFile(), []byte(text), 0o644)
}

// lenient are settings by which no pod is evicted, and no image removed, for what else is on the machine: its disk
// may be nearly full.
const lenient = `imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
`

// Root is the agent's root directory.
func (a *Agent) Root() string { return filepath.Join(a.config.Dir, "root") }

// Manifests is the directory of manifests.
func (a *Agent) Manifests() string { return filepath.Join(a.config.Dir, "manifests") }

// Logs is the directory of the containers' logs.
func (a *Agent) Logs() string { return filepath.Join(a.config.Dir, "logs") }

// Links is the directory of links to those logs. It is not /var/log/containers, which may be another
// agent's.
func (a *Agent) Links() string { return filepath.Join(a.config.Dir, "links") }

// ConfigFile is the KubeletConfiguration.
func (a *Agent) ConfigFile() string { return filepath.Join(a.config.Dir, "config.yaml") }

// LogFile is what the agent writes on stdout and stderr, of all its runs.
func (a *Agent) LogFile() string { return filepath.Join(a.config.Dir, "agent.log") }

// Args are the agent's arguments.
func (a *Agent) Args() []string {
	args := []string{
		"node", "--root-dir", a.Root(), "--config", a.ConfigFile(), "--hostname-override", NodeName,
		"--container-runtime-endpoint", a.config.Endpoint, "--container-log-links-dir", a.Links(),
		"--device-plugins-dir", filepath.Join(a.Root(), "device-plugins"),
	}
	if !a.config.NoManifests {
		args = append(args, "--pod-manifest-path", a.Manifests())
	}
	return append(args, a.config.Flags...)
}

// SetFlags replaces the further flags, from the next start on.
func (a *Agent) SetFlags(flags ...string) { a.config.Flags = flags }

// SetEndpoint replaces the runtime's endpoint, from the next start on.
func (a *Agent) SetEndpoint(endpoint string) { a.config.Endpoint = endpoint }

// Launch starts the process and does not wait for anything.
func (a *Agent) Launch() error {
	if a.process != nil {
		return errors.New("the agent runs already")
	}
	log, err := os.OpenFile(a.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.config.Binary, a.Args()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), a.config.Env...)
	if a.process, err = lab.StartProcess(cmd); err != nil {
		a.process = nil
		return fmt.Errorf("start troupe node: %w", err)
	}
	return nil
}

// Start starts the process and waits until it says that it is ready: every source was seen and the
// runtime was listed.
func (a *Agent) Start(ctx context.Context) error {
	if err := a.Launch(); err != nil {
		return err
	}
	err := lab.Eventually(ctx, startTimeout, "the agent is ready", func() error {
		if err := a.Running(); err != nil {
			return nil // told below: no use to wait
		}
		view, err := a.Pods(ctx)
		if err == nil && !view.Ready {
			err = fmt.Errorf("it waits for %v", view.WaitingFor)
		}
		return err
	})
	if err == nil {
		err = a.Running()
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, a.LogTail(3000)), a.end(ctx, syscall.SIGKILL))
	}
	return err
}

// Running is nil while the process runs, and else says how it ended.
func (a *Agent) Running() error {
	if a.process == nil {
		return errors.New("the agent does not run")
	}
	select {
	case <-a.process.Exited():
		return fmt.Errorf("the agent ended: %v", a.process.Err())
	default:
		return nil
	}
}

// Kill ends the agent by SIGKILL. Its pods go on.
func (a *Agent) Kill(ctx context.Context) error { return a.end(ctx, syscall.SIGKILL) }

// Stop ends the agent by SIGTERM, and fails if that takes more than ten seconds or it does not end
// with code 0. Its pods go on.
func (a *Agent) Stop(ctx context.Context) error {
	process := a.process
	if process == nil {
		return nil
	}
	if err := a.end(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	if err := process.Err(); err != nil {
		return fmt.Errorf("the agent ended after SIGTERM with %w; the end of its log:\n%s", err, a.LogTail(2000))
	}
	return nil
}

func (a *Agent) end(ctx context.Context, signal syscall.Signal) error {
	if a.process == nil {
		return nil
	}
	err := a.process.End(ctx, signal, stopPatience)
	a.process = nil
	return err
}

// PID is the process ID, 0 if the agent does not run.
func (a *Agent) PID() int {
	if a.process == nil {
		return 0
	}
	return a.process.PID()
}

// Log is all the agent wrote so far.
func (a *Agent) Log() string {
	text, err := os.ReadFile(a.LogFile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// LogTail is the end of the log, at most n bytes.
func (a *Agent) LogTail(n int) string {
	text := a.Log()
	return text[max(0, len(text)-n):]
}

// Races is what the race detector says in the log, of an agent that has one; empty for nothing.
func (a *Agent) Races() string {
	log := a.Log()
	i := strings.Index(log, "WARNING: DATA RACE")
	if i < 0 {
		return ""
	}
	const enough = 8000
	return log[i:min(len(log), i+enough)]
}

// Command runs another command of the binary and returns what it printed.
func (a *Agent) Command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, a.config.Binary, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("troupe %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// Write puts a manifest into the directory at once, not bit by bit.
func (a *Agent) Write(file, text string) error {
	fresh := filepath.Join(a.config.Dir, "fresh-"+file)
	if err := os.WriteFile(fresh, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(a.Manifests(), file))
}

// Remove takes a manifest away.
func (a *Agent) Remove(file string) error { return os.Remove(filepath.Join(a.Manifests(), file)) }

// Discard removes the agent's directory; the agent must have ended. Never through a mount: what is
// behind one is not ours.
func (a *Agent) Discard() error {
	if err := lab.Unmount(a.config.Dir); err != nil {
		return err
	}
	return os.RemoveAll(a.config.Dir)
}
