// Command conformance runs Kubernetes' own tests of a node, test/e2e_node, with troupe and with the kubelet of the same
// release, and prints what one passes and the other does not. The suite is built of its Go module. Its images are
// stand-ins.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

const usage = `conformance [--agent troupe|kubelet|both] [--focus REGEXP] [--skip REGEXP] [--labels FILTER] [--procs N]
            [--time DURATION] [--rest] [--compare] [--build] [--release 1.37.2] [--programs DIR] [--dir DIR]
  Runs the specs of Kubernetes' e2e_node that the filter of labels selects and the expression matches, with one agent
  after the other. What fails runs once more, alone. Needs root.
  Outcomes are kept in DIR for later runs. --rest runs only specs that have none yet. --compare runs nothing, and prints
  all, and a table. --build only builds. After --time the suite is ended. Logs of the suite, the agent and the runtime
  are in DIR/AGENT. Without --programs, which has e2e_node.test, ginkgo, kubelet, and the programs of images, they are
  built.
`

// labels leaves out what stops or configures the agent or the machine, and features that are off by default.
const labels = "!Serial && !Disruptive && !Flaky && Feature: isEmpty"

type options struct {
	agent, focus, skip, labels, release, programs, dir string

	procs                int
	time                 time.Duration
	rest, compare, build bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var o options
	flag.StringVar(&o.agent, "agent", "both", "")
	flag.StringVar(&o.focus, "focus", "", "")
	flag.StringVar(&o.skip, "skip", "", "")
	flag.StringVar(&o.labels, "labels", labels, "")
	flag.StringVar(&o.release, "release", "1.37.2", "")
	flag.StringVar(&o.programs, "programs", "", "")
	flag.StringVar(&o.dir, "dir", "", "")
	flag.IntVar(&o.procs, "procs", 4, "")
	flag.DurationVar(&o.time, "time", 3*time.Hour, "")
	flag.BoolVar(&o.rest, "rest", false, "")
	flag.BoolVar(&o.compare, "compare", false, "")
	flag.BoolVar(&o.build, "build", false, "")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	err := enter()
	if err == nil {
		err = o.run(ctx)
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode()) // that of this command in namespaces of its own, which has said why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) (err error) {
	defer check.Return(&err)
	repository := check.Must(lab.Repository())
	if o.dir == "" {
		o.dir = filepath.Join(repository, ".run/conformance", o.release)
	}
	o.dir = check.Must(filepath.Abs(o.dir))
	all := map[string]results{"troupe": {}, "kubelet": {}}
	agents := []string{"troupe", "kubelet"}
	if o.agent != "both" {
		agents = []string{o.agent}
	}
	for name, r := range all {
		check.OK(r.read(o.kept(name)))
	}
	if !o.compare {
		// All is built first: it may want modules, and from a network namespace there is no way out.
		suite := check.Must(o.suite(ctx, repository))
		programs := map[string]string{"kubelet": suite.Kubelet, "troupe": check.Must(lab.BuildTroupe(ctx, repository, false))}
		check.Must(lab.Containerd2.BinDir(ctx, repository, os.Stderr))
		if o.build {
			return nil
		}
		if !isApart() {
			return apart(ctx, o.dir)
		}
		check.OK(settle())
		p := parts{repository: repository, suite: suite, registry: check.Must(lab.NewRegistry())}
		defer p.registry.Close()
		p.images = check.Must(pushImages(ctx, p.registry, suite, repository))
		for _, name := range agents {
			if all[name] == nil {
				return fmt.Errorf("agent %q: want troupe, kubelet or both", name)
			}
			dir := filepath.Join(o.dir, name)
			check.OK(errors.Join(os.MkdirAll(dir, 0o755), os.Chdir(dir))) // the suite writes files where it is
			n := check.Must(p.start(ctx, dir, programs[name]))
			err := o.specs(ctx, n, all[name])
			check.OK(errors.Join(err, all[name].write(o.kept(name)), n.close(ctx)))
		}
	}
	for _, name := range agents {
		all[name].show(os.Stdout, name)
	}
	if o.compare {
		table(os.Stdout, all["troupe"], all["kubelet"])
	}
	if worse := compare(os.Stdout, all["troupe"], all["kubelet"]); worse > 0 && o.agent != "kubelet" {
		return fmt.Errorf("%d specs that the kubelet passes", worse)
	}
	return nil
}

func (o *options) suite(ctx context.Context, repository string) (lab.NodeSuite, error) {
	if o.programs == "" {
		return lab.BuildNodeSuite(ctx, repository, o.release, os.Stderr)
	}
	dir, err := filepath.Abs(o.programs)
	if err != nil {
		return lab.NodeSuite{}, err
	}
	return lab.FindNodeSuite(ctx, repository, o.release, dir)
}

// kept is the file with the outcomes of an agent.
func (o *options) kept(agent string) string { return filepath.Join(o.dir, agent+".json") }

// specs runs what was asked for, and once more what has failed.
func (o *options) specs(ctx context.Context, n *node, known results) error {
	filter := []string{"--label-filter=" + o.labels}
	for flag, value := range map[string]string{"focus": o.focus, "skip": o.skip} {
		if value != "" {
			filter = append(filter, "--"+flag+"="+value)
		}
	}
	if o.rest {
		for _, state := range []string{passed, failed, skipped} {
			filter = append(filter, pick("skip", known.in(state))...)
		}
	}
	begin := time.Now()
	fresh, err := n.run(ctx, o.procs, o.time, filter)
	if err != nil {
		return err
	}
	known.add(fresh)
	fresh = slices.DeleteFunc(fresh, func(o outcome) bool { return o.State != failed })
	left := o.time - time.Since(begin)
	if len(fresh) == 0 || left < time.Minute || ctx.Err() != nil {
		return nil
	}
	var again []string
	for _, f := range fresh {
		again = append(again, f.Spec)
	}
	fmt.Fprintf(os.Stderr, "once more: %s\n", strings.Join(again, "\n           "))
	fresh, err = n.run(ctx, 1, left, append(pick("focus", again), "--label-filter="+o.labels))
	known.add(fresh)
	return err
}
