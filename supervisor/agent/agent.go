package agent

import (
	"strings"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
)

// Agent is a running agent.
type Agent struct {
	// Runner performs the effects of its actors.
	Runner *kernel.Runner
	root   kernel.Ref[node.Message]
}

// Start starts an agent in system. It fails for a configuration that is not whole, and while the actors of a
// predecessor with the same name still exist; they end within one message each.
func Start(system *kernel.System, c Config) (*Agent, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	runner, err := kernel.NewRunner(system, c.pools()...)
	if err != nil {
		return nil, err
	}
	if c.Clock != nil {
		runner.UseClock(c.Clock)
	}
	runner.UseWards(func(uid string) string { return c.Name + "/pods/" + uid })
	root, err := kernel.SpawnRoot(system, kernel.Spec[node.Message]{
		Name: c.Name, Kind: "node", New: node.New(&c.Config), Policy: kernel.ForRoot, Runner: runner,
	})
	if err != nil {
		runner.Close()
		return nil, err
	}
	return &Agent{Runner: runner, root: root}, nil
}

// Stop ends the actors. Effects under way continue until Runner is closed.
func (a *Agent) Stop() { kernel.KillRoot(a.root) }

// Kill ends the agent as kill -9 does.
func (a *Agent) Kill() {
	a.Stop()
	a.Runner.Close()
	a.Runner.Resume() // for the actors to end
}

// Query asks the root actor for the node's health.
func (a *Agent) Query(reply func(node.Health)) { a.root.Tell(node.Query{Reply: reply}) }

// NodeOf is the name of the node that an actor's path belongs to.
func NodeOf(path string) string {
	name, _, _ := strings.Cut(path, "/")
	return name
}

// Crashed reports a crash to the podset actor of the node. It is for kernel.Config.OnCrash.
func Crashed(system *kernel.System, r *kernel.CrashReport) {
	if ref, ok := kernel.Lookup[podset.Message](system, NodeOf(r.Path)+"/podset"); ok {
		ref.Tell(podset.Crashed{Report: r})
	}
}

// Look asks the actor that people look at. It is not answered by an agent that is ending.
func (a *Agent) Look(m podview.Message) { a.root.Tell(node.PodView{Message: m}) }
