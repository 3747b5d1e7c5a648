package podstatus

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// conditions fills the conditions: those of other components as they are in the pod, then the
// node's own. phase is the computed one, which may not be shown yet.
func (c *computer) conditions(phase v1.PodPhase) {
	l := conditionList{prev: c.prev.Conditions}
	disrupted := c.disruption()
	for i := range c.pod.Status.Conditions {
		if o := &c.pod.Status.Conditions[i]; !Ours(o.Type) && (disrupted == "" || o.Type != v1.DisruptionTarget) {
			l.add(o)
		}
	}
	if disrupted != "" {
		c.add(&l, verdict{v1.DisruptionTarget, true, v1.PodReasonTerminationByKubelet, disrupted})
	} else if d := FindCondition(c.prev.Conditions, v1.DisruptionTarget); d != nil &&
		FindCondition(c.pod.Status.Conditions, v1.DisruptionTarget) == nil {
		l.add(d)
	}
	containers := c.containersReady(phase)
	c.add(&l, c.readyToStart())
	c.add(&l, c.initializedCondition(phase))
	c.add(&l, c.ready(containers))
	c.add(&l, containers)
	c.add(&l, verdict{kind: v1.PodScheduled, ok: true})
	if podspec.MayRestartAll(c.pod) {
		c.add(&l, c.restartingAll(phase))
	}
	c.resizeConditions(&l)
	c.out.Conditions = l.list()
}

// disruption is the message of DisruptionTarget while this node ends the pod to protect itself or other
// pods; empty if it does not.
func (c *computer) disruption() string {
	if s := c.in.Plan.Stop; s != nil && c.life() != podlife.Syncing {
		return s.Disruption
	}
	return ""
}

// verdict is a condition without its times.
type verdict struct {
	kind            v1.PodConditionType
	ok              bool
	reason, message string
}

// add appends a condition. lastTransitionTime changes only with the status.
func (c *computer) add(l *conditionList, v verdict) {
	n := v.condition(c.generation())
	old := FindCondition(c.prev.Conditions, v.kind)
	if old != nil {
		n.LastProbeTime = old.LastProbeTime
	}
	if old != nil && old.Status == n.Status {
		n.LastTransitionTime = old.LastTransitionTime
	} else {
		n.LastTransitionTime = stamp(c.in.Plan.Now)
	}
	l.add(&n)
}

// addResize appends a condition of a resize, which is there or not: lastTransitionTime changes with its reason, and
// lastProbeTime with all that it says.
func (c *computer) addResize(l *conditionList, v verdict, generation int64) {
	v.ok = true
	n := v.condition(generation)
	n.LastTransitionTime = stamp(c.in.Plan.Now)
	n.LastProbeTime = n.LastTransitionTime
	if old := FindCondition(c.prev.Conditions, v.kind); old != nil && old.Reason == n.Reason {
		n.LastTransitionTime = old.LastTransitionTime
		if old.Message == n.Message && old.ObservedGeneration == generation {
			n.LastProbeTime = old.LastProbeTime
		}
	}
	l.add(&n)
}

func (v *verdict) condition(generation int64) v1.PodCondition {
	n := v1.PodCondition{
		Type: v.kind, Status: v1.ConditionFalse, Reason: v.reason, Message: v.message, ObservedGeneration: generation,
	}
	if v.ok {
		n.Status = v1.ConditionTrue
	}
	return n
}

// readyToStart: the pod has a sandbox with a network, and its volumes were mounted.
func (c *computer) readyToStart() verdict {
	v := verdict{kind: v1.PodReadyToStartContainers}
	if v.message = c.lacks(); v.message == "" {
		v.ok = true
	} else {
		v.reason = "PodSandboxNotReady"
	}
	return v
}

// lacks says what is missing until containers can be started; empty if nothing is.
func (c *computer) lacks() string {
	const noBox, notReady, noAddress = "no pod sandbox exists", "pod sandbox is not ready", "pod sandbox has no IP address"
	old := FindCondition(c.prev.Conditions, v1.PodReadyToStartContainers)
	before := old != nil && old.Status == v1.ConditionTrue
	boxes, hostNetwork := c.in.Plan.View.Sandboxes, c.pod.Spec.HostNetwork
	if len(boxes) == 0 {
		if !c.in.Plan.Known && before {
			return ""
		}
		return noBox
	}
	s := &boxes[0]
	address := len(s.IPs) > 0 || hostNetwork
	switch {
	case s.State != observed.SandboxReady || c.in.Plan.SandboxStopped[s.ID]:
		return notReady
	case !s.Detailed && !before && !address:
		return notReady // it is not known yet whether it has one
	case !s.Detailed:
		return ""
	case s.HostNetwork != hostNetwork:
		return "network namespace mode changed and sandbox needs to be recreated"
	case !address:
		return noAddress
	}
	// Volumes are mounted at the same time as the sandbox is made. Once they were mounted, a restarted
	// agent that has not checked them yet does not take that back.
	if before || len(c.in.Plan.View.Containers) > 0 || c.in.Plan.Volumes.State == volumeplan.Up {
		return ""
	}
	return "the volumes of the pod are not mounted yet"
}

// initializedCondition: the init containers are complete. Once they were, that stays, also while they run again: in
// another sandbox, or when all containers are restarted.
func (c *computer) initializedCondition(phase v1.PodPhase) verdict {
	v := verdict{kind: v1.PodInitialized}
	switch {
	case phase == v1.PodSucceeded:
		v.ok, v.reason = true, "PodCompleted"
		return v
	case c.mainStarted():
		v.ok = true // a sidecar that starts again doesn't undo it
		return v
	}
	var incomplete []string
	for i := range c.pod.Spec.InitContainers {
		s := &c.out.InitContainerStatuses[i]
		if podspec.IsSidecar(&c.pod.Spec.InitContainers[i]) {
			if s.Started == nil || !*s.Started {
				incomplete = append(incomplete, s.Name)
			}
		} else if !s.Ready {
			incomplete = append(incomplete, s.Name)
		}
	}
	before := FindCondition(c.prev.Conditions, v.kind)
	if len(incomplete) == 0 || before != nil && before.Status == v1.ConditionTrue {
		v.ok = true
		return v
	}
	v.reason, v.message = "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %s", incomplete)
	return v
}

// restartingAll: a container's rule restarts the whole pod (KEP-5532), and the restart is not done:
// an old container still lives, or no new one exists. Only pods with such a rule have the
// condition.
func (c *computer) restartingAll(phase v1.PodPhase) verdict {
	v := verdict{kind: v1.AllContainersRestarting}
	switch phase {
	case v1.PodSucceeded:
		v.reason = "PodCompleted"
		return v
	case v1.PodFailed:
		v.reason = "PodFailed"
		return v
	case v1.PodPending, v1.PodRunning, v1.PodUnknown:
	}
	epoch := c.in.Out.Epoch
	if epoch.IsZero() || c.life() != podlife.Syncing {
		return v
	}
	old, fresh := false, false
	for ct := range podspec.Lasting(&c.pod.Spec) {
		n, _ := c.newest(ct.Name)
		if n == nil {
			continue
		}
		before := n.CreatedAt.Before(epoch)
		old, fresh = old || before && c.lives(n), fresh || !before
	}
	if old || !fresh {
		v.ok, v.reason, v.message = true, "RestartAllContainersStarted",
			"a container exited, and its restartPolicyRules restart all containers"
	}
	return v
}

// mainStarted says whether any main container is shown to run, or to have ended.
func (c *computer) mainStarted() bool {
	for i := range c.out.ContainerStatuses {
		if s := &c.out.ContainerStatuses[i].State; s.Running != nil || s.Terminated != nil {
			return true
		}
	}
	return false
}

// containersReady: all main containers and sidecars are ready.
func (c *computer) containersReady(phase v1.PodPhase) verdict {
	v := verdict{kind: v1.ContainersReady}
	if phase == v1.PodSucceeded {
		v.reason = "PodCompleted"
		return v
	}
	if phase == v1.PodFailed {
		v.reason = "PodFailed"
		return v
	}
	names := make([]byte, 0, 128) // mostly on the stack, because this runs again and again while a pod starts
	for i := range c.pod.Spec.InitContainers {
		if s := &c.out.InitContainerStatuses[i]; podspec.IsSidecar(&c.pod.Spec.InitContainers[i]) && !s.Ready {
			names = append(append(names, ' '), s.Name...)
		}
	}
	for i := range c.pod.Spec.Containers {
		if s := find(c.out.ContainerStatuses, c.pod.Spec.Containers[i].Name); !s.Ready {
			names = append(append(names, ' '), s.Name...)
		}
	}
	if len(names) == 0 {
		v.ok = true
		return v
	}
	v.reason, v.message = "ContainersNotReady", unreadyMessage(names[1:], FindCondition(c.prev.Conditions, v.kind))
	return v
}

// unreadyMessage reuses old's message if it says the same.
func unreadyMessage(names []byte, old *v1.PodCondition) string {
	const begin, end = "containers with unready status: [", "]"
	if old != nil {
		if m, ok := strings.CutPrefix(old.Message, begin); ok && len(m) == len(names)+1 && m[:len(names)] == string(names) {
			return old.Message
		}
	}
	return begin + string(names) + end
}

// ready: the containers are ready and all readiness gates of the pod are true.
func (c *computer) ready(containers verdict) verdict {
	v := containers
	v.kind = v1.PodReady
	if !v.ok {
		return v
	}
	var closed []string
	shown := smallmap.LookupIn(c.pod.Status.Conditions, func(c *v1.PodCondition) v1.PodConditionType { return c.Type })
	for _, g := range c.pod.Spec.ReadinessGates {
		o := shown.Get(g.ConditionType)
		switch {
		case o == nil:
			closed = append(closed,
				fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(g.ConditionType)))
		case o.Status != v1.ConditionTrue:
			closed = append(closed,
				fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(g.ConditionType), o.Status))
		}
	}
	if len(closed) > 0 {
		v.ok, v.reason, v.message = false, "ReadinessGatesNotReady", strings.Join(closed, ", ")
	}
	return v
}

// Ours says whether only the node agent sets a condition.
func Ours(t v1.PodConditionType) bool {
	switch t {
	case v1.PodScheduled, v1.PodReady, v1.PodInitialized, v1.ContainersReady, v1.PodReadyToStartContainers,
		v1.PodResizePending, v1.PodResizeInProgress, v1.AllContainersRestarting:
		return true
	case v1.DisruptionTarget:
		return false // shared with other components that evict
	}
	return false
}

// Ready says whether the condition Ready is true.
func Ready(s *v1.PodStatus) bool {
	c := FindCondition(s.Conditions, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}

// FindCondition returns a pointer to the condition of a type in the list; nil if there is none.
func FindCondition(list []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
