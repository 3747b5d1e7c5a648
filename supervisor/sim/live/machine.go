package live

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/apiobjects"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/events"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// simNode is one simulated machine and its agent, on the wall clock.
//
//	empty ──start──► learning ──pods and node are known──► agent runs
//	                                                        │      ▲
//	  (another process had it meanwhile: discarded)       stop   start
//	                                                        ▼      │
//	                                                      agent stopped, runtime as it was
//
// Learning is to find out what another process has left behind: see fromStatus.
type simNode struct {
	pool  *pool
	name  string
	index int
	host  *machine.Machine
	api   *nodeAPI

	mu      sync.Mutex
	runtime *simcri.Runtime // nil until all is known
	agent   *agent.Agent    // nil while none runs
	events  *events.Recorder
	// wanted: it is to run. stopped ends the learning; nil while it is stopped.
	wanted  bool
	stopped context.CancelFunc
}

// pool is what the machines of the process share.
type pool struct {
	config  *Config
	system  *kernel.System
	watches *watchMux
	limit   *writeLimit
	stats   *podStats
	images  *simcri.Registry
	work    sync.WaitGroup // of machines that learn
}

func newMachine(p *pool, index int) *simNode {
	m := &simNode{pool: p, name: p.config.nodeName(index), index: index}
	facts := machine.FactsOf(m.name, index, p.config.Capacity)
	facts.Info.OSImage, facts.Info.SystemUUID = "simulated by troupe", m.name
	m.host = machine.New(kernel.WallClock{}, facts)
	m.api = &nodeAPI{API: p.config.API, node: m.name, watches: p.watches, limit: p.limit, stats: p.stats,
		begun: map[port.APIKind]*head{}}
	return m
}

// start starts the agent; on a machine that is empty once it is known what there is.
func (m *simNode) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = true
	m.startLocked()
}

func (m *simNode) startLocked() {
	if m.stopped != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stopped = stop
	if m.runtime != nil {
		m.spawnLocked()
		return
	}
	pods, object := m.api.begin(ctx, podsOf(m.name)), m.api.begin(ctx, objectOf(m.name))
	m.pool.work.Go(func() {
		for _, k := range [...]*head{pods, object} {
			select {
			case <-k.first:
			case <-ctx.Done():
				return
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if ctx.Err() == nil {
			m.learnLocked(pods.objects(), object.objects())
			m.spawnLocked()
		}
	})
}

// learnLocked makes the runtime have what was left behind.
func (m *simNode) learnLocked(pods, object []port.APIObject) {
	log := &m.pool.config.Log
	rt, err := simcri.New(simcri.Config{
		Clock: kernel.WallClock{}, Registry: m.pool.images,
		PodCIDR: machine.PodCIDR(m.index),
		Rand:    func(string) *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())) },
	})
	if err != nil {
		panic(err) // nothing in it is the user's
	}
	for _, o := range object {
		for name, size := range imagesOf(o.(*v1.Node)) { // order-free: a set
			rt.MakeImagePresent(name, simcri.RegistryImage{SizeBytes: size})
		}
	}
	for _, o := range pods {
		p := o.(*v1.Pod)
		seen, found := fromStatus(p)
		if !found {
			continue
		}
		if err := rt.Adopt(p, seen); err != nil {
			log.Warn().Str("node", m.name).Str("error",
				err.Error()).Msg("cannot rebuild a pod from its status; starting it from scratch")
		}
	}
	m.runtime = rt
}

func (m *simNode) spawnLocked() {
	c := m.pool.config
	recorder, err := events.New(events.Config{
		API: m.api, Clock: kernel.WallClock{}, Component: "kubelet", Host: m.name,
		Queue: 256, Calls: 1, Cache: 128, Deadline: eventDeadline, Retry: 10 * time.Second,
		Wait: events.Wait, Busy: c.Busy, Patience: eventPatience, Dropped: func(port.Event, error) {
			m.pool.stats.dropped()
		},
	})
	if err != nil {
		panic(err) // nothing in it is the user's
	}
	// The actors of an agent before this one are gone within a message each.
	m.pool.system.Until(m.name, stopPatience)
	m.agent, err = agent.Start(m.pool.system, m.agentConfig(recorder))
	if err != nil {
		c.Log.Error().Str("node", m.name).Str("error", err.Error()).Msg("cannot start the agent")
		recorder.Close()
		return
	}
	m.events = recorder
}

// eventDeadline bounds how long an event waits for its turn (Config of the client:
// EventQPS) and its answer.
//
// eventPatience is how long an event that is no warning waits while many pods start
// or end.
const (
	eventDeadline = 2 * time.Minute
	eventPatience = 30 * time.Second
)

// agentConfig is the daemon's default configuration on this machine. It differs in
// what no simulated machine has (services, objects that change).
func (m *simNode) agentConfig(recorder port.Recorder) agent.Config {
	pool := m.pool.config
	own := nodeobject.Own{Name: m.name, Labels: pool.nodeLabels(m.name), Taints: pool.Taints}
	c := m.host.Agent(own, m.runtime, recorder)
	// Objects are made up when they are asked for: there are no changes.
	c.Cluster.Objects.Detection = apiobjects.Get
	c.Ports.API, c.Ports.Load = m.api, pool.Load
	return c
}

// stop ends the agent. Its writes that are under way come to their end, if that is
// before ctx ends. The containers run on.
func (m *simNode) stop(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = false
	m.stopLocked(ctx)
}

func (m *simNode) stopLocked(ctx context.Context) {
	if m.stopped == nil {
		return
	}
	m.stopped()
	m.stopped = nil
	m.api.drop()
	if m.agent == nil {
		return
	}
	m.agent.Stop()
	m.events.Close()
	none, cancel := context.WithCancel(ctx)
	cancel()
	_ = m.agent.Runner.Drain(none, pod.StartPool) // only so that nothing begins any more
	m.api.settle(ctx)
	m.agent.Runner.Close()
	m.agent, m.events = nil, nil
	m.pool.system.Until(m.name, stopPatience)
	m.pool.stats.left(m.name)
}

// discard forgets the runtime: another process has the node, or had it. Nothing
// runs in it any more.
func (m *simNode) discard() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runtime != nil {
		m.runtime.Kill()
		for _, p := range m.runtime.Truth().Runtime.Pods {
			for i := range p.Containers {
				_ = m.runtime.EndContainer(p.Containers[i].ID, simcri.Exit{Code: killed}) // it may have ended
			}
		}
	}
	m.runtime = nil
	m.host = machine.New(kernel.WallClock{}, m.host.Facts.Get())
}

// killed is how a container ends by SIGKILL.
const killed = 137

// restart starts a failed agent again, as systemd would.
func (m *simNode) restart() {
	ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted {
		m.stopLocked(ctx)
		m.startLocked()
	}
}

// stopPatience is how long the end of an agent may take.
const stopPatience = 2 * time.Second
