package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// pod is what this program reads of each pod in `troupe pods --json`.
type pod struct {
	Namespace  string
	Name       string
	Phase      string
	IP         string
	Containers []container
}

type container struct {
	Name     string
	Kind     string // init, sidecar or main
	State    string // waiting, running or terminated
	Reason   string
	Restarts int
	Ready    bool
}

// pods asks the agent for its pods.
func (n *node) pods(ctx context.Context) ([]pod, error) {
	cmd := exec.CommandContext(ctx, n.binary, "pods", "--root-dir", n.dir, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("troupe pods: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var list struct{ Pods []pod }
	if err := json.Unmarshal(stdout.Bytes(), &list); err != nil {
		return nil, fmt.Errorf("troupe pods --json: %w", err)
	}
	return list.Pods, nil
}

// watch prints the pods whenever something about them has changed, until ctx ends. With once, it
// returns as soon as all were seen as they should be.
func (n *node) watch(ctx context.Context, once bool) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	var shown string
	var runtimeExited <-chan struct{}
	if n.lab != nil {
		runtimeExited = n.lab.Exited()
	}
	missing := errors.New("the agent did not answer")
	for {
		select {
		case <-n.agent.Exited():
			return n.died()
		case <-runtimeExited:
			return fmt.Errorf("containerd exited; see %s", n.lab.LogPath())
		case <-ctx.Done():
			if once {
				return fmt.Errorf("not within %s: %w; see %s", onceTimeout, missing, n.logPath())
			}
			return nil
		case <-tick.C:
		}
		pods, err := n.pods(ctx)
		if err != nil {
			missing = err // it may not listen yet
			continue
		}
		if table := render(pods); table != shown {
			shown = table
			fmt.Fprintf(n.out, "after %.1f s\n%s\n", time.Since(begin).Seconds(), table)
		}
		if !once {
			continue
		}
		if missing = n.unmet(ctx, pods); missing == nil {
			fmt.Fprintln(n.out, "All pods reached their expected state.")
			return nil
		}
	}
}

// render makes the table of pods.
func render(pods []pod) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "  POD\tPHASE\tIP\tCONTAINER\tSTATE\tRESTARTS")
	for _, p := range pods {
		pod := fmt.Sprintf("%s\t%s\t%s", p.Name, p.Phase, p.IP)
		if len(p.Containers) == 0 {
			fmt.Fprintf(w, "  %s\t\t\t\n", pod)
		}
		for _, c := range p.Containers {
			state := c.State
			if c.Reason != "" {
				state += ": " + c.Reason
			}
			name := c.Name
			if c.Kind == "init" || c.Kind == "sidecar" {
				name += " (" + c.Kind + ")"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%d\n", pod, name, state, c.Restarts)
			pod = "\t\t" // once is enough
		}
	}
	if err := w.Flush(); err != nil {
		panic(err) // a strings.Builder takes everything
	}
	return text.String()
}

// unmet says what is still missing of: web runs and answers, crash was restarted, and
// init-and-sidecar runs, with its init container done and its page written by both helpers.
func (n *node) unmet(ctx context.Context, pods []pod) (err error) {
	defer check.Return(&err)
	find := func(name string) pod {
		for _, p := range pods {
			// A static pod's name ends in its node's.
			if p.Name == name || strings.HasPrefix(p.Name, name+"-") {
				return p
			}
		}
		return pod{Name: name, Phase: "missing"}
	}
	web, crash, trio := find("web"), find("crash"), find("init-and-sidecar")
	check.OK(errors.Join(running(web), running(trio)))
	if len(crash.Containers) != 1 || crash.Containers[0].Restarts < 1 {
		return fmt.Errorf("pod %s was not restarted", crash.Name)
	}
	if n.lab == nil {
		return nil // nothing listens in a simulation
	}
	check.OK(lab.Serves(ctx, web.url(), "hello from"))
	return lab.Serves(ctx, trio.url(), "written by the init container\nand by the sidecar\n")
}

func running(p pod) error {
	if p.Phase != "Running" {
		return fmt.Errorf("pod %s is %s", p.Name, p.Phase)
	}
	for _, c := range p.Containers {
		want := "running"
		if c.Kind == "init" {
			want = "terminated"
		}
		if !strings.EqualFold(c.State, want) {
			return fmt.Errorf("container %s of pod %s is %s", c.Name, p.Name, c.State)
		}
	}
	return nil
}

// url is where the pod's web server answers.
func (p pod) url() string { return "http://" + p.IP + ":8080/" }
