package live

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos"
	"github.com/troupe-dev/troupe/supervisor/chaos/live/criproxy"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/invariants"
)

// lag is how much later than the session an agent may hear of something, on a busy machine.
const lag = 2 * time.Second

// world is what is known of one case while it runs. The session's lock guards it.
type world struct {
	s       *Session
	c       *plan.Case
	rules   *invariants.Node
	history *chaos.History
	inj     *injector
	ends    *ends
	out     *chaos.Result
	// over is closed at the end of the case: what hangs is let go.
	over chan struct{}

	// killed and downed are asked for by hooks, which can't do it themselves.
	killed, downed bool
	// wanted are the pods of the API, static the manifests by role.
	wanted map[types.UID]*v1.Pod
	static map[string]*v1.Pod
	// refs are the pods by what the runtime has of them.
	refs map[string]observed.PodRef
	// What was asked of the runtime, by ID: why containers end follows from it.
	stops, sandboxStops, removals, outside map[string]bool
	// streamed: the agent's list is under way as a stream.
	streamed bool
	// at is when what the rules are told of has happened, zero for now.
	at time.Time
}

func newWorld(s *Session, c *plan.Case) *world {
	w := &world{
		s: s, c: c, history: chaos.NewHistory(c), inj: newInjector(c), ends: newEnds(), over: make(chan struct{}),
		out:    &chaos.Result{Case: c, Ready: map[string]time.Duration{}},
		wanted: map[types.UID]*v1.Pod{}, static: map[string]*v1.Pod{}, refs: map[string]observed.PodRef{},
		stops: map[string]bool{}, sandboxStops: map[string]bool{}, removals: map[string]bool{}, outside: map[string]bool{},
	}
	w.rules = invariants.New(w.now, w.violated)
	return w
}

// now is the time for the rules: that of what they are told of, where that is known to be earlier.
func (w *world) now() time.Time {
	if !w.at.IsZero() {
		return w.at
	}
	return time.Now()
}

// happened tells the rules of something that happened at a time, now at the latest. The time
// stands still meanwhile: rules compare times that they take one after the other.
func (w *world) happened(at time.Time, tell func()) {
	if w.at = time.Now(); at.Before(w.at) {
		w.at = at
	}
	defer func() { w.at = time.Time{} }()
	tell()
}

func (w *world) violated(v invariants.Violation) {
	w.out.Violations = append(w.out.Violations, v)
	w.s.wake()
}

// roleOf is the name of a pod in the case: a static one's without that of its node.
func (w *world) roleOf(pod string) string { return strings.TrimSuffix(pod, "-"+w.s.config.Node) }

// strike notes an effect that kills somebody.
func (w *world) strike(e plan.Effect) plan.Effect {
	switch e.Do {
	case plan.KillAgent:
		w.killed = true
		w.s.agent.signal(syscall.SIGKILL)
		w.s.wake()
	case plan.KillRuntime:
		w.downed = true
		w.s.wake()
	default:
	}
	return e
}

// called is a call of the runtime by the agent.
func (w *world) called(c *criproxy.Call) plan.Effect {
	m, known := methodOf(c.Method)
	role, counts := w.about(c, m)
	if !known || !counts {
		return plan.Effect{}
	}
	e := w.strike(w.inj.at(plan.Call, m.String(), role))
	call := simcri.Call{
		Method: m, Object: objectOf(c), Container: role.Container,
		Pod: observed.PodRef{UID: types.UID(c.PodUID), Namespace: c.PodNamespace, Name: role.Pod},
	}
	switch r := c.Request.(type) {
	case *runtimeapi.StopContainerRequest:
		call.Grace = time.Duration(r.GetTimeout()) * time.Second
	case *runtimeapi.ExecSyncRequest:
		if len(r.GetCmd()) > 0 {
			call.Command = r.GetCmd()[0]
		}
	}
	if role.Pod != "" {
		w.told(c.PodName, types.UID(c.PodUID))
		switch m {
		case simcri.RunPodSandbox, simcri.CreateContainer, simcri.StartContainer, simcri.StopContainer,
			simcri.StopPodSandbox, simcri.RemoveContainer, simcri.RemovePodSandbox, simcri.PullImage, simcri.UpdateContainer:
			w.out.Changes++
		default:
		}
		w.happened(time.Now(), func() { w.rules.Called(call, chaos.CallFault(e, port.Other)) })
	}
	if e.Do != plan.Fail && e.Do != plan.Hang && e.Do != plan.KillAgent && e.Do != plan.KillRuntime {
		w.note(m, c)
	}
	return e
}

// about is the role of a call; counts is false for what is of others.
func (w *world) about(c *criproxy.Call, m simcri.Method) (role plan.Role, counts bool) {
	switch m {
	case simcri.Version, simcri.Status, simcri.ListImages:
		return role, true
	case simcri.ImageStatus:
		return role, slices.Contains(w.s.images[:], c.Image)
	case simcri.List:
		// A list is of sandboxes, then of containers; a stream that the runtime does not have is
		// followed by the list that it was to be.
		again := w.streamed && c.Method == "ListPodSandbox"
		w.streamed = c.Method == "StreamPodSandboxes"
		return role, !again
	case simcri.Events:
		return role, false
	default:
	}
	if c.PodNamespace != w.s.namespace {
		return role, false
	}
	return plan.Role{Pod: w.roleOf(c.PodName), Container: c.Container}, true
}

func objectOf(c *criproxy.Call) string {
	switch {
	case c.Method == "CreateContainer" || c.Method == "RunPodSandbox":
		return c.PodNamespace + "/" + c.PodName
	case c.ContainerID != "":
		return c.ContainerID
	case c.SandboxID != "":
		return c.SandboxID
	default:
		return c.Image
	}
}

// note keeps what was asked of the runtime.
func (w *world) note(m simcri.Method, c *criproxy.Call) {
	switch m {
	case simcri.StopContainer:
		w.stops[c.ContainerID] = true
	case simcri.StopPodSandbox, simcri.RemovePodSandbox:
		w.sandboxStops[c.SandboxID] = true
	case simcri.RemoveContainer:
		w.removals[c.ContainerID] = true
	default:
	}
}

// killedBy is the exit code of a process that SIGKILL has ended.
const killedBy = 137

func (w *world) cause(id, sandbox string, code int32) simcri.Cause {
	switch {
	case w.outside[id]:
		return simcri.FromOutside
	case w.stops[id] && code == killedBy:
		return simcri.ByKill
	case w.stops[id]:
		return simcri.BySignal
	case w.removals[id]:
		return simcri.WithRemoval
	case w.sandboxStops[sandbox]:
		return simcri.WithSandbox
	default:
		return simcri.ByItself
	}
}

// event is an event of the runtime on its way to the agent.
func (w *world) event(e port.RuntimeEvent) criproxy.Fate {
	ref := e.Pod
	if ref.UID == "" {
		ref = w.refs[e.ContainerID]
	}
	if ref.Namespace != w.s.namespace {
		return criproxy.Fate{}
	}
	effect := w.inj.at(plan.Event, e.Kind.String(), plan.Role{Pod: w.roleOf(ref.Name)})
	return criproxy.Fate{Drop: effect.Do == plan.Drop, Twice: effect.Do == plan.Twice, Delay: effect.For}
}

// asked is a request of the agent to the apiserver.
func (w *world) asked(q *request) plan.Effect {
	role := plan.Role{}
	if q.kind == port.PodKind && q.name != "" {
		if q.namespace != w.s.namespace {
			return plan.Effect{}
		}
		role.Pod = w.roleOf(q.name)
	}
	e := w.strike(w.inj.at(plan.API, q.subject, role))
	if e.Do == plan.WorkLate && role.Pod != "" {
		w.rules.LateWrite(q.namespace, role.Pod)
	}
	if q.name == "" && e.Do != "" {
		w.rules.Stands(e.For + lag) // the agent hears of changes that much later
	}
	if strings.HasPrefix(q.subject, "Create") || strings.HasPrefix(q.subject, "Patch") ||
		strings.HasPrefix(q.subject, "Delete") {
		w.out.Writes++
	}
	return e
}

// changed is a change in the runtime.
func (w *world) changed(t simcri.Transition) {
	w.refs[t.ID] = t.Pod
	w.told(t.Pod.Name, t.Pod.UID)
	t.Pod.Name = w.roleOf(t.Pod.Name)
	w.happened(t.At, func() { w.rules.Changed(t) })
	w.history.Changed(t)
}

// told tells the rules of a static pod, whose UID the agent has made.
func (w *world) told(name string, uid types.UID) {
	role := w.roleOf(name)
	p := w.static[role]
	if role == name || p == nil || p.UID == uid {
		return
	}
	p = p.DeepCopy()
	p.UID, p.Name = uid, role
	p.Annotations = map[string]string{podspec.AnnotationSource: string(podspec.File)}
	w.static[role] = p
	w.rules.Told(podspec.File, slices.Collect(maps.Values(w.static)))
}

// began: another agent is started. It will be told what is known here.
func (w *world) began() {
	w.rules.Began()
	w.rules.Stands(lag)
	w.rules.Told(podspec.API, slices.Collect(maps.Values(w.wanted)))
	w.rules.Told(podspec.File, slices.Collect(maps.Values(w.static)))
}

// shown is a version of a pod in the API. The agent is told of it about now.
func (w *world) shown(p *v1.Pod, gone bool) {
	p = p.DeepCopy()
	p.Name = w.roleOf(p.Name)
	if !podspec.Mirror(p) {
		before := w.wanted[p.UID]
		if w.wanted[p.UID] = p; gone {
			delete(w.wanted, p.UID)
		}
		if gone || p.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) {
			w.rules.Stands(lag)
		}
		// The agent may have been told a moment before: its grace periods count from then.
		at := time.Now()
		if d := p.DeletionTimestamp; d != nil && p.DeletionGracePeriodSeconds != nil {
			at = d.Add(-podspec.Seconds(*p.DeletionGracePeriodSeconds))
		}
		w.happened(at, func() { w.rules.Told(podspec.API, slices.Collect(maps.Values(w.wanted))) })
	}
	w.happened(time.Now(), func() { w.rules.Shown(p, gone) })
	w.history.Shown(p, gone, time.Now())
	w.ends.shown(p.Name, p)
}
