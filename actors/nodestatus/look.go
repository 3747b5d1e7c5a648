package nodestatus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// runtimeView is the known state of the runtime.
type runtimeView struct {
	version string
	// asked is true after the first answer or timeout. ok is the time of the last answer, err the
	// failure since.
	asked  bool
	ok     time.Time
	err    error
	status port.RuntimeStatus
	// listsFail is since when no list has worked; zero: the last one has.
	listsFail time.Time
	// patience is the time between polls while the node is not ready.
	patience time.Duration
}

// runtimeDown is how long a runtime may be silent before the node is not ready: it may be
// restarting.
const runtimeDown = 30 * time.Second

// listsDown is how long lists may fail before the node is not ready, though the runtime says that it is well: no pod
// starts, and none is seen to end. It is a kubelet's.
const listsDown = 3 * time.Minute

// problems lists why the node is not ready.
func (r *runtimeView) problems(now time.Time) []string {
	if r.ok.IsZero() {
		if r.err != nil {
			return []string{"container runtime is down: " + r.err.Error()}
		}
		return []string{"container runtime has not answered yet"}
	}
	if r.err != nil && now.Sub(r.ok) > runtimeDown {
		return []string{"container runtime is down: " + r.err.Error()}
	}
	var out []string
	if since := r.listsFail; !since.IsZero() && now.Sub(since) > listsDown {
		out = append(out, fmt.Sprintf("PLEG is not healthy: no list of pods and containers has worked since %s; "+
			"threshold is %v", since.UTC().Format(time.RFC3339), listsDown))
	}
	for _, c := range r.status.Conditions {
		if !c.Status && (c.Type == "RuntimeReady" || c.Type == "NetworkReady") {
			what := "runtime"
			if c.Type == "NetworkReady" {
				what = "runtime network"
			}
			out = append(out,
				fmt.Sprintf("container %s not ready: %s=false reason:%s message:%s", what, c.Type, c.Reason, c.Message))
		}
	}
	return out
}

// poll polls the runtime.
func (n *nodestatus) poll(ctx *kernel.Context[Message]) {
	due := ctx.Now().Sub(n.looked) >= lookEvery
	if due {
		n.look(ctx)
	}
	if due || n.runtime.version == "" || n.runtime.err != nil { // a restarted runtime may have another version
		read(n, ctx, readVersion, "Version", n.deps.Runtime.Version,
			func(id kernel.EffectID, v port.RuntimeVersion, err error) Message {
				return runtimeVersion{id, v, err}
			})
		return
	}
	n.askStatus(ctx)
}

func (n *nodestatus) askStatus(ctx *kernel.Context[Message]) {
	read(n, ctx, readStatus, "Status", n.deps.Runtime.Status,
		func(id kernel.EffectID, s port.RuntimeStatus, err error) Message { return runtimeStatus{id, s, err} })
}

// look reads what changes rarely.
func (n *nodestatus) look(ctx *kernel.Context[Message]) {
	n.looked = ctx.Now()
	read(n, ctx, readMachine, "Machine", n.deps.Facts.Machine,
		func(id kernel.EffectID, m *port.Machine, err error) Message { return machine{id, m, err} })
	read(n, ctx, readImages, "ListImages", n.deps.Runtime.ListImages,
		func(id kernel.EffectID, l []observed.Image, err error) Message { return images{id, l, err} })
}

// read starts one read, unless it is running.
func read[T any](n *nodestatus, ctx *kernel.Context[Message], which int, kind string,
	run func(context.Context, func(T, error)), result func(kernel.EffectID, T, error) Message,
) {
	if n.reading[which].Busy() {
		return
	}
	n.reading[which].Begin(portcall.Do(ctx, kernel.Effect[Message]{Kind: kind, Lane: kind, Deadline: pollDeadline}, run,
		result))
}

func (n *nodestatus) versionRead(ctx *kernel.Context[Message], m runtimeVersion) {
	if !n.reading[readVersion].Take(m.id) {
		return
	}
	if m.err != nil {
		n.polled(ctx, m.err)
		return
	}
	n.runtime.version = nodeobject.RuntimeVersion(m.version.Name, m.version.Version)
	n.askStatus(ctx)
}

func (n *nodestatus) statusRead(ctx *kernel.Context[Message], m runtimeStatus) {
	if !n.reading[readStatus].Take(m.id) {
		return
	}
	if m.err == nil {
		n.runtime.status, n.runtime.ok = m.status, ctx.Now()
	}
	n.polled(ctx, m.err)
}

// polled ends a poll of the runtime and sets the timer for the next.
func (n *nodestatus) polled(ctx *kernel.Context[Message], err error) {
	n.runtime.asked, n.runtime.err = true, err
	n.gather(ctx)
	n.dirty = n.dirty || n.wrote != n.facts // another client changed the object
	next := n.deps.StatusPeriod
	if err != nil || n.facts == nil || len(n.facts.Problems) > 0 {
		next = min(n.runtime.patience, next)
		n.runtime.patience = min(n.runtime.patience*5/4, notReady)
	} else {
		n.runtime.patience = notReady
	}
	ctx.After(next, poll{})
}

func (n *nodestatus) machineRead(ctx *kernel.Context[Message], m machine) {
	if !n.reading[readMachine].Take(m.id) {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot read the machine information (capacity, versions); retrying")
		n.looked = ctx.Now().Add(notReady - lookEvery) // soon
		return
	}
	before := n.machine
	n.machine = m.machine
	if before != n.machine && (before != nil || n.deps.Known == nil || !n.deps.Known(n.machine)) {
		n.seen, n.changing = nil, true
		n.tell(ctx)
	}
	n.gather(ctx)
}

func (n *nodestatus) imagesRead(ctx *kernel.Context[Message], m images) {
	if !n.reading[readImages].Take(m.id) || m.err != nil {
		return // read again later; other log lines report the runtime's failure
	}
	list := nodeobject.Images(m.list, n.deps.MaxImages)
	if n.images == nil || !slices.EqualFunc(n.images, list, func(a, b v1.ContainerImage) bool {
		return a.SizeBytes == b.SizeBytes && slices.Equal(a.Names, b.Names)
	}) {
		n.images = list
		n.gather(ctx)
	}
}

// gather computes facts, if there is anything new.
func (n *nodestatus) gather(ctx *kernel.Context[Message]) {
	if n.machine == nil || !n.runtime.asked {
		return
	}
	problems := n.runtime.problems(ctx.Now())
	if n.csiWaits() {
		problems = append(problems, "CSINode is not yet initialized")
	}
	if n.shuttingDown {
		problems = append(problems, "node is shutting down")
	}
	pressure := eviction.Conditions{}
	if n.facts != nil {
		pressure = eviction.Conditions{Memory: n.facts.Memory, Disk: n.facts.Disk, PID: n.facts.PID}
	}
	if f := n.facts; f != nil && n.gathered == n.machine && pressure == n.pressure && maps.Equal(f.Devices, n.devices) &&
		(f.InUse == nil) == (n.inUse == nil) && slices.Equal(f.InUse, n.inUse) &&
		f.RuntimeVersion == n.runtime.version &&
		slices.Equal(f.Problems, problems) && slices.EqualFunc(f.Handlers, n.runtime.status.Handlers, sameHandler) &&
		sameFeatures(f.Features, n.runtime.status.Features) && (f.Images == nil) == (n.images == nil) &&
		len(f.Images) == len(n.images) && (len(n.images) == 0 || &f.Images[0] == &n.images[0]) {
		return
	}
	n.gathered = n.machine
	n.facts = &nodeobject.Facts{
		Capacity: n.machine.Capacity, Allocatable: n.machine.Allocatable, Devices: n.devices, InUse: n.inUse,
		Addresses:      n.machine.Addresses,
		Info:           n.machine.Info,
		RuntimeVersion: n.runtime.version, Images: n.images, Problems: problems,
		Handlers: n.runtime.status.Handlers, Features: n.runtime.status.Features,
		Memory: n.pressure.Memory, Disk: n.pressure.Disk, PID: n.pressure.PID,
	}
	n.dirty = true
}

// csiWaits reports whether a new Node waits for its CSINode. What the scheduler reads there, the limits of drivers and
// which plugins are migrated, is to be known before it places pods. A Node that is ready stays so when the agent starts
// again: its CSINode is there.
func (n *nodestatus) csiWaits() bool {
	return n.deps.Volumes != nil && !n.csiShown &&
		(n.node == nil || !nodeobject.Ready(&n.node.Status))
}

func sameHandler(a, b v1.NodeRuntimeHandler) bool {
	return a.Name == b.Name && apiequality.Semantic.DeepEqual(a.Features, b.Features)
}

func sameFeatures(a, b *v1.NodeFeatures) bool {
	return a == b || a != nil && b != nil && ptr.Equal(a.SupplementalGroupsPolicy, b.SupplementalGroupsPolicy)
}
