package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// history is what has happened to the pods of a case, by role: what operations wait for, and
// what is missing at the end.
type history struct {
	// standalone: what is shown is what the agent says. cluster: pods may be deleted by controllers.
	standalone, cluster bool
	nodes               []string
	pods                map[string]*podState
	names               map[types.UID]string
	// workloads are the workloads of a cluster.
	workloads map[string]*workload
}

// podState is one pod of the case, or one pod of a workload.
type podState struct {
	// workload is the workload that it belongs to, nil for none.
	workload *workload
	// static: it comes by a manifest. shown is its newest version in the API.
	static bool
	shown  *v1.Pod
	// revived: it was deleted, and the apiserver was restored from a backup that has it. The agent may
	// have stopped it for good before.
	revived bool
	// asked is the pod as it was asked for last, nil if it is not to be.
	asked   *v1.Pod
	at      time.Time
	first   time.Duration // until it was Ready for the first time and stayed so, 0 if it never was
	since   time.Time     // when it was last shown as Ready, zero if it is not
	status  *v1.PodStatus // as it is shown, nil if it is not
	uid     types.UID     // of what is shown
	sandbox string        // the ready one
	// newest is the UID of the sandbox that began last, and older are those before it: such a pod may still end beside it.
	newest types.UID
	older  map[types.UID]bool
	// inRuntime is the UID of what the runtime told of last.
	inRuntime types.UID
	objects   int // what the runtime has of it
	made      bool
	parts     map[string]*part
	// restarts are the starts of its containers but the first of each UID; looped: it was asked for as
	// one that ends by itself.
	restarts int
	looped   bool
}

// part is one container.
type part struct {
	running string
	// ran is the newest that was started, as long as the runtime has it.
	ran                  string
	startedAs            types.UID
	made, started, ended bool
}

func newHistory(c *plan.Case) *history {
	return &history{
		standalone: c.Standalone, cluster: c.Nodes > 0, nodes: c.NodeNames(),
		pods: map[string]*podState{}, names: map[types.UID]string{}, workloads: map[string]*workload{},
	}
}

// podName is the name of a pod, of a static one without that of its node.
func (s *history) podName(name string) string {
	for _, n := range s.nodes {
		if short, is := strings.CutSuffix(name, "-"+n); is {
			return short
		}
	}
	return name
}

// role is what a case calls the pod of this name: pods of a workload have the name of that.
func (s *history) role(name string) string {
	if w := s.workloadOf(name); w != nil {
		return w.name
	}
	return name
}

// roleOf is the role of a pod, or of one of its containers, by its name in the API.
func (s *history) roleOf(pod, container string) plan.Role {
	return plan.Role{Pod: s.role(s.podName(pod)), Container: container}
}

func (s *history) pod(name string) *podState {
	c := s.pods[name]
	if c == nil {
		c = &podState{parts: map[string]*part{}, workload: s.workloadOf(name)}
		s.pods[name] = c
	}
	return c
}

// begins notes whose sandbox began.
func (c *podState) begins(uid types.UID) {
	if c.older == nil {
		c.older = map[types.UID]bool{}
	}
	c.older[c.newest] = true
	delete(c.older, uid)
	c.newest = uid
}

func (c *podState) part(name string) *part {
	p := c.parts[name]
	if p == nil {
		p = &part{}
		c.parts[name] = p
	}
	return p
}

// nameOf is the role of a pod by its UID, empty if it is unknown.
func (s *history) nameOf(uid types.UID) string { return s.names[uid] }

func (s *history) want(name string, p *v1.Pod, static bool, now time.Time) {
	c := s.pod(name)
	c.asked, c.static, c.revived, c.at, c.first, c.since = p, static, false, now, 0, time.Time{}
	c.looped = c.looped || c.loops()
}

func (s *history) unwant(name string) { s.pod(name).asked = nil }

// transition is a change in the runtime.
func (s *history) transition(t simcri.Transition) {
	name := s.podName(t.Pod.Name)
	s.names[t.Pod.UID] = name
	c := s.pod(name)
	c.inRuntime = t.Pod.UID
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		c.objects++
	case observed.ContainerDeletedEvent:
		if c.objects--; c.objects == 0 && s.standalone && c.asked == nil {
			c.status = nil
		}
		s.forget(name, c)
	default:
	}
	if t.Container == "" {
		switch t.Kind {
		case observed.ContainerStartedEvent:
			c.sandbox, c.made = t.ID, true
			c.begins(t.Pod.UID)
		case observed.ContainerStoppedEvent:
			if c.sandbox == t.ID {
				c.sandbox = ""
			}
		default:
		}
		return
	}
	p := c.part(t.Container)
	switch t.Kind {
	case observed.ContainerCreatedEvent:
		p.made = true
	case observed.ContainerStartedEvent:
		if p.startedAs == t.Pod.UID {
			c.restarts++
		}
		p.started, p.startedAs, p.running, p.ran = true, t.Pod.UID, t.ID, t.ID
	case observed.ContainerStoppedEvent:
		p.ended = true
		if p.running == t.ID {
			p.running = ""
		}
	case observed.ContainerDeletedEvent:
		if p.ran == t.ID {
			p.ran = ""
		}
	default:
	}
}

// version is a version of a pod in the API.
func (s *history) version(p *v1.Pod, gone bool, now time.Time) {
	name := s.podName(p.Name)
	if !podspec.Mirror(p) {
		s.names[p.UID] = name
	}
	c := s.pod(name)
	if gone {
		if c.uid == p.UID {
			c.readySince(false, now)
			c.status, c.shown = nil, nil
		}
		s.asks(c, p, false)
		s.forget(name, c)
		return
	}
	c.uid, c.shown = p.UID, p
	s.asks(c, p, p.DeletionTimestamp == nil)
	s.status(name, &p.Status, now)
}

func (s *history) status(name string, status *v1.PodStatus, now time.Time) {
	c := s.pod(name)
	c.status = status
	c.readySince(podstatus.Ready(status), now)
}

// stays is how long a pod is Ready at least to count. A container that ends as soon as it has started may be shown as
// Ready in between or not: that is a matter of milliseconds, and not of how soon it was started.
const stays = time.Second

// readySince notes whether the pod is Ready from now on.
func (c *podState) readySince(ready bool, now time.Time) {
	switch {
	case ready && c.since.IsZero():
		c.since = now
	case !ready && !c.since.IsZero():
		if c.first == 0 && now.Sub(c.since) >= stays {
			c.first = c.since.Sub(c.at)
		}
		c.since = time.Time{}
	}
}

// runningID is the running container of a role, the first of a workload; empty if none runs.
func (s *history) runningID(role plan.Role) string {
	for _, c := range s.of(role.Pod) {
		if id := c.part(role.Container).running; id != "" {
			return id
		}
	}
	return ""
}

// ranID is that container or, if none runs, the last one that did.
func (s *history) ranID(role plan.Role) string {
	id := s.runningID(role)
	for _, c := range s.of(role.Pod) {
		id = cmp.Or(id, c.part(role.Container).ran)
	}
	return id
}

func (s *history) readySandbox(pod string) string {
	for _, c := range s.of(pod) {
		if c.sandbox != "" {
			return c.sandbox
		}
	}
	return ""
}

// is reports whether a role is in a state, or for what happens once, was in it.
func (s *history) is(role plan.Role, state plan.State) bool {
	if w := s.workloads[role.Pod]; w != nil {
		return s.workloadIs(w, role, state)
	}
	return s.pod(role.Pod).is(role, state)
}

func (c *podState) is(role plan.Role, state plan.State) bool {
	if role.Container != "" {
		p := c.part(role.Container)
		switch state {
		case plan.Made:
			return p.made
		case plan.Started:
			return p.started
		case plan.Ended:
			return p.ended
		case plan.Running:
			return p.running != ""
		default:
			return false
		}
	}
	switch state {
	case plan.Made:
		return c.made
	case plan.Running:
		return c.phase() == v1.PodRunning
	case plan.Ready:
		return c.status != nil && podstatus.Ready(c.status)
	case plan.Succeeded, plan.Failed:
		return string(c.phase()) == string(state)
	case plan.Gone:
		return c.made && c.status == nil && c.objects == 0
	default:
		return false
	}
}

func (c *podState) phase() v1.PodPhase {
	if c.status == nil {
		return ""
	}
	return c.status.Phase
}

// endings are the words of what a container does with which it is not Ready for good.
var endings = []string{
	"run-for", "exit-code", "crash-loop", "oom-after", "start-error", "unhealthy-after", "unready-for", "probe-hang",
}

// loops says that a pod is never Ready for good: what it does ends, and is started again.
func (c *podState) loops() bool {
	for key := range c.asked.Annotations {
		container, word, _ := strings.Cut(strings.TrimPrefix(key, simcri.AnnotationPrefix), ".")
		if slices.Contains(endings, word) && c.main(container) {
			return true
		}
	}
	return false
}

// restless says that there is always something to do about a pod.
func (c *podState) restless() bool {
	return c.loops() || c.asked.Spec.ActiveDeadlineSeconds != nil || plan.LockedOut(c.asked)
}

// ends says whether the pod can come to an end by itself.
func (c *podState) ends() bool {
	p := c.asked.Spec.RestartPolicy
	return p == v1.RestartPolicyNever || p == v1.RestartPolicyOnFailure
}

// main says whether a container is one of those that the pod is Ready with.
func (c *podState) main(name string) bool {
	return slices.ContainsFunc(c.asked.Spec.Containers, func(x v1.Container) bool { return x.Name == name })
}

// missing says what is missing until all is well; empty if nothing is.
func (r *runner) missing() string {
	for m := range r.there() {
		if m.Runner() == nil || !m.On() {
			return "the agent of " + m.Name() + " does not run"
		}
	}
	why, left := r.history.missing()
	switch {
	case why != "":
		return why
	case r.cluster:
		return r.clusterMissing()
	}
	if n := r.caseNodes[0].Machine().Host.Pods(); n > left {
		return fmt.Sprintf("the machine has directories of %d pods, %d are wanted", n, left)
	}
	return ""
}

// missing says what is missing of the pods, empty if nothing is, and how many are wanted.
func (s *history) missing() (why string, left int) {
	for _, name := range sorted(s.pods) {
		c := s.pods[name]
		if c.workload != nil {
			continue
		}
		if c.asked != nil {
			left++
		}
		if why = c.missing(name, s.standalone); why != "" {
			return why, left
		}
	}
	return "", left
}

// missing says what is missing of one pod.
func (c *podState) missing(name string, standalone bool) string {
	// A deletion that the agent completes as it has no answer yet may meet the restored object.
	deleted := c.revived && c.status == nil
	if c.asked == nil || deleted {
		if c.status != nil && !standalone {
			return fmt.Sprintf("pod %s is still shown", name)
		}
		if c.objects > 0 {
			return fmt.Sprintf("the runtime still has %d objects of pod %s", c.objects, name)
		}
		return ""
	}
	switch {
	case c.status == nil:
		return fmt.Sprintf("pod %s is not shown", name)
	case podspec.Terminal(c.phase()) && (c.ends() || c.revived):
		if c.sandbox != "" {
			return fmt.Sprintf("pod %s has ended as %s, and has a ready sandbox", name, c.phase())
		}
	case c.phase() == v1.PodFailed && c.status.Reason == admit.UnexpectedAdmissionError:
		// Its device plugin did not answer, or has no healthy device: nobody tries it again but if it is static, and there
		// is nothing of it since an earlier agent.
		if c.sandbox != "" || c.static && !c.made && c.asked.Spec.ActiveDeadlineSeconds == nil {
			return fmt.Sprintf("pod %s was refused: %s", name, c.status.Message)
		}
	case podspec.Terminal(c.phase()) && c.status.Reason == eviction.Reason:
		if c.sandbox != "" {
			return fmt.Sprintf("pod %s was evicted, and has a ready sandbox", name)
		}
	case podspec.Terminal(c.phase()) && c.asked.Spec.ActiveDeadlineSeconds != nil:
	case c.loops() && !plan.LockedOut(c.asked):
		if c.sandbox == "" {
			return fmt.Sprintf("pod %s has no ready sandbox", name)
		}
	case c.unschedulable():
	case plan.LockedOut(c.asked): // it may run if it was given another image
	case !podstatus.Ready(c.status):
		return fmt.Sprintf("pod %s is not Ready, but %s", name, c.phase())
	case !c.revived:
		for i := range c.asked.Spec.Containers {
			if of := c.asked.Spec.Containers[i].Name; c.part(of).running == "" {
				return fmt.Sprintf("pod %s is shown as Ready, and container %s does not run", name, of)
			}
		}
	}
	return ""
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
