// Package member runs a node agent as a node of a cluster: troupe, or the real kubelet that it is
// compared with. Both get the same flags of the kubelet, the same configuration and the same rights, those of
// system:node:NAME.
package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Agent is a node agent's program.
type Agent struct {
	// Name is what people call it.
	Name string
	// Command is the program, and what comes before the kubelet's flags.
	Command []string
	// ours: it has flags that a kubelet has not.
	ours bool
	// ownPlugins is for one that is not: see [Agent.OwnPlugins].
	ownPlugins bool
}

// Troupe is the agent of a binary that [lab.BuildTroupe] gave.
func Troupe(binary string) Agent {
	return Agent{Name: "troupe", Command: []string{binary, "node"}, ours: true}
}

// Kubelet builds the kubelet of the control plane's release, unless it is there. Log, if not nil, is
// told when it builds.
func Kubelet(ctx context.Context, repository string, log *os.File) (Agent, error) {
	path, err := lab.BuildKubernetes(ctx, repository, "kubelet", log)
	return Agent{Name: "kubelet", Command: []string{path}}, err
}

// Config says how to run it. All but Settings and Flags must be set.
type Config struct {
	Agent Agent
	// Node is the node's name.
	Node string
	// Dir holds what a [lab.Daemon] has there.
	Dir string
	// Endpoint of the runtime, as a URL.
	Endpoint string
	// CgroupRoot is the cgroup below which pods are, from the root of the hierarchy.
	CgroupRoot string
	// Plane is the cluster's.
	Plane *lab.ControlPlane
	// Settings are more lines of KubeletConfiguration.
	Settings string
	// Flags are more flags, Env more variables of the environment.
	Flags, Env []string
}

func (c Config) validate() error {
	if len(c.Agent.Command) == 0 || c.Node == "" || c.Dir == "" || c.Endpoint == "" || c.CgroupRoot == "" || c.Plane == nil {
		return errors.New("a member needs an Agent, a Node, a Dir, an Endpoint, a CgroupRoot and a Plane")
	}
	return nil
}

// Member is a node agent's process, when it runs, and its files. Its methods are for one goroutine at
// a time.
type Member struct {
	*lab.Daemon
	config     Config
	kubeconfig string
}

// common are the settings of any machine that tests run on, small ones without all capabilities included.
const common = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: %s
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
healthzPort: 0
port: %d
authorization: {mode: AlwaysAllow}
podLogsDir: %s
maxPods: 250
clusterDNS: ["10.96.0.10"]
clusterDomain: cluster.local
imageMinimumGCAge: 1h
%s`

// lenient are what holds unless Settings has it: pods get all that the machine has, and are hardly ever
// evicted. No chains of iptables stay behind on the machine.
const lenient = `authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
resolvConf: ""
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
evictionHard: {memory.available: "1Mi", nodefs.available: "0.1%", nodefs.inodesFree: "0.1%", imagefs.available: "0.1%"}
`

// New prepares a member. [Member.Start] runs it.
func New(config Config) (_ *Member, err error) {
	defer check.Return(&err)
	check.OK(config.validate())
	m := &Member{Daemon: &lab.Daemon{Dir: config.Dir, Patience: stopPatience}, config: config}
	for _, dir := range []string{m.Root(), m.Logs()} {
		check.OK(os.MkdirAll(dir, 0o755))
	}
	m.kubeconfig, err = config.Plane.KubeconfigOf(lab.Identity{User: "system:node:" + config.Node, Groups: []string{"system:nodes"}, Files: true})
	if err != nil {
		return nil, err
	}
	check.OK(makeCgroups(config.CgroupRoot))
	return m, m.Configure(config.Agent, config.Settings)
}

// Configure sets what the next start runs, and with which Settings.
func (m *Member) Configure(agent Agent, settings string) error {
	port, err := lab.FreePort()
	if err != nil {
		return err
	}
	m.Name, m.config.Agent, m.config.Settings = agent.Name, agent, settings
	text := fmt.Sprintf(common, m.config.CgroupRoot, port, m.Logs(), lab.Defaults(lenient, settings)+settings)
	return os.WriteFile(m.ConfigFile(), []byte(text), 0o644)
}

// makeCgroups makes the cgroup that pods are to be below: a kubelet wants to find it.
func makeCgroups(name string) (err error) {
	defer check.Return(&err)
	const mount = "/sys/fs/cgroup"
	hierarchies := []string{mount}
	if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil {
		hierarchies = check.Must(filepath.Glob(mount + "/*"))
	}
	for _, h := range hierarchies {
		check.OK(os.MkdirAll(filepath.Join(h, name), 0o755))
	}
	return nil
}

// SetEnv replaces the further variables of the environment, from the next start on.
func (m *Member) SetEnv(env ...string) { m.config.Env = env }

// Node is the node's name.
func (m *Member) Node() string { return m.config.Node }

// stopPatience is how long an agent has to end after SIGTERM.
const stopPatience = time.Minute

// Start starts the process and does not wait for anything.
func (m *Member) Start() (err error) {
	command := append([]string{}, m.config.Agent.Command...)
	command = append(command, "--config", m.ConfigFile(), "--kubeconfig", m.kubeconfig, "--hostname-override", m.config.Node,
		"--root-dir", m.Root(), "--container-runtime-endpoint", m.config.Endpoint)
	if m.config.Agent.ours {
		// A kubelet's are where they are.
		command = append(command, "--container-log-links-dir", m.Links(), "--device-plugins-dir", m.DevicePlugins())
	}
	command = append(command, m.config.Flags...)
	if m.config.Agent.ownPlugins {
		if command, err = m.withOwnPlugins(command); err != nil {
			return err
		}
	}
	return m.Run(command, m.config.Env)
}

// Stop ends the agent by SIGTERM, with whatever code: that of a kubelet is not for tests to judge. Its pods go on.
func (m *Member) Stop(ctx context.Context) error {
	err := m.Daemon.Stop(ctx)
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return nil
	}
	return err
}
