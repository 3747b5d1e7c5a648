package podview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/podset"
)

// viewOf computes the view of all pods. doing lists the running effects of a pod's actor.
func viewOf(node string, i podset.Inventory, doing func(*podset.Fact) []kernel.EffectInfo) View {
	v := View{Node: node, WaitingFor: waitingFor(&i), Pods: make([]Pod, 0, len(i.Pods)), Problems: i.Problems,
		Mirrors: i.Mirrors}
	v.Ready = len(v.WaitingFor) == 0
	for n := range i.Pods {
		f := &i.Pods[n]
		if abandoned(f) && f.DesiredAgain == nil {
			continue
		}
		p := show(f)
		if f.Report.Status == nil && f.Rejected == nil && f.Found {
			p.Phase, p.Problem = string(v1.PodUnknown), cmp.Or(p.Problem, unseen)
		}
		for _, e := range doing(f) {
			p.Doing = append(p.Doing, strings.TrimSpace(e.Kind+" "+e.Object))
		}
		slices.Sort(p.Doing)
		v.Pods = append(v.Pods, p)
	}
	slices.SortFunc(v.Pods, func(x, y Pod) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	return v
}

// waitingFor lists what blocks all starts and stops.
func waitingFor(i *podset.Inventory) (out []string) {
	if i.AsksCollected {
		out = append(out, "the list of leftover pods to remove")
	}
	if i.NotListed {
		out = append(out, "the first list of containers from the runtime")
	}
	for _, name := range i.Loading {
		out = append(out, "the checkpoint "+name)
	}
	for _, s := range i.Unseen {
		out = append(out, "the source "+string(s))
	}
	return out
}

// unseen describes a pod from before this agent that has no status yet: its containers are not
// inspected, and its probes have no results.
const unseen = "found in the runtime at agent start; its state is not known yet"

// abandoned: only the UID of the pod is known.
func abandoned(f *podset.Fact) bool { return f.Pod.Name == "" }

// gone: it has ended, no source has it, and its remains are removed, soon or later.
func gone(f *podset.Fact) bool { return f.State == decide.Collecting && f.DesiredAgain == nil }

// problem describes the last crash of a pod's actor.
func problem(f *podset.Fact) string {
	if f.Crash == nil {
		return ""
	}
	what := "restarted"
	if f.Crash.Decision == kernel.Quarantine {
		what = "quarantined"
	}
	return fmt.Sprintf("its actor is %s after %d crashes, next attempt in %v: %s",
		what, f.Crash.Crashes, f.Crash.RetryAfter, f.Crash.Reason)
}

// returning is why a wanted pod does not run yet.
func returning(f *podset.Fact) string {
	if f.State == decide.Collecting {
		return "it starts when the remains of its previous run are removed"
	}
	return "it was removed from its source and added again; it is stopping and then starts again"
}

// show computes the view of one pod.
func show(r *podset.Fact) Pod {
	p := Pod{
		Namespace: r.Pod.Namespace, Name: r.Pod.Name, UID: r.Pod.UID, Source: r.Origin,
		Life: r.State.String(), Phase: string(v1.PodPending), Containers: []Container{}, Problem: problem(r),
		Priority: r.Pod.Spec.Priority, Removed: r.Removal != decide.Kept && r.DesiredAgain == nil || gone(r),
	}
	if r.Rejected != nil {
		var s v1.PodStatus
		r.Rejected.Show(&s)
		p.Phase, p.Reason, p.Message = string(s.Phase), s.Reason, s.Message
	}
	if r.DesiredAgain != nil && p.Problem == "" {
		p.Problem = returning(r)
	}
	p.Problem = cmp.Or(p.Problem, r.Behind)
	if abandoned(r) && r.DesiredAgain != nil {
		p.Namespace, p.Name, p.Source = r.DesiredAgain.Pod.Namespace, r.DesiredAgain.Pod.Name, r.DesiredAgain.Origin
	}
	if r.Report.Status == nil || r.State == decide.Rejected {
		return p
	}
	s := r.Report.Status
	p.Life = r.Report.Life
	if p.Problem == "" {
		p.Problem = r.Report.Trouble
	}
	p.Phase, p.Reason, p.Message, p.IP = string(s.Phase), s.Reason, s.Message, s.PodIP
	p.StartTime = timeOf(s.StartTime)
	if c := podstatus.FindCondition(s.Conditions, v1.PodReady); c != nil {
		if p.Ready = c.Status == v1.ConditionTrue; !p.Ready {
			p.Unready = c.Message
		}
	}
	if c := podstatus.FindCondition(s.Conditions, v1.PodResizePending); c != nil {
		p.ResizePending = c.Reason
	}
	p.Resizing = podstatus.FindCondition(s.Conditions, v1.PodResizeInProgress) != nil
	p.Containers = containers(&r.Pod.Spec, s)
	gates := r.Report.Gates.Index()
	for i := range p.Containers {
		c := &p.Containers[i]
		p.Restarts += c.Restarts
		c.Gate, _ = gates(c.Name)
	}
	return p
}

// containers lists those of a pod, in the order of its spec, init containers first.
func containers(spec *v1.PodSpec, s *v1.PodStatus) []Container {
	out, inSpec := []Container{}, podspec.Containers(spec)
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		kind := podspec.Init
		if spec, is := inSpec(c.Name); spec != nil {
			kind = is
		}
		out = append(out, showContainer(c, kind))
	}
	for i := range s.ContainerStatuses {
		out = append(out, showContainer(&s.ContainerStatuses[i], podspec.Main))
	}
	for i := range s.EphemeralContainerStatuses {
		out = append(out, showContainer(&s.EphemeralContainerStatuses[i], podspec.Ephemeral))
	}
	return out
}

func showContainer(c *v1.ContainerStatus, kind podspec.Kind) Container {
	v := Container{
		Name: c.Name, Kind: kind.String(), ID: c.ContainerID, Ready: c.Ready, Restarts: c.RestartCount, Image: c.Image,
		State: "waiting",
	}
	switch {
	case c.State.Running != nil:
		v.State, v.StartedAt = "running", timeOf(&c.State.Running.StartedAt)
	case c.State.Terminated != nil:
		t := c.State.Terminated
		code := t.ExitCode
		v.State, v.Reason, v.Message, v.ExitCode = "terminated", t.Reason, t.Message, &code
		v.StartedAt, v.FinishedAt = timeOf(&t.StartedAt), timeOf(&t.FinishedAt)
	case c.State.Waiting != nil:
		v.Reason, v.Message = c.State.Waiting.Reason, c.State.Waiting.Message
	}
	if t := c.LastTerminationState.Terminated; t != nil {
		v.Last = &End{Reason: t.Reason, Message: t.Message, ExitCode: t.ExitCode, FinishedAt: timeOf(&t.FinishedAt)}
	}
	return v
}

func timeOf(t *metav1.Time) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	at := t.Time
	return &at
}
