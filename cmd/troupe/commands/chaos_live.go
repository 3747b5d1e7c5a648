//go:build linux && !nonode

package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/live"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// chaosLiveFlags are the flags of troupe chaos live, besides those of troupe chaos.
type chaosLiveFlags struct {
	*chaosFlags
	config                     live.Config
	confirm, killRuntime, logs string
}

func newChaosLiveCommand(shared *chaosFlags) *cobra.Command {
	f := chaosLiveFlags{chaosFlags: shared}
	c := &cobra.Command{
		Use:   "live CASE...",
		Short: "Run cases on a real node: a daemon, a runtime and an apiserver",
		Long: `Run cases, each given as text or as @FILE, against a real daemon, container runtime and
apiserver, in a namespace of its own, which is deleted at the end and after Ctrl-C. Each
case runs in the simulator first. The same rules are checked on the node, and the final states
of pods in the simulator and on the node are compared (rule "same end").

The command runs on the node. It starts the agent itself, between proxies, so stop the
node's own agent first. --agent is a command for sh, in which {runtime-socket} is replaced
by the path of a socket, and {kubeconfig} by a file:

  troupe chaos live --runtime-socket /run/containerd/containerd.sock \
    --kubeconfig admin.conf --agent-kubeconfig /etc/kubernetes/kubelet.conf \
    --agent 'exec troupe node --config kubelet.yaml --kubeconfig {kubeconfig}
             --container-runtime-endpoint unix://{runtime-socket}' \
    --node worker-7 --confirm worker-7 \
    'create web main=app ready=app; on web Ready: kill-agent; delete web'

The user of --kubeconfig must be allowed to create namespaces and pods. Pods of other
namespaces are not changed, but the agent that serves them is killed, paused and cut off
as the cases say: do not run this on a node that is in use.

A case that needs what is not possible on a real node (msg, send and host faults, suspend,
power-cycle, step-clock and others) is refused before anything is started. The image of the containers
needs busybox (sh, sleep, cat, mkdir and httpd). It is removed from the runtime before each
case, so that each case pulls it.

Exit codes are those of troupe chaos.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args) },
	}
	flags := c.Flags()
	flags.StringVar(&f.config.Runtime, "runtime-socket", "", "path of the runtime's socket")
	flags.StringVar(&f.config.Kubeconfig, "kubeconfig", "", "kubeconfig with permission to create namespaces and pods")
	flags.StringVar(&f.config.AgentKubeconfig, "agent-kubeconfig", "",
		"kubeconfig that the agent uses (default: that of --kubeconfig)")
	flags.StringVar(&f.config.Agent, "agent", "", "command that runs the agent, with {runtime-socket} and {kubeconfig}")
	flags.StringVar(&f.config.Node, "node", "", "name of the agent's Node object")
	flags.StringVar(&f.confirm, "confirm", "", "repeat the node name to confirm that its agent may be killed")
	flags.StringVar(&f.config.Manifests, "manifests", "",
		"directory from which the agent reads static pods; without it, cases with static pods are refused")
	flags.StringVar(&f.config.Image, "image", live.DefaultImage, "image of the containers, with busybox")
	flags.StringVar(&f.killRuntime, "kill-runtime", "",
		"command that kills the runtime and starts it again after {seconds}; without it, cases that kill it are refused")
	flags.DurationVar(&f.config.Settle, "settle", 3*time.Second,
		"how long the pods must stay in their final state at the end of a case")
	flags.DurationVar(&f.config.Patience, "patience", 15*time.Minute,
		"how long an operation waits for its state, and how long pods may take to reach their final state")
	flags.StringVar(&f.logs, "agent-log", "", "file for the output of the agent (default: none)")
	return c
}

func (f *chaosLiveFlags) run(c *cobra.Command, args []string) (err error) {
	cases := make([]*plan.Case, 0, len(args))
	var refused []error
	if f.confirm != f.config.Node {
		refused = append(refused, fmt.Errorf("the agent of node %q will be killed: to allow that, give --confirm %s",
			f.config.Node, f.config.Node))
	}
	if f.killRuntime != "" {
		f.config.KillRuntime = f.kill
	}
	refused = append(refused, f.config.Validate())
	for _, arg := range args {
		given, err := readCase(arg)
		if err == nil {
			cases, err = append(cases, given), f.config.Possible(given)
		}
		refused = append(refused, err)
	}
	if err := errors.Join(refused...); err != nil {
		return err
	}
	if f.logs != "" {
		out, err := os.OpenFile(f.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		f.config.Output = out
	}
	return f.session(c, cases)
}

// session runs the cases, and takes all away that it has made.
func (f *chaosLiveFlags) session(c *cobra.Command, cases []*plan.Case) (err error) {
	f.limit = 0 // what is shrunk would have to be run on the node again and again
	if f.report != "" {
		return errors.New("--report is for simulated runs: give the case to troupe chaos run")
	}
	o, err := newOutcome(f.chaosFlags, c, uint64(len(cases)))
	if err != nil {
		return err
	}
	o.one = len(cases) == 1
	o.strict = o.one
	s, err := live.Start(c.Context(), f.config)
	if err != nil {
		return err
	}
	for _, of := range cases {
		begin := time.Now()
		var r *chaos.Result
		if r, err = s.Run(c.Context(), of); err != nil {
			break
		}
		o.printf("%-8s %6.1f s  %s\n", r.Verdict(), time.Since(begin).Seconds(), of.Line())
		if !o.add(r) {
			break
		}
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), 5*time.Minute)
	defer cancel()
	if err = errors.Join(err, s.Close(clean)); c.Context().Err() != nil {
		return errors.Join(errInterrupted, err)
	}
	if err != nil {
		return err
	}
	return o.end()
}

// kill runs the command that kills the runtime.
func (f *chaosLiveFlags) kill(ctx context.Context, down time.Duration) error {
	seconds := strconv.FormatFloat(down.Seconds(), 'f', -1, 64)
	out, err := exec.CommandContext(ctx, "/bin/sh", "-c", strings.ReplaceAll(f.killRuntime, "{seconds}", seconds)).
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", f.killRuntime, err, out)
	}
	return nil
}
