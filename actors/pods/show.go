package pods

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// view is what people are shown.
func (a *pods) view(ctx *kernel.Context[Message]) View {
	v := View{Node: a.deps.NodeName, Ready: a.ready() && a.allSeen(), Pods: make([]PodView, 0, len(a.of))}
	if a.collecting {
		v.WaitingFor = append(v.WaitingFor, "the list of leftover pods to remove")
	}
	if !a.listed {
		v.WaitingFor = append(v.WaitingFor, "the first list of containers from the runtime")
	}
	if a.given.loading != 0 {
		v.WaitingFor = append(v.WaitingFor, "the checkpoint "+checkpointName)
	}
	if a.stops.loading != 0 {
		v.WaitingFor = append(v.WaitingFor, "the checkpoint "+stopsName)
	}
	for _, s := range a.unseen() {
		v.WaitingFor = append(v.WaitingFor, "the source "+s)
	}
	for _, r := range a.of { // order-free: sorted below
		if r.abandoned() && r.Again == nil {
			continue
		}
		p := r.show()
		if r.report.Status == nil && r.reject == nil && a.ran(r) {
			p.Phase, p.Problem = string(v1.PodUnknown), cmp.Or(p.Problem, unseen)
		}
		for _, e := range kernel.EffectsOf(ctx, r.ref) {
			p.Doing = append(p.Doing, strings.TrimSpace(e.Kind+" "+e.Object))
		}
		slices.Sort(p.Doing)
		v.Pods = append(v.Pods, p)
	}
	slices.SortFunc(v.Pods, func(x, y PodView) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	for _, name := range slices.Sorted(maps.Keys(a.wanted)) {
		v.Problems = append(v.Problems, a.wanted[name].Problems...)
	}
	return v
}

// unseen is said of a pod that was here before, while nothing is known of it but
// that: what of it the runtime listed has yet to be looked at, and its probes have
// yet to be heard.
const unseen = "found in the runtime at agent start; its state is not known yet"

// ran says whether the runtime had something of a pod before this actor began.
func (a *pods) ran(r *record) bool {
	_, listed := a.runtime[r.Pod.UID]
	return listed || r.found
}

// find gives the pods of a name, or all, the newest first.
func (a *pods) find(namespace, name string) (out []*v1.Pod) {
	for _, r := range slices.Backward(a.ranked) {
		if r.Origin == podspec.Orphan || name != "" && (r.Pod.Name != name || r.Pod.Namespace != namespace) {
			continue
		}
		p := *r.Pod
		switch {
		case r.report.Status != nil:
			p.Status = *r.report.Status
		case r.reject != nil:
			r.reject.Show(&p.Status)
		case p.Status.Phase == "":
			p.Status.Phase = v1.PodPending
		}
		out = append(out, &p)
	}
	return out
}

func (r *record) show() PodView {
	p := PodView{
		Namespace: r.Pod.Namespace, Name: r.Pod.Name, UID: r.Pod.UID, Source: r.Origin,
		Life: r.State.String(), Phase: string(v1.PodPending), Containers: []ContainerView{}, Problem: r.problem(),
	}
	if r.reject != nil {
		var s v1.PodStatus
		r.reject.Show(&s)
		p.Phase, p.Reason, p.Message = string(s.Phase), s.Reason, s.Message
	}
	if r.Again != nil && p.Problem == "" {
		p.Problem = r.returning()
	}
	if r.abandoned() && r.Again != nil {
		p.Namespace, p.Name, p.Source = r.Again.Pod.Namespace, r.Again.Pod.Name, r.Again.Origin
	}
	if r.report.Status == nil || r.State == podset.Rejected {
		return p
	}
	s := r.report.Status
	p.Life = r.report.Life
	if p.Problem == "" {
		p.Problem = r.report.Trouble
	}
	p.Phase, p.Reason, p.Message, p.IP = string(s.Phase), s.Reason, s.Message, s.PodIP
	p.StartTime = timeOf(s.StartTime)
	if c := podstatus.FindCondition(s.Conditions, v1.PodReady); c != nil {
		if p.Ready = c.Status == v1.ConditionTrue; !p.Ready {
			p.Unready = c.Message
		}
	}
	for i := range s.InitContainerStatuses {
		c := &s.InitContainerStatuses[i]
		kind := podspec.Init
		if spec, is := podspec.Find(&r.Pod.Spec, c.Name); spec != nil {
			kind = is
		}
		p.Containers = append(p.Containers, showContainer(c, kind))
	}
	for i := range s.ContainerStatuses {
		p.Containers = append(p.Containers, showContainer(&s.ContainerStatuses[i], podspec.Main))
	}
	for i := range s.EphemeralContainerStatuses {
		p.Containers = append(p.Containers, showContainer(&s.EphemeralContainerStatuses[i], podspec.Ephemeral))
	}
	for i := range p.Containers {
		p.Restarts += p.Containers[i].Restarts
	}
	return p
}

func showContainer(c *v1.ContainerStatus, kind podspec.Kind) ContainerView {
	v := ContainerView{
		Name: c.Name, Kind: kind.String(), ID: c.ContainerID, Ready: c.Ready, Restarts: c.RestartCount, Image: c.Image, State: "waiting",
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
		v.Last = &EndView{Reason: t.Reason, Message: t.Message, ExitCode: t.ExitCode, FinishedAt: timeOf(&t.FinishedAt)}
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
