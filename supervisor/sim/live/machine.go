package live

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/nodestatus"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/node"
	"github.com/troupe-dev/troupe/actors/objects"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/apiclient/events"
	"github.com/troupe-dev/troupe/cri/simcri"
)

// machine is one simulated machine and its agent, on the wall clock.
//
//	empty ──start──► learning ──pods and node are known──► agent runs
//	                                                        │      ▲
//	  (another process had it meanwhile: discarded)       stop   start
//	                                                        ▼      │
//	                                                      agent stopped, runtime as it was
//
// Learning is to find out what another process has left behind: see remains.
type machine struct {
	pool  *pool
	name  string
	index int
	host  *host
	api   *nodeAPI

	mu      sync.Mutex
	runtime *simcri.Runtime // nil until all is known
	runner  *kernel.Runner  // nil while no agent runs
	root    kernel.Ref[node.Message]
	events  *events.Recorder
	// wanted: it is to run. stopped ends the learning; nil while it is stopped.
	wanted  bool
	stopped context.CancelFunc
}

// pool is what the machines of the process share.
type pool struct {
	config *Config
	system *kernel.System
	hub    *hub
	gate   *gate
	census *census
	images *simcri.Registry
	work   sync.WaitGroup // of machines that learn
}

func newMachine(p *pool, index int) *machine {
	m := &machine{pool: p, name: p.config.nodeName(index), index: index}
	address := netip.AddrFrom4([4]byte{192, 168, byte(index >> 8), byte(index)}).String()
	m.host = newHost(&port.Machine{
		Capacity: p.config.Capacity, Allocatable: p.config.Capacity,
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}, {Type: v1.NodeHostName, Address: m.name}},
		Info: v1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: "amd64", KernelVersion: "6.1.0", OSImage: "simulated by troupe",
			KubeletVersion: agentVersion, MachineID: m.name, SystemUUID: m.name, BootID: "1",
		},
	})
	m.api = &nodeAPI{API: p.config.API, node: m.name, hub: p.hub, gate: p.gate, census: p.census, begun: map[port.APIKind]*head{}}
	return m
}

// agentVersion is what nodes say of their agent: a version of Kubernetes.
const agentVersion = "v1.36.0"

// start starts the agent; on a machine that is empty once it is known what there is.
func (m *machine) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = true
	m.startLocked()
}

func (m *machine) startLocked() {
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
func (m *machine) learnLocked(pods, object []port.APIObject) {
	log := &m.pool.config.Log
	rt, err := simcri.New(simcri.Config{
		Clock: kernel.WallClock{}, Registry: m.pool.images,
		PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(m.index >> 8), byte(m.index), 0}), 24),
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
		seen, found := remains(p)
		if !found {
			continue
		}
		if err := rt.Adopt(p, seen); err != nil {
			log.Warn().Str("node", m.name).Str("error", err.Error()).Msg("cannot rebuild a pod from its status; starting it from scratch")
		}
	}
	m.runtime = rt
}

func (m *machine) spawnLocked() {
	c := m.pool.config
	recorder, err := events.New(events.Config{
		API: m.api, Clock: kernel.WallClock{}, Component: "kubelet", Host: m.name,
		Queue: 256, Calls: 1, Cache: 128, Deadline: eventDeadline, Retry: 10 * time.Second,
		Wait: events.Wait, Busy: c.Busy, Patience: eventPatience, Dropped: func(port.Event, error) { m.pool.census.dropped() },
	})
	if err != nil {
		panic(err) // nothing in it is the user's
	}
	runner, err := kernel.NewRunner(m.pool.system, pools()...)
	if err != nil {
		panic(err) // the pools are ours
	}
	// The actors of an agent before this one are gone within a message each.
	m.pool.system.Until(m.name, stopPatience)
	root, err := kernel.SpawnRoot(m.pool.system, kernel.Spec[node.Message]{
		Name: m.name, Kind: "node", New: node.New(m.agentConfig(recorder)), Policy: kernel.ForRoot, Runner: runner,
	})
	if err != nil {
		c.Log.Error().Str("node", m.name).Str("error", err.Error()).Msg("cannot start the agent")
		recorder.Close()
		return
	}
	m.runner, m.root, m.events = runner, root, recorder
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

func pools() []kernel.Pool {
	const starts = 8 // as on a machine of four cores
	all := append(probes.Pools(starts), objects.Pools()...)
	return append(append(all, pod.Pools(starts, starts/2)...),
		kernel.Pool{Name: images.PullPool, Size: 64, MinHold: 10 * time.Minute, MaxHold: 30 * time.Minute})
}

// agentConfig has the intervals of the daemon's defaults. Its pools differ: images
// are pulled 64 at once.
func (m *machine) agentConfig(recorder port.Recorder) *node.Config {
	c := m.pool.config
	labels := c.nodeLabels(m.name)
	facts := m.host.machine
	cluster := node.DefaultCluster(nodestatus.Own{Name: m.name, Labels: labels, Taints: c.Taints})
	// Objects are made up when they are asked for: there are no changes.
	cluster.Detection, cluster.NoServices = objects.Get, true
	return &node.Config{
		Name: m.name, HostIPs: []string{facts.Addresses[0].Address}, RuntimeName: "simcri",
		Admit:        admit.Node{Name: m.name, OS: "linux", Arch: "amd64", Labels: labels, Taints: c.Taints, Allocatable: facts.Allocatable, AppArmor: true, StrictGroups: true},
		CrashBackOff: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		ContainerGC:  podgc.Default(), GCPeriod: time.Minute,
		RelistSlow: time.Minute, RelistFast: time.Second, PullDeadline: time.Hour,
		Cluster: cluster,
		Ports: node.Ports{
			Runtime: m.runtime, Host: m.host, Network: m.runtime.Network(), Manifests: m.host,
			Checkpoints: m.host, Events: recorder, API: m.api, Facts: m.host, Load: c.Load,
		},
	}
}

// stop ends the agent. Its writes that are under way come to their end, if that is
// before ctx ends. The containers run on.
func (m *machine) stop(ctx context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = false
	m.stopLocked(ctx)
}

func (m *machine) stopLocked(ctx context.Context) {
	if m.stopped == nil {
		return
	}
	m.stopped()
	m.stopped = nil
	m.api.drop()
	if m.runner == nil {
		return
	}
	kernel.KillRoot(m.root)
	m.events.Close()
	none, cancel := context.WithCancel(ctx)
	cancel()
	_ = m.runner.Drain(none, pod.StartPool) // only so that nothing begins any more
	m.api.settle(ctx)
	m.runner.Close()
	m.runner, m.root, m.events = nil, kernel.Ref[node.Message]{}, nil
	m.pool.system.Until(m.name, stopPatience)
	m.pool.census.left(m.name)
}

// discard forgets the runtime: another process has the node, or had it. Nothing
// runs in it any more.
func (m *machine) discard() {
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
	m.host = newHost(m.host.machine)
}

// killed is how a container ends by SIGKILL.
const killed = 137

// restart starts a failed agent again, as systemd would.
func (m *machine) restart() {
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
