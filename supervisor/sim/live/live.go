// Package live runs simulated nodes against a real apiserver, on the wall clock:
// they register, hold leases, run what is scheduled to them on simulated runtimes,
// and report status, all by the actors of the node agent.
//
//	apiserver ──one watch for all nodes (watchMux)──► nodeAPI ──► agent of node 1 ──► simcri of node 1
//	    ▲                                             nodeAPI ──► agent of node 2 ──► simcri of node 2
//	    │                                               │  …
//	    ├────── so many writes at a time (writeLimit) ──┘
//	    └────── leases of this process (member): which of the nodes it runs
//
// Several processes share the nodes: see member, and the package sharing for what
// decides. A node that changes hands continues where it was: what its runtime had is
// found out from the status of its pods (fromStatus).
package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
)

// Summary is what a run came to, as far as this process ran it.
type Summary struct {
	// Nodes that there are, and those of them that ran here at the end.
	Nodes     int `json:"nodes"`
	NodesHere int `json:"nodesHere"`
	// Pods of the nodes that ran here.
	Pods        int     `json:"pods"`
	PodsRunning int     `json:"podsRunning"`
	PodsReady   int     `json:"podsReady"`
	WallSeconds float64 `json:"wallSeconds"`
	HeapBytes   uint64  `json:"heapBytes"`
	// Start is how long pods took from being heard of to being Ready.
	Start struct {
		P50 float64 `json:"p50"`
		P90 float64 `json:"p90"`
		P99 float64 `json:"p99"`
	} `json:"startLatencyMs"`
	Restarts int `json:"restarts"`
	// Taken is how many nodes were taken, the first time included; Fenced how often
	// the process had to stop its nodes because its own lease was not renewed.
	Taken  int `json:"nodesTaken"`
	Fenced int `json:"fenced"`
	// LeaseGapSeconds is the longest time between two renewals of a node's lease, LeasesLate
	// counts gaps longer than the lease's duration.
	LeaseGapSeconds float64 `json:"leaseGapSeconds"`
	LeasesLate      int     `json:"leasesLate"`
	// EventsDropped are events of pods that could not be written, or exceeded the queue.
	EventsDropped int `json:"eventsDropped"`
	// Crashes of actors.
	Crashes     int  `json:"crashes"`
	Interrupted bool `json:"interrupted"`
}

// preflight is how long the apiserver may take to answer before anything is done.
const preflight = 20 * time.Second

// Run runs nodes until ctx ends, and gives its nodes to the other processes then.
// The pods are left as they are.
func Run(ctx context.Context, c Config) (*Summary, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := look(ctx, &c); err != nil {
		return nil, err
	}
	began := time.Now()
	p := &pool{
		config: &c, watches: newWatchMux(c.API), limit: &writeLimit{free: c.Writes}, stats: newPodStats(),
		images: simcri.NewRegistry(),
	}
	restarts := make(chan string, c.Nodes)
	var err error
	p.system, err = kernel.NewSystem(kernel.Config{
		Clock: kernel.WallClock{}, Seed: rand.Uint64(), Log: c.NodeLog, History: -1,
		OnCrash: func(r *kernel.CrashReport) {
			p.stats.crashed()
			agent.Crashed(p.system, r)
		},
		OnFatal: func(r *kernel.CrashReport) {
			c.Log.Error().Str("error", r.Error()).Msg("the agent of a node failed; restarting it")
			select {
			case restarts <- agent.NodeOf(r.Path):
			default: // that many do not wait at once
			}
		},
	})
	if err != nil {
		return nil, err
	}
	m := newMember(&c, p)
	if err := m.join(ctx); err != nil {
		return nil, err
	}
	healing, stop := context.WithCancel(context.Background())
	p.work.Go(func() { m.heal(healing, restarts) })
	c.Log.Info().Int("nodes", c.Nodes).Str("first", c.nodeName(0)).Str("simulation",
		c.Namespace+"/"+c.Name).Str("process", c.Identity).
		Msg("joining the processes that run these nodes")
	var s *Summary
	m.run(ctx, func() { s = m.summary(time.Since(began)) })
	stop()
	p.work.Wait()
	p.watches.Close()
	end, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	return s, p.system.Shutdown(end)
}

// heal starts agents again that gave up.
func (m *member) heal(ctx context.Context, names <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-names:
			for _, s := range m.slots {
				for _, machine := range s.machines {
					if machine.name == name {
						machine.restart()
					}
				}
			}
		}
	}
}

// look finds out, before anything is written, whether the apiserver can be asked,
// whether the names of the nodes are taken, and whether the other processes mean
// the same nodes.
func look(ctx context.Context, c *Config) error {
	ctx, cancel := context.WithTimeoutCause(ctx, preflight,
		fmt.Errorf("the apiserver did not answer within %v", preflight))
	defer cancel()
	read := func(sel port.Selection) ([]port.APIObject, error) {
		all, err := list(ctx, c.API, sel)
		if cause := context.Cause(ctx); err != nil && errors.Is(err, context.DeadlineExceeded) && cause != nil {
			err = cause
		}
		return all, err
	}
	leases, err := read(port.Selection{Kind: port.LeaseKind, Namespace: c.Namespace})
	if err != nil {
		return err
	}
	for _, o := range leases {
		l := o.(*coordinationv1.Lease)
		shape, is := l.Annotations[shapeKey]
		if !is || l.Labels[simulationKey] != c.Name || shape == c.shape() || l.Spec.RenewTime == nil ||
			l.Spec.LeaseDurationSeconds == nil {
			continue
		}
		if good := 2 * time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second; time.Since(l.Spec.RenewTime.Time) < good {
			return fmt.Errorf("simulation %s/%s runs with %s (process %s), but this process has %s: use the same settings in "+
				"all processes, or another --name and --node-prefix",
				c.Namespace, c.Name, shape, *l.Spec.HolderIdentity, c.shape())
		}
	}
	nodes, err := read(port.Selection{Kind: port.NodeKind})
	if err != nil {
		return err
	}
	ours := make(map[string]bool, c.Nodes)
	for i := range c.Nodes {
		ours[c.nodeName(i)] = true
	}
	for _, n := range nodes {
		if ours[n.GetName()] && n.GetLabels()[simulationKey] != c.Name {
			return fmt.Errorf(
				"node %s exists and does not belong to simulation %q: choose another --node-prefix, or delete the node",
				n.GetName(), c.Name,
			)
		}
	}
	return nil
}

func (m *member) summary(wall time.Duration) *Summary {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := &Summary{Nodes: m.config.Nodes, WallSeconds: wall.Seconds(), HeapBytes: mem.HeapAlloc}
	m.mu.Lock()
	for _, slot := range m.slots {
		if slot.running {
			s.NodesHere += len(slot.machines)
		}
	}
	s.Taken, s.Fenced = m.stats.claimed, m.stats.fenced
	m.mu.Unlock()
	m.pool.stats.into(s)
	return s
}
