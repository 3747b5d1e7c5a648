package podstatus_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/tests/check"
)

// history is a pod to which nearly anything may happen: containers are made, start,
// end and are removed in any order, are seen with or without their details,
// sandboxes come and go, the agent forgets what it knew.
type history struct {
	rt  *rapid.T
	in  podstatus.Input
	all map[string]observed.Container // what each was last, by ID
}

func newHistory(rt *rapid.T) *history {
	in := baseInput()
	in.Plan.View = observed.Pod{}
	spec := &in.Plan.Pod.Spec
	spec.RestartPolicy = rapid.SampledFrom([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}).Draw(rt, "policy")
	if rapid.Bool().Draw(rt, "second") {
		spec.Containers = append(spec.Containers, v1.Container{Name: "b", Image: "img:1"})
	}
	if rapid.Bool().Draw(rt, "init") {
		spec.InitContainers = append(spec.InitContainers, v1.Container{Name: "i", Image: "img:1"})
	}
	if rapid.Bool().Draw(rt, "sidecar") {
		spec.InitContainers = append(spec.InitContainers, v1.Container{Name: "s", Image: "img:1", RestartPolicy: ptr.To(v1.ContainerRestartPolicyAlways)})
	}
	if rapid.Bool().Draw(rt, "static") {
		in.Plan.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	}
	return &history{rt: rt, in: in, all: map[string]observed.Container{}}
}

func (h *history) names() []string {
	var out []string
	for _, list := range [...][]v1.Container{h.in.Plan.Pod.Spec.InitContainers, h.in.Plan.Pod.Spec.Containers} {
		for i := range list {
			out = append(out, list[i].Name)
		}
	}
	return out
}

// lives says whether a container is there, and nobody has read how it ended: nothing is made in its stead.
func (h *history) lives(name string) bool {
	n, ok := h.in.Plan.View.Newest(name)
	return ok && (n.State != observed.ContainerExited || !n.Detailed)
}

// early says whether a container may not be made yet: the init container that is no sidecar, and main containers, never
// live at the same time.
func (h *history) early(name string) bool {
	switch name {
	case "s":
		return false
	case "i":
		return h.lives("a") || h.lives("b")
	}
	return h.lives("i")
}

// step lets something happen. The view is a new value each time, as it is in
// the agent.
func (h *history) step() {
	v := observed.Pod{
		Sandboxes:  append([]observed.Sandbox(nil), h.in.Plan.View.Sandboxes...),
		Containers: append([]observed.Container(nil), h.in.Plan.View.Containers...),
	}
	h.in.Plan.Now = h.in.Plan.Now.Add(time.Duration(rapid.IntRange(0, 20).Draw(h.rt, "seconds")) * time.Second)
	now := h.in.Plan.Now
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(h.rt, "which") }
	switch what := rapid.SampledFrom([]string{"make", "go on", "go on", "go on", "sandbox", "sandbox down", "remove", "detail", "forget", "know", "health", "end"}).Draw(h.rt, "what"); what {
	case "make":
		name := rapid.SampledFrom(h.names()).Draw(h.rt, "name")
		n, ok := v.Newest(name)
		if h.in.Plan.Life != podlife.Syncing || len(v.Sandboxes) == 0 || h.lives(name) || h.early(name) {
			break
		}
		var attempt uint32
		if ok {
			attempt = n.Attempt + 1
		}
		c := observed.Container{
			ID: fmt.Sprintf("%s-%d", name, len(h.all)), SandboxID: v.Sandboxes[0].ID, Name: name, Attempt: attempt,
			State: observed.ContainerCreated, Detailed: true, CreatedAt: now, Image: "img:1", ImageRef: "sha256:1",
		}
		h.all[c.ID] = c
		v.Containers = append(v.Containers, c)
	case "go on":
		if len(v.Containers) == 0 {
			break
		}
		c := &v.Containers[pick(len(v.Containers))]
		full := h.all[c.ID]
		switch full.State {
		case observed.ContainerCreated:
			full.State, full.StartedAt = observed.ContainerRunning, now
		case observed.ContainerRunning:
			full.State, full.FinishedAt = observed.ContainerExited, now
			full.ExitCode = int32(rapid.SampledFrom([]int{0, 0, 1, 137}).Draw(h.rt, "code"))
		case observed.ContainerExited, observed.ContainerUnknown:
		}
		h.all[c.ID] = full
		*c = full
		if rapid.Bool().Draw(h.rt, "unread") {
			*c = undetailed(full)
		}
	case "sandbox":
		if h.in.Plan.Life == podlife.Syncing && (len(v.Sandboxes) == 0 || v.Sandboxes[0].State == observed.SandboxNotReady) {
			n := len(v.Sandboxes)
			v.Sandboxes = append(v.Sandboxes, observed.Sandbox{
				ID: fmt.Sprintf("s%d", n), Attempt: uint32(n), State: observed.SandboxReady, Detailed: true,
				IPs: []string{fmt.Sprintf("10.1.0.%d", n+1)}, CreatedAt: now,
			})
		}
	case "sandbox down":
		if len(v.Sandboxes) > 0 {
			v.Sandboxes[0].State, v.Sandboxes[0].IPs = observed.SandboxNotReady, nil
		}
	case "remove":
		if len(v.Containers) > 0 {
			i := pick(len(v.Containers))
			v.Containers = append(v.Containers[:i:i], v.Containers[i+1:]...)
		}
	case "detail":
		for i := range v.Containers {
			v.Containers[i] = h.all[v.Containers[i].ID]
		}
	case "forget": // the agent is restarted: the API remembers, in its own words
		h.in.Plan.Known, h.in.Plan.Health = false, nil
		if h.in.Previous != nil {
			h.in.Previous = throughAPI(h.rt, h.in.Previous)
		}
		if rapid.Bool().Draw(h.rt, "blind") {
			h.in.Plan.View = observed.Pod{}
			return
		}
	case "know":
		h.in.Plan.Known = true
	case "health":
		h.in.Plan.Health = map[string]probe.Health{}
		result := rapid.SampledFrom([]probe.Result{probe.None, probe.Unknown, probe.Success, probe.Failure})
		for i := range v.Containers {
			h.in.Plan.Health[v.Containers[i].ID] = probe.Health{Startup: result.Draw(h.rt, "startup"), Readiness: result.Draw(h.rt, "readiness")}
		}
	case "end":
		h.in.Plan.Stop = &podlife.Stop{At: now, Grace: 30 * time.Second, Fail: rapid.Bool().Draw(h.rt, "fail"), Reason: "Evicted", Message: "m"}
		if h.in.Plan.Life == podlife.Syncing {
			h.in.Plan.Life = podlife.Terminating
		}
	}
	v.Sort()
	h.in.Plan.View = v
}

func throughAPI(rt *rapid.T, s *v1.PodStatus) *v1.PodStatus {
	b := check.Value(json.Marshal(s))(rt)
	var out v1.PodStatus
	check.Fatal(rt, json.Unmarshal(b, &out))
	return &out
}

// TestHistories: whatever happens, a status never says less than the one before.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(rt)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			h.step()
			h.in.Out = podplan.Plan(h.in.Plan)
			s := podstatus.Compute(h.in)
			if h.in.Previous != nil {
				if why := less(h.in.Plan.Pod, h.in.Previous, &s); why != "" {
					rt.Fatalf("%s\nbefore %s\nafter  %s", why, brief(h.in.Previous), brief(&s))
				}
				if got, want := podstatus.Equal(h.in.Previous, &s), apiequality.Semantic.DeepEqual(h.in.Previous, &s); got != want {
					rt.Fatalf("Equal says %t, of\n%+v\n%+v", got, h.in.Previous, &s)
				}
			}
			h.truth(&s)
			again := h.in
			again.Previous = &s
			if r := podstatus.Compute(again); !reflect.DeepEqual(r, s) || !podstatus.Equal(&r, &s) {
				rt.Fatalf("with nothing changed\n%s\nbecame\n%s\nfrom %+v\nto %+v", brief(&s), brief(&r), s, r)
			}
			h.in.Previous = &s
			if h.in.Out.Outcome == podplan.AllDown {
				h.in.Plan.Life = podlife.Terminated
			}
			if h.in.Out.Outcome == podplan.Done {
				h.in.Plan.Life, h.in.Plan.Stop = podlife.Terminating, h.in.Out.Stop
			}
		}
	})
}

// truth checks a status against the world.
func (h *history) truth(s *v1.PodStatus) {
	for i := range h.in.Plan.View.Containers {
		if c := &h.in.Plan.View.Containers[i]; c.State == observed.ContainerRunning && h.in.Previous != nil &&
			!terminalPhase(h.in.Previous.Phase) && terminalPhase(s.Phase) && h.in.Plan.Life != podlife.Terminated {
			h.rt.Fatalf("the phase is %s, and %s runs", s.Phase, c.ID)
		}
	}
	for _, c := range statuses(s) {
		n, ok := h.in.Plan.View.Newest(c.Name)
		switch {
		case ok && c.RestartCount < int32(n.Attempt):
			h.rt.Fatalf("%s: restart count %d of attempt %d", c.Name, c.RestartCount, n.Attempt)
		case ok && c.ContainerID != "containerd://"+n.ID && n.State != observed.ContainerExited:
			h.rt.Fatalf("%s: container ID %s, want %s", c.Name, c.ContainerID, n.ID)
		case ok && c.ContainerID == "containerd://"+n.ID && n.State == observed.ContainerExited && c.State.Running != nil && (c.Ready || n.Detailed):
			h.rt.Fatalf("%s has exited, and is shown as %s", c.Name, brief(s))
		}
		if c.Ready && c.Started != nil && *c.Started && ok && c.ContainerID == "containerd://"+n.ID && n.State != observed.ContainerRunning {
			h.rt.Fatalf("%s is ready and doesn't run", c.Name)
		}
		x := 0
		for _, set := range [...]bool{c.State.Waiting != nil, c.State.Running != nil, c.State.Terminated != nil} {
			if set {
				x++
			}
		}
		check.Fatal(h.rt, check.Is(x, 1, "%s has %d states", c.Name, x))
		if l := c.LastTerminationState.Terminated; l != nil && c.State.Terminated != nil && l.ContainerID != "" && l.ContainerID == c.State.Terminated.ContainerID {
			h.rt.Fatalf("%s ended twice the same: %s", c.Name, brief(s))
		}
	}
}

func terminalPhase(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

func statuses(s *v1.PodStatus) []v1.ContainerStatus {
	out := append([]v1.ContainerStatus(nil), s.InitContainerStatuses...)
	return append(append(out, s.ContainerStatuses...), s.EphemeralContainerStatuses...)
}

// less says in which way b says less than a, which was before it.
func less(pod *v1.Pod, a, b *v1.PodStatus) string {
	switch {
	case terminalPhase(a.Phase) && b.Phase != a.Phase:
		return "the phase was terminal"
	case a.Phase == v1.PodRunning && b.Phase == v1.PodPending && !podstatus.StartsOver(pod, b.ContainerStatuses):
		return "the pod ran"
	case a.Phase == b.Phase && a.Reason != b.Reason:
		return "another reason"
	case a.StartTime != nil && !a.StartTime.Equal(b.StartTime):
		return "another start time"
	case a.PodIP != "" && b.PodIP == "":
		return "the address is gone"
	}
	for i := range a.Conditions {
		x := &a.Conditions[i]
		y := &b.Conditions[i]
		if (x.Status == y.Status) != x.LastTransitionTime.Equal(&y.LastTransitionTime) && x.Status == y.Status {
			return fmt.Sprintf("%s didn't change, its time did", x.Type)
		}
	}
	before, after := statuses(a), statuses(b)
	for i := range before {
		x, y := &before[i], &after[i]
		switch {
		case y.RestartCount < x.RestartCount:
			return x.Name + ": the restart count fell"
		case x.State.Terminated != nil && y.State.Terminated == nil && x.ContainerID == y.ContainerID && y.State.Running != nil && x.State.Terminated.Reason != "ContainerStatusUnknown":
			return x.Name + " came back to life"
		case lastEnd(x) != nil && lastEnd(y) == nil && lastEnd(x).Reason != "ContainerStatusUnknown" && lastEnd(x).ContainerID != "":
			return x.Name + ": its end is forgotten"
		case lastEnd(x) != nil && lastEnd(y) != nil && lastEnd(y).Reason != "ContainerStatusUnknown" && !lastEnd(y).FinishedAt.IsZero() && lastEnd(y).FinishedAt.Before(&lastEnd(x).FinishedAt):
			return x.Name + ": an older end than was known"
		}
	}
	return ""
}

// lastEnd is the newest end that a status knows of.
func lastEnd(c *v1.ContainerStatus) *v1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}
