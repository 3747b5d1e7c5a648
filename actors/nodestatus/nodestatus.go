// Package nodestatus is the actor that keeps the Node object and the lease in the
// apiserver. It registers the node, writes its status, and renews its lease.
//
//	nodestatus ──Watch, Get, Create, Patch──► apiserver (Node)
//	nodestatus ──Get, Create, Update──► apiserver (Lease)
//	nodestatus ──Version, Status, ListImages, SetPodCIDR──► runtime      ──Machine──► facts
//	nodestatus ──Seen──► podset, mirrors, volumes, cgroups      ──Volumes──► csi ──InUse──► nodestatus
//	podset ──ReadNode──► nodestatus ──Read──► podset
//
// The package nodestatus in decide computes the content of the object. An idle node
// costs one call to the runtime and one renewal of the lease per period, and a write
// when something has changed or the report is due. If a client deletes the object, the
// node registers again, and stays cordoned if it was.
//
// After a restart the actor reads everything again. The lease is renewed first, by
// separate calls: it waits neither for the watch of the Node nor for the runtime.
package nodestatus

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// API is what the actor uses of port.API.
type API interface {
	portcall.Watcher
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	Create(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
	Update(ctx context.Context, o port.APIObject, done func(port.APIObject, error))
	Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error))
}

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	Version(ctx context.Context, done func(port.RuntimeVersion, error))
	Status(ctx context.Context, done func(port.RuntimeStatus, error))
	ListImages(ctx context.Context, done func([]observed.Image, error))
}

// Settings are what the configuration says of the Node.
type Settings struct {
	// Register reports whether this actor makes the node's object; otherwise it waits until another client has
	// (registerNode).
	Register bool
	// MaxImages is how many images the node shows (nodeStatusMaxImages), less than 0 for all.
	MaxImages int
	// StatusPeriod is how often the runtime is polled (nodeStatusUpdateFrequency), ReportPeriod how often an unchanged
	// status is written (nodeStatusReportFrequency).
	StatusPeriod, ReportPeriod time.Duration
	// LeaseDuration is how long the lease is valid (nodeLeaseDurationSeconds). It is renewed at a quarter of that.
	LeaseDuration time.Duration
	// Addresses, if set, gets those that the node has in the apiserver, when they have changed. It must not block.
	Addresses func([]v1.NodeAddress)
}

func (s *Settings) leasePeriod() time.Duration { return s.LeaseDuration / 4 }

// Deps are what the actor needs.
type Deps struct {
	Settings
	API     API
	Runtime Runtime
	Facts   port.NodeFacts
	Events  port.Recorder
	// Plugins: there are device plugins, of which Devices come.
	Plugins bool
	// Own is the configured part of the node. Devices are those of device plugins, nil for none. Checkpoints are used
	// only if they are lost.
	Own         *nodeobject.Own
	Devices     *devicestate.State
	Checkpoints port.Checkpoints
	// Seen publishes the object when it was replaced, when its labels, taints, extended resources or features changed, or
	// when the machine did. Its resources and addresses are those that this actor writes next: all who use them know
	// them before others learn of them and act on them.
	Seen func(*v1.Node)
	// Read is told the number of a ReadNode, once the object was read or can't be.
	Read func(number uint64)
	// Known says whether that is what they read at the agent's start, and need not be told; nil: it is not. Changed
	// publishes the object too once it was not; nil: nobody is told.
	Known   func(*port.Machine) bool
	Changed func(*v1.Node)
	// Volumes publishes the object when it was replaced, or when its volumes, labels or annotations changed. Nil without
	// CSI drivers: else InUse and CSINodeWritten come.
	Volumes func(*v1.Node)
	// SetPodCIDR tells the runtime the networks of this node's pods, comma-separated; nil if it need not know.
	SetPodCIDR func(ctx context.Context, cidr string, done func(error))
	// Backoff is for failed calls to the apiserver.
	Backoff backoff.Policy
	// Deadline bounds a call to the apiserver. Patience is how long a watch may be silent before
	// it is replaced.
	Deadline, Patience time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		n := &nodestatus{deps: deps, runtime: runtimeView{patience: firstPoll}, unreadLease: true}
		if deps.Plugins {
			n.devices = map[v1.ResourceName]nodeobject.Devices{}
			for _, name := range deps.Devices.Resources() {
				n.devices[name] = nodeobject.Devices{} // until their plugin registers
			}
		}
		return n
	}
}

type nodestatus struct {
	deps *Deps
	// watch is the current watch, watches their number so far, heard the last one that reported
	// anything.
	watch   kernel.EffectID
	watches int
	heard   kernel.EffectID
	// listed is true once it is known whether the apiserver has the node; node is its object.
	// watched is true once a watch said so, and heardOf is the last version from a watch.
	listed, watched bool
	node, heardOf   *v1.Node
	seen            *v1.Node
	addresses       []v1.NodeAddress // those that were told last

	podNetwork podNetwork
	reset      reset

	pressure eviction.Conditions
	// devices are those of device plugins, nil where there can be none.
	devices map[v1.ResourceName]nodeobject.Devices
	// inUse are the volumes in use, nil while they are not known. volumesSeen is the Node that Volumes was told of last.
	inUse       []v1.UniqueVolumeName
	volumesSeen *v1.Node
	csiShown    bool // the CSINode was written
	runtime     runtimeView
	machine     *port.Machine
	changing    bool // machine is not what the agent read at its start, or was not
	images      []v1.ContainerImage
	// looked is when machine and images were last read.
	looked time.Time
	// reading are the effects of these reads; results of others are late.
	reading [6]kernel.Call
	// toRead is the last reading of the object that pods asked for and that has not begun, 0 for none; begun has begun.
	toRead, begun uint64

	// facts were last computed from all this and from gathered; they are never changed. dirty
	// says that the object may differ from them.
	facts    *nodeobject.Facts
	gathered *port.Machine
	dirty    bool
	// wrote are the facts last written, acks how often that was acknowledged. What the apiserver
	// does not keep is written twice and not a third time. Once is not enough, because an earlier
	// write whose answer was lost may have worked. Labels (labelled) are not written again
	// either, until another client changes the object. starts: the object was not met before, so more of its metadata
	// is set (nodeobject.Meta).
	wrote    *nodeobject.Facts
	acks     int
	labelled bool
	starts   bool
	// labelAt is when labels are written that the apiserver has refused, zero if it has not. The status does not wait.
	labelAt time.Time
	// call is the running call about the node's object.
	call     kernel.Call
	failures int
	unread   int // how often in a row the object could not be read
	retrying bool
	at       time.Time // of the last write
	// before is the status that the last write was to change, in the version that it was based
	// on.
	before *v1.NodeStatus
	from   *v1.Node
	report time.Time // when the next report is due

	lease *coordinationv1.Lease
	// unreadLease: the apiserver may have another lease than the known one.
	unreadLease   bool
	leaseCall     kernel.Call
	leaseFailures int
	leaseTimer    kernel.Alarm[Message]
	told          bool // the apiserver's failure was logged
	shuttingDown  bool // the machine is
}

// Check implements kernel.Checked.
func (n *nodestatus) Check() error { return n.reset.Check() }

// Indexes of reading.
const (
	readVersion = iota
	readStatus
	readMachine
	readImages
	readNode
	readAsked
)

const (
	watchKind = "WatchNode"
	// firstPoll is the time between polls of the runtime until the node is first ready, notReady
	// later while it is not.
	firstPoll = 200 * time.Millisecond
	notReady  = time.Second
	// pollDeadline bounds a poll of the runtime.
	pollDeadline = 5 * time.Second
	// unheardOf is how long the node's watch may be silent before the node is read instead, for
	// the first time.
	unheardOf = time.Second
	// lookEvery is the time between reads of machine and images.
	lookEvery = time.Minute
)

// Start implements kernel.Behavior.
func (n *nodestatus) Start(ctx *kernel.Context[Message]) {
	// A random delay, so that a thousand nodes do not report at once.
	n.report = ctx.Now().Add(n.deps.ReportPeriod/2 + time.Duration(ctx.Rand().Int64N(int64(n.deps.ReportPeriod))))
	if ctx.Incarnation() == 1 {
		n.record(ctx, nodeobject.Starting())
	}
	n.renew(ctx)
	n.loadMark(ctx)
	n.open(ctx)
	ctx.After(unheardOf, reread{})
	n.look(ctx)
	n.poll(ctx)
}

// Overflowed implements kernel.OverflowHandler: events of the watch may be lost.
func (n *nodestatus) Overflowed(ctx *kernel.Context[Message]) { n.open(ctx) }

// Receive implements kernel.Behavior.
func (n *nodestatus) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Pressure:
		n.pressure = m.Conditions
		n.gather(ctx)
	case Lists:
		n.runtime.listsFail = m.FailSince
		n.gather(ctx)
	case Devices:
		n.devices = m.Of
		n.gather(ctx)
	case InUse:
		n.inUse = m.Volumes
		n.gather(ctx)
	case CSINodeWritten:
		n.csiShown = true
		n.gather(ctx)
	case ShuttingDown:
		n.shuttingDown = m.On
		n.gather(ctx)
	case told:
		if m.id == n.watch {
			n.heard = m.id
			n.changed(ctx, m.change)
		}
	case ended:
		if m.id == n.watch {
			ctx.After(notReady, reopen{})
		}
	case reopen:
		n.open(ctx)
	case unheard:
		if m.id == n.watch && n.heard != n.watch {
			n.open(ctx)
		}
	case reread:
		n.reread(ctx)
	case nodeRead:
		n.nodeRead(ctx, m)
	case ReadNode:
		n.readAgain(ctx, m.Number)
	case askedRead:
		n.askedRead(ctx, m)
	case poll:
		n.poll(ctx)
	case again:
		n.retrying = false
		n.dirty = n.dirty || !n.labelAt.IsZero()
	case renew:
		n.leaseTimer.Fired()
	case runtimeVersion:
		n.versionRead(ctx, m)
	case runtimeStatus:
		n.statusRead(ctx, m)
	case machine:
		n.machineRead(ctx, m)
	case images:
		n.imagesRead(ctx, m)
	case written:
		n.written(ctx, m)
	case leased:
		n.leased(ctx, m)
	case journaled:
		n.journaled(ctx, m.Event)
	case networkTold:
		n.networkTold(ctx, m)
	case tellNetwork:
		n.podNetwork.retry.Fired()
	}
	n.proceed(ctx)
}

// proceed does what there is to do by what is known now.
func (n *nodestatus) proceed(ctx *kernel.Context[Message]) {
	n.tell(ctx)
	n.network(ctx)
	if !n.csiShown {
		n.gather(ctx) // the Node may have been read meanwhile
	}
	n.sync(ctx)
	n.renew(ctx)
}

// open starts a watch of the node's object and ends any other.
func (n *nodestatus) open(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if e.Kind == watchKind {
			ctx.Cancel(e.ID)
		}
	}
	s := port.Selection{Kind: port.NodeKind, Field: "metadata.name=" + n.deps.Own.Name}
	n.watches++
	n.watch = portcall.Watch(ctx, kernel.Effect[Message]{Kind: watchKind, Object: s.Field}, n.watches, n.deps.API, s,
		func(id kernel.EffectID, change port.APIChange) Message { return told{id, change} },
		func(id kernel.EffectID, _ error) Message { return ended{id} })
	ctx.After(n.deps.Patience, unheard{n.watch})
}

// changed applies an event of the watch. It may be older than the last write.
func (n *nodestatus) changed(ctx *kernel.Context[Message], c port.APIChange) {
	switch c := c.(type) {
	case port.APIReplaced:
		n.listed, n.watched = true, true
		if len(c.Objects) == 0 {
			n.gone()
		}
		for _, o := range c.Objects {
			n.heardVersion(ctx, o.(*v1.Node))
		}
	case port.APISet:
		n.heardVersion(ctx, c.Object.(*v1.Node))
	case port.APIDeleted:
		if n.node != nil && n.node.UID == c.Object.GetUID() {
			n.gone()
		}
	case port.APIBroken:
		// The writing call fails too, and logs it.
	}
}

// heardVersion applies a version from a watch.
func (n *nodestatus) heardVersion(ctx *kernel.Context[Message], o *v1.Node) {
	restored := n.heardOf != nil && apipod.Restored(n.heardOf, o)
	n.heardOf = o
	n.others(ctx, o, restored)
}

// newer takes an object if it is newer than the known one, or if the apiserver was restored to a
// time before the known one.
func (n *nodestatus) newer(o *v1.Node, restored bool) bool {
	if n.node == nil || n.node.UID != o.UID {
		n.starts = n.deps.Register
	} else if c := apipod.Compare(n.node.ResourceVersion, o.ResourceVersion); c == 0 || c > 0 && !restored {
		return false
	}
	n.node = o
	return true
}

// others handles changes of other clients to the object. The next poll of the runtime corrects
// them. Only a change that keeps pods away is corrected earlier, at most once a second, because
// the other client may insist.
func (n *nodestatus) others(ctx *kernel.Context[Message], o *v1.Node, restored bool) {
	first := n.node == nil || n.node.UID != o.UID
	if !n.newer(o, restored) {
		return
	}
	n.labelled, n.wrote = false, nil
	if !first && nodeobject.Ready(&o.Status) {
		return
	}
	n.dirty = true
	if wait := time.Second - ctx.Now().Sub(n.at); !first && wait > 0 && !n.retrying {
		n.retrying = true
		ctx.After(wait, again{})
	}
}

// gone: the apiserver does not have the node, so it must be registered.
func (n *nodestatus) gone() {
	n.node, n.from, n.wrote, n.labelled, n.labelAt, n.dirty = nil, nil, nil, false, time.Time{}, true
}

func (n *nodestatus) record(ctx *kernel.Context[Message], e nodeobject.Event) {
	n.deps.Events.Record(port.Event{Node: n.deps.Own.Name, Warning: e.Warning, Reason: e.Reason,
		Message: e.Message, At: ctx.Now()})
}
