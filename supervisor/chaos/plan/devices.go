package plan

import (
	"fmt"
	"time"
)

// plug makes one case in five of one node one with devices and CPUs for containers alone. It has random numbers of its
// own, and what it adds comes after all else, so that the other cases are what they were.
func (g *grower) plug() {
	r := Rand(g.c.Seed, "devices")
	if r.IntN(5) != 0 {
		return
	}
	// Enough for all pods: one that asks too early, before another has given back its own, may be refused.
	g.c.Devices = 2 * len(g.pods)
	for _, name := range g.pods {
		gpus, cpus := r.IntN(3), r.IntN(3)
		for i := range g.c.Ops {
			o := &g.c.Ops[i]
			if o.Role.Pod != name || !forms[o.Verb].shape {
				continue
			}
			if gpus > 0 {
				o.Args = append(o.Args, Arg{"gpus", fmt.Sprint(gpus)})
			}
			if cpus > 0 {
				o.Args = append(o.Args, Arg{"cpus", fmt.Sprint(cpus)})
			}
		}
	}
	for range r.IntN(4) {
		g.at += time.Duration(1+r.IntN(20)) * time.Second
		verb := []Verb{StopPlugin, BreakGPUs, Restart, Power}[r.IntN(4)]
		g.add(Op{Verb: verb, Args: []Arg{{"for", fmt.Sprintf("%ds", 1+r.IntN(30))}}})
	}
}
