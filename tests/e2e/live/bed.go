// Package live runs cases of troupe chaos on a real node: a private containerd, a control plane and
// the daemon, each of its own. Its test runs kept cases, and the command live the sweep's.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	chaos "github.com/troupe-dev/troupe/supervisor/chaos/live"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// Config says what node to make. All must be set but Log.
type Config struct {
	// Dir is for what the node and its runtime make. Its path is short, for the sockets in it.
	Dir  string
	Name string
	// Binary is the agent's, as [lab.BuildTroupe] gives it.
	Binary   string
	Plane    *lab.ControlPlane
	Registry *lab.Registry
	Log      io.Writer
}

// Bed is a runtime and what an agent needs, and not the agent.
type Bed struct {
	lab   *lab.Lab
	agent *node.Agent
	// Chaos is what a session is started with.
	Chaos chaos.Config
}

// New starts a runtime and prepares the agent.
func New(ctx context.Context, c Config) (_ *Bed, err error) {
	defer check.Return(&err)
	l, err := lab.New(ctx, lab.Config{Dir: filepath.Join(c.Dir, "c"), Release: lab.Containerd2, Registry: c.Registry, Log: c.Log})
	if err != nil {
		return nil, err
	}
	b := &Bed{lab: l}
	defer func() {
		check.Ended(recover(), &err)
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	check.OK(l.Start(ctx))
	b.agent = check.Must(node.New(node.Config{
		Binary: c.Binary, Dir: filepath.Join(c.Dir, "n"), Endpoint: "unix://" + chaos.RuntimeSocket, CgroupRoot: l.CgroupRoot(),
		Flags: []string{"--hostname-override", c.Name, "--kubeconfig", chaos.Kubeconfig, "--node-ip", "127.0.0.1"},
	}))
	admin := check.Must(c.Plane.Kubeconfig("admin", "system:masters"))
	own := check.Must(c.Plane.Kubeconfig("system:node:"+c.Name, "system:nodes"))
	output := check.Must(os.Create(filepath.Join(c.Dir, "agent.log")))
	b.Chaos = chaos.Config{
		Runtime: l.SocketPath(), Kubeconfig: admin, AgentKubeconfig: own, Node: c.Name, Image: lab.BusyboxImage,
		Manifests: b.agent.Manifests(), Agent: "exec '" + c.Binary + "' '" + strings.Join(b.agent.Args(), "' '") + "'",
		KillRuntime: func(ctx context.Context, down time.Duration) error {
			if err := l.Kill(ctx); err != nil {
				return err
			}
			<-time.After(down)
			return l.Start(ctx)
		},
		Output: output, Log: zerolog.Nop(),
	}
	return b, nil
}

// Close ends the runtime, and reports what a session has left of its pods.
func (b *Bed) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	if b.agent != nil {
		// A link to the log of a container whose removal got no answer goes with the next sweep.
		left := slices.DeleteFunc(node.Leftovers(b.agent.Daemon, b.lab), func(path string) bool {
			return strings.HasPrefix(path, b.agent.Links()+"/")
		})
		if len(left) > 0 {
			errs = append(errs, fmt.Errorf("left over: %s", strings.Join(left, ", ")))
		}
	}
	errs = append(errs, b.lab.Cleanup(ctx))
	if b.agent != nil {
		errs = append(errs, b.agent.Discard())
	}
	return errors.Join(errs...)
}
