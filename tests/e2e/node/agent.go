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
	"time"

	"github.com/troupe-dev/troupe/tests/check"
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
	// Dir holds what a [lab.Daemon] has there, and manifests/, the pods.
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
	return check.That(c.Binary != "" && c.Dir != "" && c.Endpoint != "", "an agent needs a Binary, a Dir and an Endpoint")
}

// Agent is a node: the agent's process, when it runs, and the files it works on. Its methods are
// for one goroutine at a time, but those that only ask or write manifests.
type Agent struct {
	*lab.Daemon
	config Config
}

// New prepares an agent. [Agent.Start] runs it.
func New(config Config) (_ *Agent, err error) {
	defer check.Return(&err)
	check.OK(config.Validate())
	a := &Agent{&lab.Daemon{Name: "the agent", Dir: config.Dir, Patience: stopPatience}, config}
	for _, dir := range []string{a.Root(), a.Manifests()} {
		check.OK(os.MkdirAll(dir, 0o755))
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
// may be nearly full. No chains of iptables stay behind on it.
const lenient = `imageGCHighThresholdPercent: 100
makeIPTablesUtilChains: false
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
`

// Manifests is the directory of manifests.
func (a *Agent) Manifests() string { return filepath.Join(a.Dir, "manifests") }

// Args are the agent's arguments.
func (a *Agent) Args() []string {
	args := []string{
		"node", "--root-dir", a.Root(), "--config", a.ConfigFile(), "--hostname-override", NodeName,
		"--container-runtime-endpoint", a.config.Endpoint, "--container-log-links-dir", a.Links(),
		"--device-plugins-dir", a.DevicePlugins(),
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
	return a.Run(append([]string{a.config.Binary}, a.Args()...), a.config.Env)
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
		err = errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, a.LogTail(3000)), a.Kill(ctx))
	}
	return err
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
	fresh := filepath.Join(a.Dir, "fresh-"+file)
	if err := os.WriteFile(fresh, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(a.Manifests(), file))
}

// Remove takes a manifest away.
func (a *Agent) Remove(file string) error { return os.Remove(filepath.Join(a.Manifests(), file)) }
