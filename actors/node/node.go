// Package node is the topmost actor of one node. It spawns the other actors,
// connects them to each other and to the ports, and fails if one of them cannot be
// kept running. The tree is in the documentation of package actors.
//
// Actors that only answer are spawned first. Actors that send the first messages
// are spawned last.
package node

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/assignments"
	"github.com/troupe-dev/troupe/actors/cgroups"
	"github.com/troupe-dev/troupe/actors/claims"
	"github.com/troupe-dev/troupe/actors/credentials"
	"github.com/troupe-dev/troupe/actors/csi"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/gc"
	"github.com/troupe-dev/troupe/actors/images"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/logs"
	"github.com/troupe-dev/troupe/actors/nodestatus"
	"github.com/troupe-dev/troupe/actors/oom"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/podset"
	"github.com/troupe-dev/troupe/actors/podview"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/prepull"
	"github.com/troupe-dev/troupe/actors/probes"
	"github.com/troupe-dev/troupe/actors/sources"
	"github.com/troupe-dev/troupe/actors/volumes"
)

// Message is what the node actor understands.
//
//sumtype:decl
type Message interface{ isNodeMessage() }

// RuntimeHealth is from pleg, after each list.
type RuntimeHealth struct{ pleg.Health }

// Query asks for the node's health. Reply must not block. Any answer is the sign of life.
type Query struct{ Reply func(Health) }

// Health is the node's health.
type Health struct {
	Runtime pleg.Health
}

// PodView is relayed to podview, which is spawned with the first of them: a node without queries
// has none. From anyone.
type PodView struct{ podview.Message }

func (PodView) isNodeMessage()       {}
func (RuntimeHealth) isNodeMessage() {}
func (Query) isNodeMessage()         {}

// MailboxKey implements kernel.Keyed.
func (RuntimeHealth) MailboxKey() string { return "runtime" }

// Ports are the node's connections to the outside.
type Ports struct {
	Runtime port.Runtime
	Host    port.Host
	Network port.Network
	// Files may be nil: containers then have none of their own.
	Files       port.ContainerFiles
	Manifests   port.Manifests
	Checkpoints port.Checkpoints
	// States are the state files that a kubelet has too (decide/cpus, decide/memory, decide/claims); needed
	// with Config.Assign and DRADrivers. DeviceStates has the one of devices (decide/devicestate); needed with
	// DevicePlugins.
	States, DeviceStates port.Checkpoints
	// DevicePlugins are the machine's; nil: containers get no devices. They need Config.Assign.
	DevicePlugins port.DevicePlugins
	// DRADrivers are the machine's drivers of dynamic resource allocation, and ResourceSlices what they offer. Either is
	// nil where pods can't have ResourceClaims. They need API and States.
	DRADrivers     port.DRADrivers
	ResourceSlices port.ResourceSlices
	// PullRecords are how images were pulled; nil: they are not kept, and Config.PullPolicy is not used.
	PullRecords port.PullRecords
	// CredentialPlugins are the machine's; nil: images are pulled with pull secrets only.
	CredentialPlugins port.CredentialPlugins
	// CSI are the machine's CSI drivers; nil: pods have no volumes of them. They need API.
	CSI    port.CSI
	Events port.Recorder
	// Logs are container logs, which LogReopener's runtime writes. Both are nil where there are
	// none.
	Logs        port.ContainerLogs
	LogReopener port.LogReopener
	// LogLinks may be nil: container logs then have no links.
	LogLinks port.LogLinks
	// Cgroups is nil where pods have no cgroups of their own.
	Cgroups port.Cgroups
	// API is the apiserver, nil for none: then the node runs static pods only. API requires
	// Facts. Facts may be nil without it: then the machine stays what it is in Config.
	API   port.API
	Facts port.NodeFacts
	// Pressure measures what is left of the node's resources; nil: no pod is evicted.
	Pressure port.Pressure
	// OOM tells of the kernel's OOM killer; nil: there are no events of it.
	OOM port.OOMKills
	// PodNetwork is told the node's pod networks; nil if the runtime need not know.
	PodNetwork port.PodNetwork
	// Inhibitor delays the shutdown of the machine; nil where there is none.
	Inhibitor port.Inhibitor
	// Load reports the write load of all users of the connection (status.Deps); nil for a low
	// one.
	Load func() (busy, crowded bool)
}

// Config is the node's configuration.
type Config struct {
	// RuntimeName precedes "://" in container IDs. HostIPs are the node's addresses. PreferIPv6: it comes first in pods.
	Name, RuntimeName string
	Ports             Ports
	HostIPs           []string
	PreferIPv6        bool
	// Admit is how pods are admitted. FeaturesUnknown: the runtime has not said yet which features it has.
	Admit           admit.Node
	FeaturesUnknown bool
	// Devices are those of device plugins that a kubelet left on this machine, nil for none.
	Devices *devicestate.State
	// Assign is how containers get CPUs and devices of their own; nil: none does.
	Assign *cpus.Rules
	// Memory is how containers get memory of their own; nil: none does. It needs Assign.
	Memory *memory.Rules
	// DeviceHealth: the status of pods says how the devices of their containers are. HealthMessages: and what their
	// drivers say of that.
	DeviceHealth, HealthMessages bool
	// Sources are where static pods come from.
	Sources sources.Settings
	// CrashBackOff is the node's crash-loop backoff.
	CrashBackOff backoff.Policy
	ContainerGC  podgc.Policy
	GCPeriod     time.Duration
	// ImageGC says when images that nobody uses are removed.
	ImageGC imagecache.GCPolicy
	// Logs is how container logs are kept small.
	Logs logs.Settings
	// Cgroups configures the cgroups of pods. Without the port, only its CPU quota setting
	// counts.
	Cgroups podcgroup.Settings
	// RelistSlow is the time between relists while events arrive, RelistFast without events.
	RelistSlow, RelistFast       time.Duration
	PullDeadline, RequestTimeout time.Duration // of a pull, and of other calls (runtimeRequestTimeout)
	// PullRate limits how many pulls begin.
	PullRate imagepull.Bucket
	// PullPolicy says which pods may use an image that is there; nil: all.
	PullPolicy *imagepull.VerificationPolicy
	// PullAhead are the images that are pulled before a pod wants them.
	PullAhead []imagecache.Image
	// Providers are the credential provider plugins that Ports.CredentialPlugins runs.
	Providers []imagepull.Provider
	// Eviction is how the node protects itself.
	Eviction eviction.Policy
	// Shutdown is how pods end while the machine shuts down; none: a shutdown does not wait for them.
	Shutdown shutdown.Groups
	// Cluster is unused without an apiserver.
	Cluster Cluster
	// Wrap may replace the behavior of a pod's actor, for tests with faults.
	Wrap func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message]
	// Observer is nil for none.
	Observer Observer
	// Around, if set, wraps the handling of each message of the other actors, for
	// tests with faults.
	Around Around
}

// New makes the constructor of the topmost actor.
func New(c *Config) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &node{config: c} }
}

type node struct {
	config *Config
	health Health
	podset kernel.Ref[podset.Message]
	// view is zero until the first query. nodestatus is zero without an apiserver.
	view       kernel.Ref[podview.Message]
	nodestatus kernel.Ref[nodestatus.Message]
}

// callDeadline bounds calls that are fast on a healthy runtime.
const callDeadline = 2 * time.Minute

// imageLookPeriod is the time between looks at the disk of images, imageListPeriod between lists of the images in
// use.
const (
	imageLookPeriod = time.Minute
	imageListPeriod = 5 * time.Minute
)

// logStepDeadline bounds a step with a log. A log that grew for long may be a file of many
// gigabytes to compress.
const logStepDeadline = 10 * time.Minute

// Start implements kernel.Behavior.
func (n *node) Start(ctx *kernel.Context[Message]) {
	c, b := n.config, &nodeActors{}
	b.pods = spawn(ctx, c.Around, "pods", pods.New(b.podsDeps(c)))
	b.spawnPodset(n, ctx)
	n.podset = b.podset
	b.spawnServers(ctx, c)
	if ctx.Incarnation() > 1 {
		b.podset.Tell(podset.AskCollecting{})
	}
	b.spawnSources(ctx, c)
	b.spawnDevices(ctx, c)
	b.spawnCSI(ctx, c)
	n.nodestatus = b.above.nodestatus
}

// nodeActors are the actors of a node during their spawning. A sender may refer to a field that is not
// set yet: no actor sends before sources and pleg do.
type nodeActors struct {
	pods        kernel.Ref[pods.Message]
	podset      kernel.Ref[podset.Message]
	assignments kernel.Ref[assignments.Message]
	claims      kernel.Ref[claims.Message]
	csi         kernel.Ref[csi.Message]
	devices     kernel.Ref[devices.Message]
	images      kernel.Ref[images.Message]
	prepull     kernel.Ref[prepull.Message]
	credentials kernel.Ref[credentials.Message]
	volumes     kernel.Ref[volumes.Message]
	resources   kernel.Ref[cgroups.Message]
	probes      kernel.Ref[probes.Message]
	gc          kernel.Ref[gc.Message]
	sources     kernel.Ref[sources.Message]
	pleg        kernel.Ref[pleg.Message]
	above       cluster
	values
}

// spawnServers spawns the actors that only answer.
func (b *nodeActors) spawnServers(ctx *kernel.Context[Message], c *Config) {
	self := ctx.Self()
	askAgain := func() { b.podset.Tell(podset.AskAgain{}) }
	b.spawnImages(ctx, c)
	if c.Assign != nil {
		d := &assignments.Deps{
			Rules: c.Assign, Memory: c.Memory, Files: c.Ports.States, Restarted: askAgain,
			Counts: c.Observer, Health: c.DeviceHealth, Standalone: c.Ports.API == nil,
			Answer: func(m assignments.Answer) { b.podset.Tell(podset.Placed{Answer: m}) },
		}
		if c.Ports.DevicePlugins != nil {
			d.Plugins, d.DeviceFiles = c.Ports.DevicePlugins, c.Ports.DeviceStates
		}
		b.assignments = spawn(ctx, c.Around, "assignments", assignments.New(d),
			kernel.Follow(&b.plugins, func(s devices.Snapshot) assignments.Message { return assignments.Plugins{Snapshot: s} }))
	}
	b.spawnClaims(ctx, c)
	d := &volumes.Deps{
		Host: c.Ports.Host, Events: c.Ports.Events, API: c.Ports.API, Restarted: askAgain,
		Backoff: backoff.Policy{Base: 500 * time.Millisecond, Max: 2 * time.Minute}, Deadline: callDeadline,
		Allocatable: c.Admit.Allocatable, SELinux: c.Cluster.SELinux,
	}
	b.useCSI(c, d)
	b.volumes = spawn(ctx, c.Around, "volumes", volumes.New(d),
		kernel.Follow(&b.node, func(n *v1.Node) volumes.Message { return volumes.NodeSeen{Node: n} }))
	if c.Ports.Cgroups != nil {
		b.resources = spawn(ctx, c.Around, "cgroups", cgroups.New(&cgroups.Deps{
			Cgroups: c.Ports.Cgroups, Settings: c.Cgroups, Events: c.Ports.Events, Node: c.Name, Restarted: askAgain,
			Living:  b.living(true),
			Backoff: backoff.Policy{Base: 500 * time.Millisecond, Max: time.Minute}, Period: c.GCPeriod, Deadline: callDeadline,
		}), kernel.Follow(&b.resized, func(n *v1.Node) cgroups.Message { return cgroups.NodeSeen{Node: n} }))
	}
	b.probes = spawn(ctx, c.Around, "probes", probes.New(&probes.Deps{
		Runtime: c.Ports.Runtime, Network: c.Ports.Network, Events: c.Ports.Events, Checkpoints: c.Ports.Checkpoints,
		Restarted: askAgain, RequestTimeout: c.RequestTimeout,
	}))
	b.gc = spawn(ctx, c.Around, "gc", gc.New(&gc.Deps{
		Runtime: c.Ports.Runtime, Host: c.Ports.Host, Logs: c.Ports.Logs, LogLinks: c.Ports.LogLinks, Restarted: askAgain,
		Living: func(ended bool, reply func(map[types.UID]bool, bool)) {
			b.podset.Tell(podset.Living{Spent: true, Ended: ended, Reply: reply})
		},
		Abandoned: func(uid types.UID) { b.podset.Tell(podset.Abandoned{UID: uid}) },
		Collected: func(uid types.UID, stuck bool) { b.podset.Tell(podset.Collected{UID: uid, Stuck: stuck}) },
		Policy:    c.ContainerGC, Period: c.GCPeriod, Deadline: callDeadline,
		Backoff: backoff.Policy{Base: 5 * time.Second, Max: 5 * time.Minute}, Events: c.Ports.Events, Node: c.Name,
	}))
	if c.Ports.Logs != nil && c.Logs.Policy.MaxSize > 0 {
		spawn(ctx, c.Around, "logs", logs.New(&logs.Deps{
			Files: c.Ports.Logs, Runtime: c.Ports.LogReopener, Settings: c.Logs,
			Running:  func(reply func([]*v1.Pod)) { self.Tell(PodView{podview.Find{Reply: reply}}) },
			Deadline: callDeadline, StepDeadline: logStepDeadline,
		}))
	}
	if c.Ports.API != nil {
		b.above.spawnServers(ctx, c, b)
	}
}

// spawnSources spawns the actors that send the first messages.
func (b *nodeActors) spawnSources(ctx *kernel.Context[Message], c *Config) {
	self := ctx.Self()
	if c.Ports.API != nil {
		b.above.spawnNodeStatus(ctx, c, b)
	}
	b.sources = spawn(ctx, c.Around, "sources", sources.New(&sources.Deps{
		Manifests: c.Ports.Manifests, Checkpoints: c.Ports.Checkpoints, NodeName: c.Name,
		Update:   func(u sources.Update) { b.podset.Tell(podset.Wanted{Update: u}) },
		Settings: c.Sources,
		Deadline: time.Minute, Remade: func(uids []types.UID) { b.podset.Tell(podset.Remade{UIDs: uids}) },
	}))
	b.pleg = spawn(ctx, c.Around, "pleg", pleg.New(&pleg.Deps{
		Runtime:  c.Ports.Runtime,
		Snapshot: func(s pleg.Snapshot) { b.podset.Tell(podset.Listed{Snapshot: s}) },
		Hint:     func(h pleg.Hint) { b.pods.Tell(pods.Hint{Hint: h}) },
		Seen:     func(s pleg.Seen) { b.podset.Tell(podset.Seen{Seen: s}) },
		Health:   func(h pleg.Health) { self.Tell(RuntimeHealth{h}) },
		Back: func() {
			b.pods.Tell(pods.RuntimeBack{})
			b.images.Tell(images.RuntimeBack{})
			b.gc.Tell(gc.RuntimeBack{})
		},
		Slow: c.RelistSlow, Fast: c.RelistFast, Deadline: callDeadline, Impatience: 2 * time.Second,
	}))
	if c.Ports.API != nil {
		b.above.spawnSources(ctx, c, b.podset)
	}
	if c.looks() {
		b.spawnMachine(ctx, c)
	}
	if c.Ports.Pressure != nil && c.Eviction.Acts() {
		b.spawnEviction(ctx, c)
	}
	if c.Ports.OOM != nil {
		spawn(ctx, c.Around, "oom", oom.New(&oom.Deps{
			NodeName: c.Name, Kills: c.Ports.OOM, Events: c.Ports.Events, Deadline: callDeadline,
			Pods: func(reply func([]*v1.Pod)) { self.Tell(PodView{podview.Find{Reply: reply}}) },
		}))
	}
	if c.Ports.Inhibitor != nil && len(c.Shutdown) > 0 {
		b.spawnShutdown(ctx, c)
	}
}

// spawn spawns a singleton that follows some values.
func spawn[M any](
	ctx *kernel.Context[Message], f Around, name string, construct func() kernel.Behavior[M],
	follows ...kernel.Subscription[M],
) kernel.Ref[M] {
	return spawnAs(ctx, f, kernel.Spec[M]{Name: name, New: construct, Follows: follows})
}

// spawnAs spawns one with its spec. Its name cannot be taken, because a restart waits until all
// children have ended.
func spawnAs[M any](ctx *kernel.Context[Message], f Around, spec kernel.Spec[M]) kernel.Ref[M] {
	spec.New = Wrapped(f, spec.Name, spec.New)
	ref, err := kernel.Spawn(ctx, spec)
	if err != nil {
		panic(err)
	}
	return ref
}

// Receive implements kernel.Behavior.
func (n *node) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case PodView:
		if n.view.IsZero() {
			n.view = n.spawnView(ctx)
		}
		n.view.Tell(m.Message)
	case RuntimeHealth:
		n.listed(m.Health)
	case Query:
		m.Reply(n.health)
	}
}

func (n *node) spawnView(ctx *kernel.Context[Message]) kernel.Ref[podview.Message] {
	return spawnAs(ctx, n.config.Around, kernel.Spec[podview.Message]{
		Name: "podview", Policy: podview.Policy,
		New: podview.New(&podview.Deps{
			NodeName: n.config.Name, Counts: n.config.Observer,
			Ask: func(q podset.Query) { n.podset.Tell(q) },
		}),
	})
}
