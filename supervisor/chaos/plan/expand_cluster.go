package plan

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Cluster is the profile of cases of a cluster: workloads on nodes, rolling updates, nodes that are
// lost, drained or cut off, and an apiserver that is restored from a backup.
func Cluster(nodes int) Profile {
	return Profile{
		Nodes: nodes, Pods: 3, Ops: 10, Faults: 10,
		Words: [][]string{
			{"init=setup"}, {"sidecar=proxy"}, {"volume=data"}, {"ready=app"}, {"live=app"},
			{"startup=app", "app.startup-time=3s"}, {"prestop=app", "grace=10"}, {"app.ignore-term=true", "grace=3"},
			{"app.term-delay=2s"},
		},
		Verbs: []Verb{
			Image, Replicas, LoseNode, Drain, Restore, Delete, Exit, OOM, EndSandbox, Vanish, Restart, DownRuntime, Power,
			CutOff, NoAnswers, NoWatches, Expire, StepClock, Pause, Suspend,
		},
	}
}

// clusterGrower draws the operations of a cluster.
type clusterGrower struct {
	r     *rand.Rand
	c     *Case
	at    time.Duration
	words [][]string
	// drained are nodes to be opened again, gone how many were taken away for good.
	drained map[string]bool
	gone    int
	saved   bool
}

func expandCluster(seed uint64, r *rand.Rand, p Profile) *Case {
	c := &Case{Seed: seed, Nodes: p.Nodes, NoEvents: r.IntN(8) == 0, Schedule: schedule(seed)}
	g := &clusterGrower{r: r, c: c, words: some(r, p.Words), drained: map[string]bool{}}
	verbs := some(r, p.Verbs)
	names := make([]string, 1+r.IntN(p.Pods))
	for i := range names {
		names[i] = string(rune('a' + i))
		g.deploy(names[i], i > 0 && r.IntN(4) == 0)
	}
	for range 1 + r.IntN(p.Ops) {
		g.at += time.Duration(1+r.IntN(40)) * 500 * time.Millisecond
		if r.IntN(6) == 0 {
			g.at += time.Duration(r.IntN(300)) * time.Second
		}
		g.act(verbs[r.IntN(len(verbs))], names)
	}
	g.at += time.Minute
	for _, n := range c.NodeNames() {
		if g.drained[n] {
			g.add(Op{Verb: Uncordon, Node: n})
		}
	}
	return c
}

func (g *clusterGrower) add(o Op) {
	o.When.At = g.at
	g.c.Ops = append(g.c.Ops, o)
}

// deploy makes a workload, or a pod of its own.
func (g *clusterGrower) deploy(name string, single bool) {
	o := Op{Verb: Deploy, Role: Role{Pod: name}, Args: []Arg{{"replicas", fmt.Sprint(1 + g.r.IntN(6))}, {"main", "app"}}}
	if single {
		o.Verb, o.Args = Create, o.Args[1:]
	}
	for range g.r.IntN(4) {
		for _, w := range g.words[g.r.IntN(len(g.words))] {
			if key, value := cut(w); !o.has(key, value) {
				o.Args = append(o.Args, Arg{key, value})
			}
		}
	}
	g.add(o)
}

// act does something to a workload, a node or the apiserver.
func (g *clusterGrower) act(v Verb, names []string) {
	o := Op{Verb: v}
	name := names[g.r.IntN(len(names))]
	node := g.c.NodeNames()[g.r.IntN(g.c.Nodes)]
	wait := Arg{"for", fmt.Sprintf("%ds", 1+g.r.IntN(40))}
	switch v {
	case Expire:
	case Restore:
		if !g.saved {
			o.Verb, g.saved = Backup, true
		}
	case LoseNode:
		o.Node, o.Args = node, []Arg{{"for", fmt.Sprintf("%ds", 10+g.r.IntN(500))}}
		if g.r.IntN(4) == 0 && g.gone+2 < g.c.Nodes {
			o.Args = nil
			g.gone++
		}
	case Drain:
		o.Node = node
		if g.drained[node] {
			o.Verb = Uncordon
		}
		g.drained[node] = !g.drained[node]
	case StepClock:
		o.Node, o.Args = node, []Arg{{"by", []string{"-1h", "1h", "-24h", "-10s", "10s"}[g.r.IntN(5)]}}
	case Image:
		o.Role, o.Args = Role{name, "app"}, []Arg{{"to", fmt.Sprintf("registry.test/app:%d", 2+g.r.IntN(3))}}
	case Replicas: // the first is always a workload
		o.Role, o.Args = Role{Pod: names[0]}, []Arg{{"to", fmt.Sprint(g.r.IntN(8))}}
	case Exit:
		o.Role, o.Args = Role{name, "app"}, []Arg{{"code", fmt.Sprint(g.r.IntN(3))}}
	case OOM, Vanish:
		o.Role = Role{name, "app"}
	case Delete, EndSandbox:
		o.Role = Role{Pod: name}
	default:
		o.Node, o.Args = node, []Arg{wait}
	}
	g.add(o)
}
