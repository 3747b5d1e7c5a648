// Package assignments is the actor that owns what containers have to themselves alone: CPUs (cpuManagerPolicy
// static), memory of NUMA nodes (memoryManagerPolicy Static), and devices of device plugins. The decisions are in
// decide/cpus, decide/memory and decide/devices.
//
//	podset ──Place, Release, Living──► assignments ──Answer──► podset
//	devices ──Plugins──► assignments ──Prefer, Allocate──► device plugins
//	assignments ──Load, Save──► the state files (decide/cpus, decide/memory, decide/devicestate)
//
// The state files are the kubelet's, so that a node can change from one agent to the other while containers have CPUs,
// memory and devices of their own. They are read once, and written before a pod is told of what it gets. All other
// containers share the rest of the CPUs: each answer says what that is now.
//
//	loading ──loaded──► idle ──Place, Release──► saving ──saved──► idle
//	   │ └──retry──┘                               └──failed──► retry, later
//	   └ requests wait, and until the first Plugins
//
// A resize of CPUs. Until its containers have left a CPU, it is theirs in the state file:
//
//	Place{Resize} ──decide──► saving ──► Answer with the new ones ──(the pod's actor moves its containers)──►
//	        Place{On} ──► saving ──► Answer: what they have left is free
//
// A request for devices:
//
//	Place ──► decide ──the plugin has a preference──► asking ──► decide ──► allocating ──answered──► saving ──► Answer
//	            ▲ │                                                         └─ the devices are the pod's from here on
//	            │ └─ the plugin is not there yet ──► patient ──┐
//	            └────────────── Plugins, again ◄───────────────┘ until devices.Patience is over: rejected
//
// After a restart the actor reads the files again, and pods send their requests again.
package assignments

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	decide "github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/memory"
	"github.com/troupe-dev/troupe/actors/devices"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Message is what the actor understands.
//
//sumtype:decl
type Message interface{ isAssignmentsMessage() }

// Place asks for what a pod's containers have to themselves. From podset, before a pod begins, before it is given other
// resources, and when its containers have left what they had. An Answer follows. Lost: asked again when told that this
// actor restarted. Twice: answered twice, with the same CPUs.
type Place struct {
	Pod *v1.Pod
	// Number is in the answer too.
	Number uint64
	// Runs: it runs already. It keeps what it has, and gets no other devices, but for its containers that nothing lives
	// of: Down.
	Runs bool
	Down []string
	// Resize: it runs, and asks to have other CPUs than until now. If it can't have them, nothing changes.
	Resize bool
	// On are the CPUs that its containers run on alone, nil if that is not known: what else they had is given back.
	On map[string]cpuset.CPUSet
}

// Refused says that the node has too little of something for a pod, which so did not get to ask. From podset. Lost: it
// is not counted. Twice: it is counted twice.
type Refused struct {
	Pod *v1.Pod
	Why *admit.Rejection
}

// Release gives back what a pod has. From podset, when nothing of it runs. Lost: the next Living has it. Twice: as
// once.
type Release struct{ UID types.UID }

// Living says which pods there are: all others give back what they have. An Answer without pods follows. From podset,
// when all sources have reported: after its start and this actor's, and when it has missed messages. Lost: CPUs of pods
// that are gone stay taken until the next start. Twice: answered twice.
type Living struct{ Pods map[types.UID]bool }

// Plugins is what is known of the device plugins. Published by devices, at its start and with each change.
type Plugins struct{ devices.Snapshot }

// loaded is what the state files have. A file that is not there has no data.
type loaded struct {
	id           kernel.EffectID
	cpus, memory []byte
	given        checkpoint.Content
	err          error
}

// preferred and allocated are what a device plugin has answered for one container and resource.
type preferred struct {
	id  kernel.EffectID
	ids []string
	err error
}
type allocated struct {
	id     kernel.EffectID
	answer []byte
	err    error
}

// again is this actor's own timer: a request that waits for a device plugin is decided again.
type again struct {
	uid types.UID
	id  uint64
}

// forgiven is this actor's own timer after a device plugin refused a pod.
type forgiven struct{}

// overdue is this actor's own timer: device plugins had their time to answer a request.
type overdue struct {
	uid   types.UID
	id    uint64
	phase int
}

// saved is the result of writing the state files.
type saved struct {
	id  kernel.EffectID
	err error
}

// retry is this actor's own timer after the file could not be read or written.
type retry struct{}

func (Place) isAssignmentsMessage()     {}
func (Refused) isAssignmentsMessage()   {}
func (Release) isAssignmentsMessage()   {}
func (Living) isAssignmentsMessage()    {}
func (Plugins) isAssignmentsMessage()   {}
func (loaded) isAssignmentsMessage()    {}
func (preferred) isAssignmentsMessage() {}
func (allocated) isAssignmentsMessage() {}
func (again) isAssignmentsMessage()     {}
func (overdue) isAssignmentsMessage()   {}
func (forgiven) isAssignmentsMessage()  {}
func (saved) isAssignmentsMessage()     {}
func (retry) isAssignmentsMessage()     {}

// Answer says where the containers of some pods run.
type Answer struct {
	Pods []Placed
	// Shared are the CPUs of all containers without their own. Empty: they run anywhere.
	Shared cpuset.CPUSet
	// Version is another one each time something became free, or may be had now: a pod that was rejected may get it now.
	Version uint64
	// Health is how the devices of all pods are that have some, by pod. It is never changed.
	Health map[types.UID]devicestate.Health
}

// Placed is one pod's part of an answer.
type Placed struct {
	UID    types.UID
	Number uint64
	// Own are CPUs by the names of the containers that have them alone. It is shared, and never changed.
	Own map[string]cpuset.CPUSet
	// Leaves: containers may run on CPUs that are not in Own any more. Nobody else gets these until a Place has an On
	// without them.
	Leaves bool
	// Memory is that of containers that have their own, by name. It is shared, and never changed.
	Memory map[string][]memory.Block
	// Devices are what containers with devices are created with, by name. It is never changed.
	Devices map[string]*decide.Given
	// Unknown is why containers of a pod that runs can't be created once more, by name: nobody knows their devices.
	Unknown map[string]string
	// Rejected says why the pod can't be given what it asks for, nil if it can. Refused says so of Place.Resize.
	Rejected *admit.Rejection
	Refused  *cpus.Refusal
}

// Deps are what the actor needs.
type Deps struct {
	Rules *cpus.Rules
	// Memory is nil if no container has memory of its own.
	Memory *memory.Rules
	// Files has the state files of CPUs and memory by their names, DeviceFiles that of devices.
	Files, DeviceFiles port.Checkpoints
	// Plugins are the device plugins, nil for none.
	Plugins port.DevicePlugins
	// Standalone: the node is in no cluster. Nobody but a device plugin can give it an extended resource then.
	Standalone bool
	// Answer is sent to podset.
	Answer func(Answer)
	// Health: say how devices are (feature gate ResourceHealthStatus).
	Health bool
	// Counts, if set, is told what was decided.
	Counts Counts
	// Restarted is called when an incarnation after the first begins: requests were lost.
	Restarted func()
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] { return &assignments{deps: deps} }
}

type assignments struct {
	deps *Deps
	// own, memory and given are nil until the files were read.
	own    cpus.State
	memory memory.State
	given  devicestate.Grants
	// files are the state files, as one. changed is with which version each of them has changed last, placed with which
	// one they have all that a pod has. Only those are here that may not be on the disk yet.
	files   checkpoint.Progress
	changed changes
	placed  map[types.UID]checkpoint.Version
	// answers wait until the files have what they say.
	answers checkpoint.Waiting[Placed]
	// waiting are requests from before the files were read. Each pod has one.
	waiting []Place
	// living is the newest Living from before then, gone are the pods of each Release.
	living map[types.UID]bool
	gone   []types.UID
	// version is Answer.Version.
	version uint64
	plugged
}

// Check implements kernel.Checked.
func (a *assignments) Check() error { return a.files.Check() }

// changes are the versions of the last change of each file.
type changes struct{ cpus, memory, given checkpoint.Version }

// Start implements kernel.Behavior.
func (a *assignments) Start(ctx *kernel.Context[Message]) {
	a.version = uint64(ctx.Incarnation()) << 32
	a.beginCounts()
	a.load(ctx)
}

// Resync implements kernel.Resyncer.
func (a *assignments) Resync(*kernel.Context[Message]) { a.deps.Restarted() }

// Receive implements kernel.Behavior.
func (a *assignments) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Place:
		a.place(ctx, m)
	case Refused:
		a.countRefused(m)
	case Release:
		a.release(ctx, m.UID)
		a.settle(ctx)
	case Living:
		a.keep(ctx, m.Pods)
	case Plugins:
		a.plugins(ctx, m.Snapshot)
	case preferred:
		a.preferred(ctx, m)
	case allocated:
		a.allocated(ctx, m)
	case again:
		a.again(ctx, m)
	case overdue:
		a.overdue(ctx, m)
	case forgiven:
		a.forgiven()
	case loaded:
		a.loaded(ctx, m)
	case saved:
		a.saved(ctx, m)
	case retry:
		a.files.TimeIsUp()
		a.settle(ctx)
	}
}

// known: the files were read, and it is known which device plugins there are. Before that, a pod that needs devices
// could not be told from one that does not.
func (a *assignments) known() bool { return a.files.Known() && (a.deps.Plugins == nil || a.heard) }

func (a *assignments) place(ctx *kernel.Context[Message], m Place) {
	if a.known() {
		a.decide(ctx, m)
		return
	}
	a.waiting = append(slices.DeleteFunc(a.waiting, func(o Place) bool { return o.Pod.UID == m.Pod.UID }), m)
}

// decide chooses what pods get, and answers those that need not wait until that is in the files.
func (a *assignments) decide(ctx *kernel.Context[Message], requests ...Place) {
	var now []Placed
	for _, m := range requests {
		switch q := a.requests[m.Pod.UID]; {
		case q == nil:
		case q.runs: // what it asks for now counts: a resize, or devices for more containers
			a.giveBack(ctx, q)
			if m.Resize || m.On != nil {
				a.version++ // what it had asked for devices is asked once more: the answer to this is not one to that
			}
		default: // it is being decided, and has not begun: it does not ask for a resize
			q.Pod, q.Number = m.Pod, m.Number
			continue
		}
		a.last++
		q := &request{
			id: a.last, Pod: m.Pod, Number: m.Number, since: ctx.Now(),
			runs: m.Runs || m.Resize, down: m.Down, counted: m.On != nil || m.Resize,
		}
		if m.On != nil {
			a.left(ctx, m)
		}
		if m.Resize {
			if answer := a.resize(ctx, q); answer != nil {
				now = append(now, *answer)
			}
			continue
		}
		if answer := a.consider(ctx, q); answer != nil {
			now = append(now, *answer)
		}
	}
	a.settle(ctx)
	if len(now) > 0 {
		a.tell(now)
	}
}

// consider decides one request. The result is its answer, or nil if there will be one.
func (a *assignments) consider(ctx *kernel.Context[Message], q *request) *Placed {
	p := q.Pod
	if why := a.unserved(q); why != nil {
		if a.waits(ctx, q) {
			return nil
		}
		a.count(ctx.Now(), q, why)
		return &Placed{UID: p.UID, Number: q.Number, Rejected: why}
	}
	placing, others := a.placing(q)
	near, others := a.placingMemory(q, others)
	own, why := a.deps.Rules.Place(a.own, p, q.runs, others...)
	if why != nil {
		if a.waits(ctx, q) {
			return nil
		}
		a.count(ctx.Now(), q, why)
		return &Placed{UID: p.UID, Number: q.Number, Rejected: why}
	}
	if a.asks(ctx, q, placing) {
		return nil
	}
	q.unknown = placing.Unknown()
	if slices.ContainsFunc(q.down, func(c string) bool { return q.unknown[c] != "" }) && a.waits(ctx, q) {
		return nil
	}
	q.aligned = a.deps.Rules.Aligned(p, q.runs, a.own[p.UID], own)
	a.hold(ctx, q, own)
	a.takeMemory(ctx, q, near)
	if a.allocates(ctx, q, placing) {
		return nil
	}
	return a.answer(ctx, q)
}

// note gives a pod that has something new the version of the file that says so.
func (a *assignments) note(uid types.UID, file *checkpoint.Version) {
	if a.placed == nil {
		a.placed = map[types.UID]checkpoint.Version{}
	}
	*file = a.files.Changed()
	a.placed[uid] = *file
}

// answer is that of a request that has got what it asked for. It is nil if the files must be written first. A pod of
// which they say everything does not wait for what others get, so with a full disk, pods that ran before go on.
func (a *assignments) answer(ctx *kernel.Context[Message], q *request) *Placed {
	uid := q.Pod.UID
	answer := Placed{
		UID: uid, Number: q.Number, Own: q.own, Leaves: !cpus.Same(q.own, a.own[uid]), Memory: a.memory[uid],
	}
	devices, bad := a.devicesOf(uid)
	if len(bad) > 0 && !q.runs {
		a.release(ctx, uid)
		why := admit.Unexpected(firstOf(bad))
		a.count(ctx.Now(), q, why)
		return &Placed{UID: uid, Number: q.Number, Rejected: why}
	}
	a.count(ctx.Now(), q, nil)
	answer.Unknown = maps.Clone(q.unknown)
	if len(devices) > 0 {
		answer.Devices = devices
	}
	for name, err := range bad { // order-free: a map again
		if answer.Unknown == nil {
			answer.Unknown = map[string]string{}
		}
		answer.Unknown[name] = err.Error()
	}
	if a.files.Has(a.placed[uid]) {
		return &answer
	}
	a.answers.Put(answer, a.placed[uid])
	return nil
}
