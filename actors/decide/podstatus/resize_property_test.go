package podstatus_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// resizedPod is a pod whose resources change, as the apiserver has it, and what this
// node gave it of that, made of it in the kernel and knows of it.
type resizedPod struct {
	rt *rapid.T
	// asks is the pod of the apiserver, given is what it was given.
	asks  *v1.Pod
	given *podresize.Allocation
	// kernel are the limits of containers by ID, pod those of the pod's cgroup.
	kernel map[string]observed.Resources
	pod    observed.Resources
	begun  bool
	in     podstatus.Input
	log    []string
}

var limitsOf = podcgroup.Settings{}

func newResizedPod(rt *rapid.T) *resizedPod {
	r := &resizedPod{rt: rt, in: baseInput(), kernel: map[string]observed.Resources{}}
	r.asks = r.in.Plan.Pod.DeepCopy()
	r.asks.Generation = 1
	r.asks.Spec.Containers = append(r.asks.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
	r.want()
	r.given = podresize.Of(r.asks)
	r.in.Plan.Cgroup = podcgroup.Cgroup{Own: rapid.Bool().Draw(rt, "own cgroup"), State: podcgroup.Up}
	r.in.Plan.View.Containers = []observed.Container{running("a", 0), running("b", 0)}
	r.pod = limitsOf.PodResources(r.asks)
	for i := range r.asks.Spec.Containers {
		r.kernel[r.asks.Spec.Containers[i].Name+"0"] = limitsOf.ContainerResources(r.asks, &r.asks.Spec.Containers[i])
	}
	r.in.Plan.Pod = r.asks
	r.compute()
	return r
}

// want draws other resources.
func (r *resizedPod) want() {
	draw := func(what string) *v1.ResourceRequirements {
		switch rapid.IntRange(0, 4).Draw(r.rt, what) {
		case 0:
			return &v1.ResourceRequirements{Requests: requirements(rapid.SampledFrom([]string{"cpu=1m", "cpu=500m", "cpu=1"}).Draw(r.rt, "requests"))}
		case 1:
			l := requirements(rapid.SampledFrom([]string{"cpu=5m", "cpu=2 memory=64Mi", "memory=128Mi"}).Draw(r.rt, "limits"))
			return &v1.ResourceRequirements{Requests: l, Limits: l.DeepCopy()}
		case 2:
			return &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}, Requests: requirements("cpu=1m")}
		default:
			l := requirements(rapid.SampledFrom([]string{"cpu=1 memory=64Mi", "cpu=2 memory=32Mi", "cpu=2 memory=64Mi"}).Draw(r.rt, "both"))
			return &v1.ResourceRequirements{Requests: l, Limits: l.DeepCopy()}
		}
	}
	for i := range r.asks.Spec.Containers {
		r.asks.Spec.Containers[i].Resources = *draw(r.asks.Spec.Containers[i].Name)
	}
	if rapid.Bool().Draw(r.rt, "as a whole") {
		r.asks.Spec.Resources = draw("pod")
	}
}

func (r *resizedPod) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// resize is what a pod's actor makes of what it is told.
func (r *resizedPod) resize() *podplan.Resize {
	if r.in.Plan.Resize == nil {
		r.in.Plan.Resize = &podplan.Resize{}
		r.in.Plan.Given = map[string]observed.Resources{}
	}
	return r.in.Plan.Resize
}

// tell tells the pod's actor what the pod was given.
func (r *resizedPod) tell(pending *podresize.Pending, undecided bool) {
	pod := r.given.Apply(r.asks)
	z := *r.resize()
	z.Generation, z.Pending, z.Undecided = r.given.Generation, pending, undecided
	z.Pod, z.Containers = limitsOf.PodResources(pod), map[string]observed.Resources{}
	for i := range pod.Spec.Containers {
		z.Containers[pod.Spec.Containers[i].Name] = limitsOf.ContainerResources(pod, &pod.Spec.Containers[i])
	}
	r.in.Plan.Pod, r.in.Plan.Resize = pod, &z
}

func (r *resizedPod) step() {
	r.in.Plan.Now = r.in.Plan.Now.Add(time.Second)
	v := observed.Pod{Sandboxes: r.in.Plan.View.Sandboxes, Containers: append([]observed.Container(nil), r.in.Plan.View.Containers...)}
	r.in.Plan.View = v
	one := func() *observed.Container {
		if len(v.Containers) == 0 {
			return nil
		}
		return &v.Containers[rapid.IntRange(0, len(v.Containers)-1).Draw(r.rt, "container")]
	}
	what := rapid.SampledFrom([]string{"ask", "ask alike", "give", "give", "defer", "set", "set", "set", "set pod", "look", "read", "read", "unread",
		"actor ends", "agent ends", "all is lost", "know", "exit", "make", "another sandbox"}).Draw(r.rt, "what")
	r.logf("%s", what)
	if r.in.Plan.Resize == nil && (what == "set" || what == "set pod" || what == "look") {
		return
	}
	undecided := !r.given.Holds(r.asks)
	switch what {
	case "ask", "ask alike":
		p := r.asks.DeepCopy()
		p.Generation++
		r.asks = p
		if what == "ask" {
			r.want()
		}
		if r.in.Plan.Resize == nil && r.given.Holds(p) {
			r.in.Plan.Pod = p // it was never resized
			return
		}
		if r.given.Holds(p) {
			r.tell(nil, false)
		} else {
			r.tell(r.pending(), true)
		}
	case "give":
		if undecided {
			r.given = podresize.Of(r.asks)
			first := len(r.in.Plan.Given) == 0
			r.tell(nil, false)
			r.begun, r.in.Plan.Seen = true, nil
			for i := range v.Containers {
				if first && v.Containers[i].Resources == nil {
					v.Containers[i].Detailed = false
				}
			}
		}
	case "defer":
		if undecided {
			r.tell(&podresize.Pending{Reason: v1.PodReasonDeferred, Message: "no room", Generation: r.asks.Generation}, false)
		}
	case "set":
		if c := one(); c != nil && r.in.Plan.Resize != nil && c.State == observed.ContainerRunning {
			to := r.resize().Containers[c.Name]
			r.kernel[c.ID], c.Resources, c.Detailed = to, &to, false
			r.in.Plan.Given[c.ID] = to
		}
	case "set pod":
		if s := r.in.Plan.Seen; s != nil {
			r.pod = r.resize().Pod
			r.in.Plan.Seen = &podresize.Seen{At: s.At, Pod: r.pod, Containers: s.Containers}
		}
	case "look":
		seen := podresize.Seen{At: r.in.Plan.Now, Pod: r.pod, Containers: map[string]int64{}}
		for id := range r.kernel { // order-free: a map again
			seen.Containers[id] = int64(rapid.SampledFrom([]int{1, 1 << 40}).Draw(r.rt, "usage"))
		}
		r.in.Plan.Seen = &seen
	case "read":
		if c := one(); c != nil {
			c.Detailed = true
			if has, ok := r.kernel[c.ID]; ok && r.in.Plan.Resize != nil {
				c.Resources = &has
			}
		}
	case "unread":
		if c := one(); c != nil {
			c.Detailed = false
		}
	case "actor ends":
		r.ends(false)
	case "agent ends":
		r.ends(true)
	case "all is lost": // the checkpoint as well
		if r.given = podresize.FromStatus(r.asks); r.given == nil {
			r.given = podresize.Of(r.asks)
		}
		r.ends(true)
	case "another sandbox":
		box := v.Sandboxes[0]
		box.ID, box.Attempt = box.ID+"+", box.Attempt+1
		r.in.Plan.View.Sandboxes = append([]observed.Sandbox{box}, v.Sandboxes...)
	case "know":
		r.in.Plan.Known = true
		if len(r.in.Plan.View.Containers) == 0 {
			r.in.Plan.View.Containers = []observed.Container{unread(running("a", 0)), unread(running("b", 0))}
		}
	case "exit":
		if c := one(); c != nil && c.State == observed.ContainerRunning {
			*c = exited(c.Name, c.Attempt, 1)
		}
	case "make":
		if c := one(); c != nil && c.State == observed.ContainerExited {
			*c = running(c.Name, c.Attempt) // as good as another
			has := limitsOf.ContainerResources(r.in.Plan.Pod, containerOf(r.in.Plan.Pod, c.Name))
			if r.kernel[c.ID] = has; r.in.Plan.Resize != nil {
				delete(r.in.Plan.Given, c.ID)
				c.Resources = &has
			}
		}
	}
}

func containerOf(p *v1.Pod, name string) *v1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

func unread(c observed.Container) observed.Container {
	c.Detailed = false
	return c
}

// ends has the actor, or the agent, begin anew: it knows what was written down.
func (r *resizedPod) ends(agent bool) {
	if agent {
		r.in.Previous = nil
		r.asks = r.asks.DeepCopy()
	}
	pending := r.pending()
	if agent {
		pending = nil // it is decided again
	}
	resized, undecided := r.in.Plan.Resize != nil, !r.given.Holds(r.asks)
	r.in.Plan.Resize, r.begun, r.in.Plan.Known = nil, false, false
	r.in.Plan.View.Containers = nil
	r.in.Plan.Failures = nil
	if resized || undecided {
		r.tell(pending, undecided && (pending == nil || pending.Generation != r.asks.Generation))
	}
}

// pending is a resize that was not given.
func (r *resizedPod) pending() *podresize.Pending {
	if r.in.Plan.Resize == nil {
		return nil
	}
	return r.in.Plan.Resize.Pending
}

func (r *resizedPod) compute() {
	last := r.in.Previous
	if last == nil {
		last = &r.asks.Status
	}
	if z := r.in.Plan.Resize; z != nil {
		c := *z
		c.Was = r.begun || podstatus.ResizeOpen(last, c.Generation)
		r.in.Plan.Resize = &c
	}
	r.in.Out = podplan.Plan(r.in.Plan)
	s := podstatus.Compute(r.in)
	if podstatus.FindCondition(s.Conditions, v1.PodResizeInProgress) == nil {
		r.begun = false
	}
	shown := r.asks.DeepCopy()
	shown.Status = s
	if why := podstatus.HiddenResize(shown); why != "" {
		for _, l := range r.log {
			r.rt.Log(l)
		}
		r.rt.Fatal(why)
	}
	if s.ObservedGeneration < r.asks.Status.ObservedGeneration {
		r.rt.Fatal("the generation fell")
	}
	r.asks = shown
	r.in.Previous = &s
}

// calm: everything is as it is to be, and looked at.
func (r *resizedPod) calm() {
	r.given = podresize.Of(r.asks)
	r.in.Plan.Known = true
	r.tell(nil, false)
	z := r.resize()
	r.pod = z.Pod
	r.in.Plan.Seen = &podresize.Seen{At: r.in.Plan.Now, Pod: r.pod}
	r.in.Plan.View.Containers = []observed.Container{running("a", 0), running("b", 0)}
	for i := range r.in.Plan.View.Containers {
		c := &r.in.Plan.View.Containers[i]
		has := z.Containers[c.Name]
		c.Resources = &has
		r.in.Plan.Given[c.ID] = has
	}
}

// TestResizeIsNeverHidden: whatever is asked for, given, done, read and forgotten in
// whatever order, a status that acknowledges a generation shows what that asks for, or
// says that it is pending or in progress; and says neither when all is done.
func TestResizeIsNeverHidden(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newResizedPod(rt)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			r.step()
			r.compute()
		}
		if r.in.Plan.Life != podlife.Syncing {
			return
		}
		r.calm()
		r.compute()
		if s := r.in.Previous; s.ObservedGeneration != r.asks.Generation ||
			podstatus.FindCondition(s.Conditions, v1.PodResizeInProgress) != nil || podstatus.FindCondition(s.Conditions, v1.PodResizePending) != nil {
			rt.Fatalf("all is done, and the status of generation %d says %+v", s.ObservedGeneration, s.Conditions)
		}
	})
}
