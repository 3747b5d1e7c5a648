package podset

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/mirrors"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/pods"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/sources"
)

// Deps are what the actor needs.
type Deps struct {
	// Sources are those that must have been seen before anything is cleaned up.
	Sources []podspec.Origin
	// Begin, End and List go to pods, the parent of the actors of pods.
	Begin func(pods.Begin)
	End   func(types.UID)
	List  func(reply func([]pods.Child))
	// Events are shown to people.
	Events port.Recorder
	// Machine is the machine as it was when the agent started.
	Machine pod.Machine
	// Admit says why a pod that does not run yet may not run beside the others; nil if it may. node is the apiserver's
	// object of this node, nil while it is unknown.
	Admit func(p *v1.Pod, others []*v1.Pod, node *v1.Node, pressure admit.Pressure) *admit.Rejection
	// Places are what containers get to themselves alone; nil if they get nothing (cpuManagerPolicy none).
	Places *Places
	// Cluster receives the pods for the apiserver; nil on a node without one.
	Cluster *Cluster
	// Checkpoints store the resources allocated to pods, and the reasons of stops.
	Checkpoints port.Checkpoints
	// Collect sends a pod to gc for removal: see gc.Collect.
	Collect func(ref observed.PodRef, abandoned, later bool)
	// Collecting asks gc which pods it is removing.
	Collecting func(reply func([]observed.PodRef))
	// Again: an earlier instance of this node was ended by a crash. gc may still be removing pods for
	// it: AskCollecting follows.
	Again bool
	// ForgetImages tells images that a pod is gone.
	ForgetImages func(uid types.UID)
	// Retain is called once after a restart, as soon as all sources have reported: all pods but these
	// are gone. wanted are those of them that a source has. Both are for the receivers to keep.
	Retain func(all, wanted map[types.UID]bool)
	// Restarted is called when an incarnation after the first begins: sources and pleg must send
	// everything again.
	Restarted func()
	// Started, if set, is called for each pod that this agent has started. It must not block.
	Started func(Started)
	// Counts, if set, is told what becomes of pods.
	Counts Counts
}

// Policy answers crashes of this actor. It never escalates: that would restart the actors of all pods, which go on
// without this one. While it is quarantined no pod begins or is stopped; if it lasts, the health check fails.
var Policy = kernel.Policy{
	Base: 10 * time.Millisecond, Max: 5 * time.Second,
	Restarts: 5, Window: time.Minute, Beyond: kernel.Quarantine, Retry: 10 * time.Second, Contain: true,
}

// Started says that all containers of a pod have been started for the first time.
type Started struct {
	Pod    *v1.Pod
	Status *v1.PodStatus
	// Seen is when this actor first heard of the pod, At when its containers had started.
	Seen, At time.Time
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &registry{
			deps: deps, wanted: map[podspec.Origin]sources.Update{}, of: map[types.UID]*record{},
			runtime: map[types.UID]observed.RuntimePod{}, stuck: map[types.UID]bool{},
			unclaimed: map[types.UID]pods.Child{},
		}
	}
}

// registry is one incarnation. Before it is ready, it has no records of pods.
type registry struct {
	deps   *Deps
	wanted map[podspec.Origin]sources.Update
	// listed is when the first list of the runtime had begun, zero before there is one. runtime is that list, with later
	// changes of pods that have not begun.
	listed  time.Time
	runtime map[types.UID]observed.RuntimePod
	// childrenKnown: pods has said which pods have an actor. unclaimed are those of them that have no record: an earlier
	// incarnation began them.
	childrenKnown bool
	// heir: an earlier incarnation has begun pods. What the runtime had of a pod when it was listed may be older than what
	// an actor has done that has ended since, so a new actor looks for itself.
	heir      bool
	unclaimed map[types.UID]pods.Child
	// unread are pods of which a part could not be read, and why until people were told; see illegible.
	unread map[types.UID]string
	// collecting: gc has not answered yet which pods it is removing for an earlier incarnation.
	collecting bool
	// stuck are pods that have ended, but the runtime fails to remove a part of them. gc keeps
	// trying. Invariant: none has a record.
	stuck map[types.UID]bool
	// ranked are all records, in order of rank; of has them by UID. See put and drop.
	ranked []*record
	of     map[types.UID]*record
	ranks  int64
	// retain: others may hold something for pods that went while this actor was restarted.
	retain bool
	// rounds counts the calls of reconcile that compared the running pods with the desired ones.
	rounds uint64
	// round is the repetition under way.
	round round
	// node is the apiserver's object of this node, nil while it is unknown. statics is what
	// mirrors was last sent.
	node    *v1.Node
	statics mirrors.Statics
	// machine is what pods may know of the machine, as of node; nil while that does not say.
	machine *pod.Machine
	// reads are the readings of the Node that this actor asked for.
	reads nodeReads
	// pressure keeps new pods out.
	pressure admit.Pressure
	// places is what all pods know of CPUs.
	places places
	// given holds the allocations.
	given given
	// stops holds why pods and containers are stopped.
	stops stops
}

// Check implements kernel.Checked.
func (a *registry) Check() error {
	for uid := range a.stuck { // order-free: any of them is told
		if a.of[uid] != nil {
			return fmt.Errorf("podset: stuck: none has a record: %s has", uid)
		}
	}
	for _, r := range a.ranked {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return errors.Join(a.given.Check(), a.stops.Check())
}

// Start implements kernel.Behavior.
func (a *registry) Start(ctx *kernel.Context[Message]) {
	a.places.asked = uint64(ctx.Incarnation()-1) << 32
	a.reads.asked = a.places.asked
	a.load(ctx)
	if ctx.Incarnation() > 1 {
		a.deps.Restarted()
		a.collecting, a.retain, a.heir = true, true, true
		a.askCollecting(ctx)
		a.askChildren(ctx)
	} else {
		a.collecting = a.deps.Again // node asks, as soon as gc is there
		a.childrenKnown = true      // there are none
	}
}

// Receive implements kernel.Behavior.
func (a *registry) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Wanted:
		a.wanted[m.Source] = m.Update
		a.reconcile(ctx)
	case Remade:
		a.remade(ctx, m.UIDs)
	case Renewed:
		a.renew(m.Pod)
	case Forced:
		a.forced(ctx, m.UID)
	case Listed:
		a.take(m.Snapshot)
		a.reconcile(ctx)
	case Seen:
		a.seen(ctx, m.Seen)
	case Begun:
		a.begun(m)
	case Children:
		a.children(ctx, m.All)
	case ListChildren:
		a.askChildren(ctx)
	case Asked:
		a.assign(m.UID)
	case Reported:
		a.reported(ctx, m.Report)
	case Finished:
		a.finished(ctx, m.Finished)
	case Collected:
		a.collected(ctx, m.UID, m.Stuck)
	case AskAgain:
		a.askAgain(ctx)
	case Repeat:
		a.repeat(ctx)
	case Crashed:
		a.crashed(ctx, m.Report)
	case NodeSeen:
		a.nodeSeen(m.Node)
		a.reconcile(ctx)
	case NodeRead:
		a.nodeRead(ctx, m.Number)
	case Behind:
		a.isBehind(ctx, m)
	case AskNode:
		a.askNodeAgain(ctx)
	case NodePressure:
		a.pressed(ctx, m)
	case ShuttingDown:
		a.shuttingDown(ctx, m.On)
	case Evict:
		a.evict(ctx, m)
	case ShowAgain:
		a.showAll()
	case NoteRestart:
		a.noteRestart(ctx, m.NoteRestart)
	case InPlace:
		a.inPlace(ctx, m.InPlace)
	case BeingCollected:
		a.beingCollected(ctx, m.Pods)
	case AskCollecting:
		a.askCollecting(ctx)
	case Abandoned:
		a.abandoned(ctx, m.UID)
	case Placed:
		a.answered(ctx, m)
	case journaled:
		a.journaled(ctx, m.Event)
	case Query:
		m.Reply(a.inventory(m.Namespace, m.Name))
	case Living:
		if a.ready() {
			m.Reply(a.living(m), a.allSeen())
		} // else unanswered; gc asks again
	}
}

func (a *registry) pressed(ctx *kernel.Context[Message], m NodePressure) {
	down := a.pressure.ShuttingDown
	a.pressure, a.pressure.ShuttingDown = m.Pressure, down
	a.reconcile(ctx)
}

func (a *registry) shuttingDown(ctx *kernel.Context[Message], on bool) {
	if a.pressure.ShuttingDown != on {
		a.pressure.ShuttingDown = on
		a.reconcile(ctx)
	}
}
