// Package gc is the garbage collection actor. It removes dead containers and their
// logs, sandboxes of removed pods, and their directories.
//
//	gc ──Abandoned──► podset ──Collect──► gc ──RemoveContainer, RemovePodSandbox──► runtime, RemovePod──► host
//	gc ──Collected──► podset       gc ──Living──► podset (in each sweep)
//	gc ──UnlinkLog, TidyLogLinks──► symlinks to container logs
//
// Removal starts when no pod has terminated for a moment. So if a client deletes
// many pods, their termination is not slowed down by removals.
//
// gc never removes a living pod: a sweep first lists sandboxes and directories, and
// then asks which pods live. So a pod that was added meanwhile does not look dead. Until all sources
// have reported, every pod counts as living: sweeps trim the dead containers of each, and no more.
//
// A container that the runtime cannot remove (port.Stuck) blocks nothing else: the
// rest of its pod is removed, podset is told that the pod is finished, and sweeps retry.
package gc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the gc actor understands.
//
//sumtype:decl
type Message interface{ isGCMessage() }

// Collect asks for all that is left of a pod to be removed. From podset, when the
// pod has finished and no source has it. Twice: done once.
type Collect struct {
	Ref observed.PodRef
	// Abandoned: all that is known of it are directories on the host. No actor has
	// unmounted its volumes.
	Abandoned bool
	// Later: not until the time of the next sweep, unless room is needed. Log collectors look for new files once a minute,
	// and find the logs of a pod that has ended by itself.
	Later bool
}

// ListCollecting asks which pods are being collected. From podset, which restarted and must
// begin none of them. Reply must not block.
type ListCollecting struct{ Reply func([]observed.PodRef) }

// Reclaim asks for the removal of all dead containers, and of the logs of pods that have ended, before pods are
// evicted. From eviction. Reply is called when all was tried, and must not block. Lost with a crash: asked again.
type Reclaim struct{ Reply func(error) }

// RuntimeBack is from node: the runtime answers again, and what it could not
// remove it may be able to now. Lost: tried again in its time.
type RuntimeBack struct{}

// Sweep is this actor's own timer.
type Sweep struct{}

// found is what a sweep found in the runtime and then, with dirs, on the host.
type found struct {
	list observed.Runtime
	dirs []types.UID
	last bool
	err  error
}

// living is the answer of podset, and what was found before it was asked.
type living struct {
	pods map[types.UID]bool
	// all is false while a source has not reported: any pod may be one of its pods.
	all bool
	// reclaiming: nothing of pods that have ended for good stays.
	reclaiming bool
	found
}

// listed is what the runtime has of one pod that is collected.
type listed struct {
	id   kernel.EffectID
	uid  types.UID
	list observed.Runtime
	err  error
}

// removed is the result of one removal.
type removed struct {
	id     kernel.EffectID
	uid    types.UID
	object string
	what   string // kind and object
	err    error
}

// again is this actor's own timer for one pod.
type again struct{ uid types.UID }

// more is this actor's own timer, while there are orphans that podset was not told of.
type more struct{}

// settled is this actor's own timer for what rests.
type settled struct{}

func (more) isGCMessage()           {}
func (settled) isGCMessage()        {}
func (Collect) isGCMessage()        {}
func (ListCollecting) isGCMessage() {}
func (Reclaim) isGCMessage()        {}
func (RuntimeBack) isGCMessage()    {}
func (Sweep) isGCMessage()          {}
func (found) isGCMessage()          {}
func (living) isGCMessage()         {}
func (listed) isGCMessage()         {}
func (removed) isGCMessage()        {}
func (again) isGCMessage()          {}

// Runtime is what the actor uses of port.Runtime.
type Runtime interface {
	List(ctx context.Context, uid string, done func(observed.Runtime, error))
	RemoveContainer(ctx context.Context, id string, done func(error))
	RemovePodSandbox(ctx context.Context, id string, done func(error))
}

// Host is what the actor uses of port.Host.
type Host interface {
	UnmountPod(ctx context.Context, uid types.UID, done func(error))
	RemovePod(ctx context.Context, ref port.PodDirs, done func(error))
	PodDirs(ctx context.Context, done func([]types.UID, error))
}

// Deps are what the actor is connected to.
type Deps struct {
	Runtime Runtime
	Host    Host
	// Logs may be nil: then there are no container logs.
	Logs port.ContainerLogs
	// LogLinks may be nil: then those logs have no links.
	LogLinks port.LogLinks
	// Events are told of the node if a sweep can't look at what there is.
	Events port.Recorder
	Node   string
	// Living asks podset which pods there are. all is false while a source has not reported. One whose dead containers
	// and logs can go is in living as false: an evicted one and, with ended, any that never runs again.
	Living func(ended bool, reply func(living map[types.UID]bool, all bool))
	// Collected is called when nothing is left of a pod or, if stuck, only what the
	// runtime can't remove.
	Collected func(uid types.UID, stuck bool)
	// Restarted is called when an incarnation after the first begins: what was
	// to be collected has to be asked for again.
	Restarted func()
	// Abandoned is called for a pod of which a sweep found directories, and that
	// nobody knows. It is answered by Collect.
	Abandoned func(uid types.UID)
	Policy    podgc.Policy
	Period    time.Duration
	Deadline  time.Duration
	// Backoff is how long what failed waits before it is tried again.
	Backoff backoff.Policy
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &gc{deps: deps, of: map[types.UID]*collection{}, troubles: map[string]*trouble{}}
	}
}

type gc struct {
	deps *Deps
	of   map[types.UID]*collection
	// resting are the pods that are not begun with yet, while the timer settled runs. Invariant: each has a
	// collection with nothing pending.
	// first and last are when the first and the last of them came.
	resting     []types.UID
	first, last time.Time
	// troubles are the removals that failed, by what they are; see trouble.
	troubles map[string]*trouble
	// unlinked: people were told that there is trouble with the links of logs.
	unlinked bool
	reclaims reclaims
	// orphans are the pods with only directories that podset was not told of yet. telling: the timer runs.
	// Invariant: telling unless there is none.
	orphans []types.UID
	telling bool
	// looking: a sweep looks at what there is.
	looking bool
	// swept: a sweep was made since all sources have reported.
	swept bool
}

// Check implements kernel.Checked.
func (g *gc) Check() error {
	for _, uid := range g.resting {
		if c := g.of[uid]; c == nil || len(c.pending) > 0 {
			return fmt.Errorf("gc: resting: each has a collection with nothing pending: %s has not", uid)
		}
	}
	if len(g.orphans) > 0 && !g.telling {
		return fmt.Errorf("gc: orphans: telling unless there is none: there are %d", len(g.orphans))
	}
	return nil
}

const (
	// rest is how long no pod must have come, restMost how long one waits for that.
	rest     = 500 * time.Millisecond
	restMost = 30 * time.Second
	// early is the period of sweeps until one was made that knows all pods: after a crash of the node there
	// may be much to remove.
	early = 10 * time.Second
	// orphanBatch is how many orphans one message reports to podset, and orphansEvery how often one is sent: thousands
	// at once would overflow its mailbox. It is longer than rest, so that removals begin in between.
	orphanBatch  = 512
	orphansEvery = time.Second
)

// collection is one pod that is being removed.
//
//	listing ──► unmounting ──► older ──► newest ──► sandboxes ──► directories ──► Collected
//	            (abandoned, or mounted)
//
// The newest container of a name is removed after the others of that name (podgc.Last).
//
// A stage that fails is tried again, with all before it.
type collection struct {
	task
	stage stage
	// later: Collect.Later, and it is not begun with.
	later bool
	// pending are the effects of this stage; others are late, or of a sweep.
	pending map[kernel.EffectID]bool
	failed  bool
	// tries is how often in a row it failed by an answer: a runtime that does not
	// answer is asked again soon.
	tries    int
	answered bool
	// retried: it failed before. What was removed then without an answer has its link to the log still, until a sweep.
	retried bool
	// mounted: the directories can't be removed for something that is mounted there. What an agent had begun to mount that
	// was killed may be there only now, when the pod's actor has unmounted all that there was.
	mounted bool
	dead    []observed.Container
	boxes   []string
	// stuck are the containers and sandboxes that the runtime can't remove.
	stuck map[string]bool
}

func newCollection(of task) *collection {
	return &collection{task: of, pending: map[kernel.EffectID]bool{}, stuck: map[string]bool{}}
}

// task is what to collect. Its effects are tagged with it.
type task struct {
	ref observed.PodRef
	// abandoned: Collect.Abandoned.
	abandoned bool
}

type stage uint8

const (
	listing stage = iota
	unmounting
	older
	newest
	sandboxes
	directories
)

// Start implements kernel.Behavior.
func (g *gc) Start(ctx *kernel.Context[Message]) {
	g.sweepLater(ctx)
	g.listLinked(ctx)
	g.inherit(ctx)
}

// inherit begins again with the pods of which a predecessor's removal is still running. podset may have
// restarted too: until it has asked (Tell), and this is done, none of them may begin again.
func (g *gc) inherit(ctx *kernel.Context[Message]) {
	for _, e := range ctx.InFlight() {
		if of, ok := e.Tag.(task); ok && g.of[of.ref.UID] == nil {
			g.rest(ctx, of)
		}
	}
}

// Resync implements kernel.Resyncer.
func (g *gc) Resync(*kernel.Context[Message]) { g.deps.Restarted() }

// Receive implements kernel.Behavior.
func (g *gc) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Collect:
		switch of := (task{m.Ref, m.Abandoned}); {
		case g.of[m.Ref.UID] != nil:
		case m.Later:
			c := newCollection(of)
			c.later, g.of[m.Ref.UID] = true, c
		default:
			g.rest(ctx, of)
		}
	case ListCollecting:
		refs := make([]observed.PodRef, 0, len(g.of))
		for _, uid := range slices.Sorted(maps.Keys(g.of)) {
			refs = append(refs, g.of[uid].ref)
		}
		m.Reply(refs)
	case Reclaim:
		g.reclaim(ctx, m)
	case settled:
		g.settled(ctx)
	case more:
		g.abandon(ctx)
	case again:
		if c := g.of[m.uid]; c != nil && len(c.pending) == 0 {
			next := newCollection(c.task)
			next.tries, next.retried, next.mounted = c.tries, true, c.mounted
			g.collect(ctx, next)
		}
	case RuntimeBack:
		for _, t := range g.troubles { // order-free: each by itself
			t.At = time.Time{}
		}
		if len(g.troubles) > 0 {
			g.list(ctx)
		}
	case Sweep:
		g.sweepLater(ctx)
		g.restLater(ctx)
		g.list(ctx)
	case found:
		g.found(ctx, m)
	case living:
		g.sweep(ctx, m)
	case listed:
		g.listed(ctx, m)
	case removed:
		g.removed(ctx, m)
	case pruned:
		if m.err != nil {
			ctx.Log().Warn().Str("error", m.err.Error()).Msg("cannot remove the logs of removed containers; retrying")
		}
		g.reclaimed(ctx, m.id, m.err)
	case linked:
		if m.err == nil { // else pleg says so, and the next sweep comes
			g.tidy(ctx, m.list, nil)
		}
	case tidied:
		g.tidied(ctx, m)
	}
}
