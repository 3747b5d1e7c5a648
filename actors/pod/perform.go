package pod

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// Pools of slots that bound how much runs at once on the machine: what makes a
// pod, and what takes it down. A container that is stopped while its pod goes on,
// or by force, waits for none.
const (
	StartPool    = "start"
	TeardownPool = "teardown"
	// LookPool is for looks at what ran before this agent did, and at its volumes:
	// there may be hundreds of them at its start, and nothing waits for any. They come
	// after starts, for which somebody waits.
	LookPool = "look"
)

// Pools makes them, for so many starts and so many looks at once.
func Pools(starts, looks int) []kernel.Pool {
	return []kernel.Pool{
		{Name: StartPool, Size: starts, MinHold: 400 * time.Millisecond, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{Name: TeardownPool, Size: starts, MinHold: time.Second, MaxHold: 5 * time.Second, SlowHold: slowHold},
		{
			Name: LookPool, Size: looks, MinHold: 200 * time.Millisecond, MaxHold: 2 * time.Second, SlowHold: slowHold,
			Behind: StartPool, BehindMax: behindStarts,
		},
	}
}

// slowHold is what a RunPodSandbox takes on a machine that has far too much to do.
const slowHold = 3 * time.Second

// behindStarts is how long a look waits at the most until nothing is being started:
// what runs is to be known soon, also on a node that starts one pod after another.
const behindStarts = 3 * time.Second

// Deadlines of effects. They are the last resort: what a runtime needs on a
// loaded machine is far less, and slots are given back long before.
const (
	inspectDeadline = 2 * time.Minute
	sandboxDeadline = 4 * time.Minute
	startDeadline   = 4 * time.Minute
	stopSlack       = 2 * time.Minute
	stopPatience    = 5 * time.Second
	stopQueue       = 10 * time.Second // a container is asked to end no later than that, whatever others do
)

// run is what perform needs of an effect beside the action.
type run struct {
	deadline time.Duration
	patience time.Duration
	// pool and keeps are Pool and Keeps of the effect, idles its Idles, maxQueue its
	// MaxQueue.
	pool, keeps string
	idles       bool
	maxQueue    time.Duration
	call        func(ctx context.Context, done func(ActionDone))
}

// perform begins one action of a plan.
func (p *pod) perform(ctx *kernel.Context[Message], a podplan.Action) {
	lane := a.Lane()
	switch a := a.(type) {
	case podplan.EnsureImage:
		// Answered by the images actor at once, and again on each change.
		p.facts.images.Set(a.Container, imagepull.Image{State: imagepull.Pending, Attempt: a.Attempt, Image: a.Image})
		p.ensureImage(ctx, imagepull.Request(a))
		return
	case podplan.MountVolumes:
		p.facts.volumes = volumeplan.Volumes{State: volumeplan.Pending}
		p.mountVolumes(ctx)
		return
	case podplan.UnmountVolumes:
		p.facts.volumes = volumeplan.Volumes{State: volumeplan.Pending, Going: true}
		p.deps.Unmount(UnmountVolumes{UID: p.uid, Pod: p.want, ReplyTo: ctx.Self()})
		return
	case podplan.EnsureCgroup:
		p.facts.cgroup.State = podcgroup.Pending
		p.deps.EnsureCgroup(EnsureCgroup{Pod: p.want, Make: a.Make, ReplyTo: ctx.Self()})
		return
	case podplan.RemoveCgroup:
		p.facts.cgroup.State, p.facts.cgroup.Going = podcgroup.Pending, true
		p.deps.RemoveCgroup(RemoveCgroup{UID: p.uid, ReplyTo: ctx.Self()})
		return
	case podplan.NoteRestart:
		p.noteRestart(a)
		return
	case podplan.StopContainer:
		at := ctx.Now().Add(a.Grace)
		if old, ok := p.facts.killAt[a.ID]; !ok || at.Before(old) {
			put(&p.facts.killAt, a.ID, at)
		}
	case podplan.RunPostStart:
		p.setHook(a.ID, func(h *podplan.Hooks) { h.PostStart = podplan.HookRunning })
	case podplan.RunPreStop:
		at := ctx.Now()
		p.setHook(a.ID, func(h *podplan.Hooks) { h.PreStop, h.PreStopAt = podplan.HookRunning, at })
	case podplan.ObservePod:
		p.listing = p.changes
		if p.changing() {
			p.listing |= disturbed
		}
	default: // nothing to remember before the call
	}
	if changes(a) {
		p.changes++
	}
	r := p.effect(a)
	kind, object := actionKind(a), p.objectOf(a) // not in the closures: they run elsewhere
	e := kernel.Effect[Message]{
		Kind: kind, Object: object, Lane: laneName(lane), Tag: a,
		Pool: r.pool, Keeps: r.keeps, Rank: p.turn(a), Idles: r.idles, MaxQueue: r.maxQueue, Deadline: r.deadline, Patience: r.patience,
		Run: func(ctx context.Context, id kernel.EffectID, done func(Message)) {
			r.call(ctx, func(d ActionDone) {
				d.ID, d.Action = id, a
				done(d)
			})
		},
		Expired: func(id kernel.EffectID) Message {
			return ActionDone{ID: id, Action: a, Err: &port.Error{
				Kind: port.Deadline, Verb: kind, Object: object,
				Detail: fmt.Sprintf("no answer within %v", r.deadline.Round(100*time.Millisecond)),
			}}
		},
	}
	id := ctx.Do(e)
	p.busy.Set(lane, a)
	p.lanes.Set(id, lane)
}

// turn is the rank of an action. Pods that are already being torn down come first:
// they gave up their slot between two steps and should not queue again. Then the
// oldest pod goes first.
func (p *pod) turn(a podplan.Action) int64 {
	if p.stop == nil {
		return p.rank
	}
	if _, last := a.(podplan.StopSandbox); last || len(p.facts.stopped) > 0 {
		return p.rank - begunFirst
	}
	return p.rank
}

// begunFirst is more than there are ranks.
const begunFirst = int64(1) << 60

// effect says how an action is done at the ports.
func (p *pod) effect(a podplan.Action) run {
	rt := p.deps.Runtime
	pod := p.want
	switch a := a.(type) {
	case podplan.ObservePod:
		return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
			rt.List(ctx, string(p.uid), func(l observed.Runtime, err error) {
				d := ActionDone{Err: err}
				for i := range l.Pods {
					if l.Pods[i].Ref.UID == p.uid {
						d.View = l.Pods[i].Pod
					}
				}
				done(d)
			})
		}}
	case podplan.RunSandbox:
		r := port.RunPodSandbox{Pod: pod, Attempt: a.Attempt, Objects: p.objects}
		return run{deadline: sandboxDeadline, pool: StartPool, call: func(ctx context.Context, done func(ActionDone)) {
			if _, err := r.Objects.RuntimeHandler(pod); err != nil {
				done(ActionDone{Err: &port.Error{Kind: port.InvalidConfig, Verb: "RunPodSandbox", Object: pod.Namespace + "/" + pod.Name, Detail: err.Error()}})
				return
			}
			rt.RunPodSandbox(ctx, r, newID(done))
		}}
	case podplan.StopSandbox:
		return run{deadline: sandboxDeadline, pool: TeardownPool, call: func(ctx context.Context, done func(ActionDone)) {
			rt.StopPodSandbox(ctx, a.ID, onlyErr(done))
		}}
	case podplan.InspectSandbox:
		pool := ""
		if s := p.sandbox(a.ID); s != nil && s.State == observed.SandboxReady && s.CreatedAt.Before(p.born) {
			pool = LookPool
		}
		return run{deadline: inspectDeadline, pool: pool, call: func(ctx context.Context, done func(ActionDone)) {
			rt.PodSandboxStatus(ctx, a.ID, func(s observed.Sandbox, err error) {
				if err == nil {
					p.writeHosts(ctx, pod, s.IPs, func() { done(ActionDone{Sandbox: &s}) })
					return
				}
				done(ActionDone{Sandbox: &s, Err: err})
			})
		}}
	case podplan.CreateContainer:
		return p.create(a)
	case podplan.StartContainer:
		return p.start(a)
	case podplan.InspectContainer:
		pool, keeps := "", TeardownPool // the step between the end of a container and that of its sandbox
		if c := p.container(a.ID); c != nil && c.State == observed.ContainerRunning && c.StartedAt.IsZero() && c.CreatedAt.Before(p.born) {
			pool, keeps = LookPool, ""
		}
		spec, _ := podspec.Find(&p.want.Spec, a.Name)
		return run{deadline: inspectDeadline, pool: pool, keeps: keeps, call: func(ctx context.Context, done func(ActionDone)) {
			rt.ContainerStatus(ctx, a.ID, func(c observed.Container, err error) {
				if err == nil && spec != nil && c.State == observed.ContainerExited {
					p.lastWords(ctx, pod, spec, &c, func() { done(ActionDone{Container: &c}) })
					return
				}
				done(ActionDone{Container: &c, Err: err})
			})
		}}
	case podplan.StopContainer:
		pool := ""
		if p.stop != nil && a.Grace > 0 {
			pool = TeardownPool
		}
		return run{deadline: a.Grace + stopSlack, patience: a.Grace + stopPatience, pool: pool, maxQueue: stopQueue, idles: true, call: func(ctx context.Context, done func(ActionDone)) {
			rt.StopContainer(ctx, a.ID, a.Grace, onlyErr(done))
		}}
	case podplan.RemoveContainer:
		return p.remove(a)
	case podplan.LookResources:
		return p.look(a.IDs)
	case podplan.ResizePod:
		return p.resizePod(a)
	case podplan.ResizeContainer:
		spec, _ := podspec.Find(&pod.Spec, a.Name)
		u := port.UpdateContainer{ID: a.ID, Pod: pod, Container: spec, To: a.To}
		return run{deadline: startDeadline, call: func(ctx context.Context, done func(ActionDone)) {
			rt.UpdateContainer(ctx, u, onlyErr(done))
		}}
	case podplan.RunPostStart:
		return p.hook(a.Name, a.ID, a.Handler, startDeadline)
	case podplan.RunPreStop:
		return p.hook(a.Name, a.ID, a.Handler, a.Grace)
	case podplan.EnsureImage, podplan.MountVolumes, podplan.UnmountVolumes, podplan.EnsureCgroup, podplan.RemoveCgroup, podplan.NoteRestart:
		panic("asked of another actor, not an effect")
	default:
		panic(fmt.Sprintf("no effect for %T", a))
	}
}

func (p *pod) create(a podplan.CreateContainer) run {
	spec, _ := podspec.Find(&p.want.Spec, a.Name)
	if spec == nil {
		panic("the plan creates a container that the spec does not have: " + a.Name)
	}
	err := p.checkEnv(spec)
	target := ""
	if err == nil {
		target, err = p.target(a.Name)
	}
	var wish *wished
	if err == nil {
		wish, err = p.mounts(spec, a.PodIPs)
	}
	var envFiles port.ReadEnvFiles
	if err == nil {
		envFiles, err = p.envFiles(spec)
	}
	if err != nil {
		return unable(err)
	}
	r := port.CreateContainer{
		Pod: p.want, Container: spec, Attempt: a.Attempt, SandboxID: a.SandboxID, SandboxAttempt: a.SandboxAttempt,
		ImageRef: a.ImageRef, SpecHash: a.SpecHash,
		PodIPs: a.PodIPs, HostIPs: p.deps.HostIPs, Objects: p.objects, TargetID: target,
	}
	if i := p.images.At(a.Name); i != nil {
		r.Image = *i
	}
	c := creation{rt: p.deps.Runtime, files: p.deps.Files, subPaths: p.deps.SubPaths, wish: wish, envFiles: envFiles, r: r}
	return run{deadline: startDeadline, pool: StartPool, call: func(ctx context.Context, done func(ActionDone)) {
		c.begin(ctx, done)
	}}
}

// target is the container whose processes the one of that name is to see; empty
// for all but an ephemeral one that names it.
func (p *pod) target(name string) (string, error) {
	for i := range p.want.Spec.EphemeralContainers {
		e := &p.want.Spec.EphemeralContainers[i]
		if e.Name != name || e.TargetContainerName == "" {
			continue
		}
		if c, ok := p.view.Newest(e.TargetContainerName); ok {
			return c.ID, nil
		}
		return "", &port.Error{Kind: port.InvalidConfig, Verb: "CreateContainer", Object: p.name() + "/" + name,
			Detail: fmt.Sprintf("unable to find target container %s", e.TargetContainerName)}
	}
	return "", nil
}

func newID(done func(ActionDone)) func(string, error) {
	return func(id string, err error) { done(ActionDone{NewID: id, Err: err}) }
}

func onlyErr(done func(ActionDone)) func(error) {
	return func(err error) { done(ActionDone{Err: err}) }
}

// changes says whether an action changes what a list shows.
func changes(a podplan.Action) bool {
	switch a.(type) {
	case podplan.RunSandbox, podplan.StopSandbox, podplan.CreateContainer, podplan.StartContainer,
		podplan.StopContainer, podplan.RemoveContainer:
		return true
	default:
		return false
	}
}

func (p *pod) changing() bool {
	for _, b := range p.busy {
		if changes(b.Value) {
			return true
		}
	}
	return false
}

// actionKind is the action's name, as an operator knows it from the CRI.
func actionKind(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.ObservePod:
		return "List"
	case podplan.RunSandbox:
		return "RunPodSandbox"
	case podplan.StopSandbox:
		return "StopPodSandbox"
	case podplan.InspectSandbox:
		return "PodSandboxStatus"
	case podplan.EnsureImage:
		return "EnsureImage"
	case podplan.MountVolumes:
		return "MountVolumes"
	case podplan.UnmountVolumes:
		return "UnmountVolumes"
	case podplan.EnsureCgroup:
		return "EnsureCgroup"
	case podplan.RemoveCgroup:
		return "RemoveCgroup"
	case podplan.CreateContainer:
		return "CreateContainer"
	case podplan.StartContainer:
		return "StartContainer"
	case podplan.InspectContainer:
		return "ContainerStatus"
	case podplan.RunPostStart:
		return hookKind(a.Handler)
	case podplan.RunPreStop:
		return hookKind(a.Handler)
	case podplan.LookResources:
		return "LookResources"
	case podplan.ResizePod:
		return "SetPodCgroup"
	case podplan.ResizeContainer:
		return "UpdateContainerResources"
	case podplan.StopContainer:
		return "StopContainer"
	case podplan.RemoveContainer:
		return "RemoveContainer"
	case podplan.NoteRestart:
		return "NoteRestart"
	default:
		panic(fmt.Sprintf("no name for %T", a))
	}
}

func hookKind(h *v1.LifecycleHandler) string {
	switch {
	case h != nil && h.Exec != nil:
		return "ExecSync"
	case h != nil && h.HTTPGet != nil:
		return "HTTPGet"
	default:
		return "Sleep"
	}
}

// objectOf is what the action is about: the pod, or a container of it.
func (p *pod) objectOf(a podplan.Action) string {
	switch a := a.(type) {
	case podplan.CreateContainer:
		return a.Name
	case podplan.StartContainer:
		return a.Name
	case podplan.InspectContainer:
		return a.Name
	case podplan.RunPostStart:
		return a.Name + " postStart"
	case podplan.RunPreStop:
		return a.Name + " preStop"
	case podplan.StopContainer:
		return a.Name
	case podplan.RemoveContainer:
		return a.Name
	case podplan.EnsureImage:
		return a.Container
	case podplan.ResizeContainer:
		return a.Name
	default:
		return p.name()
	}
}

func laneName(l podplan.Lane) string {
	if l.N == 0 {
		return l.Kind.String() + "/" + l.Name
	}
	return fmt.Sprintf("%s/%s#%d", l.Kind, l.Name, l.N)
}
