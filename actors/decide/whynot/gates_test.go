package whynot

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podresize"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// gated is what is known of a pod whose container app is to be created: all its gates are open.
func gated() *podplan.Input {
	return &podplan.Input{
		Now: now,
		Pod: &v1.Pod{Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyAlways, Containers: []v1.Container{{Name: "app", Image: "img"}},
		}},
		Facts: podplan.Facts{
			Known: true, Volumes: volumeplan.Volumes{State: volumeplan.Up}, Failures: map[podplan.Lane]podplan.Failure{},
			Cgroup: podcgroup.Cgroup{Own: true, State: podcgroup.Up},
			View: observed.Pod{Sandboxes: []observed.Sandbox{{
				ID: "s0", State: observed.SandboxReady, Detailed: true, IPs: []string{"10.0.0.1"}, CreatedAt: now.Add(-time.Minute),
			}}},
		},
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
}

// incarnation puts one of a container into the runtime.
func incarnation(in *podplan.Input, name string, attempt uint32, state observed.ContainerState, detailed bool) {
	id := name + string('0'+rune(attempt))
	c := observed.Container{
		ID: id, Name: name, Attempt: attempt, State: state, Detailed: detailed, SandboxID: "s0",
		CreatedAt: now.Add(-time.Minute), StartedAt: now.Add(-time.Minute),
	}
	for i := range in.Pod.Spec.Containers {
		if ct := &in.Pod.Spec.Containers[i]; ct.Name == name {
			c.SpecHash = podplan.SpecHash(ct)
		}
	}
	if state == observed.ContainerExited {
		c.FinishedAt, c.ExitCode = now, 1
	}
	in.View.Containers = append(in.View.Containers, c)
	in.View.Sort()
}

// another puts a container into the spec that comes before app.
func another(in *podplan.Input, c v1.Container) {
	in.Pod.Spec.Containers = append([]v1.Container{c}, in.Pod.Spec.Containers...)
}

// app is the spec of the container.
func app(in *podplan.Input) *v1.Container {
	return &in.Pod.Spec.Containers[len(in.Pod.Spec.Containers)-1]
}

// shut shuts each gate, with a message if it has one. What changes the spec comes before gates that put its hash into
// the runtime.
var shut = map[gate.Gate]func(in *podplan.Input, t *rapid.T){
	gate.Objects: func(in *podplan.Input, _ *rapid.T) {
		in.Objects = &podobjects.Set{}
		app(in).EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{
			LocalObjectReference: v1.LocalObjectReference{Name: "settings"},
		}}}
	},
	gate.Address: func(in *podplan.Input, _ *rapid.T) {
		app(in).Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{
			FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIP"},
		}}}
		if len(in.View.Sandboxes) > 0 {
			in.View.Sandboxes[0].IPs, in.View.Sandboxes[0].Detailed = nil, false
		}
	},
	gate.Older: func(in *podplan.Input, _ *rapid.T) {
		incarnation(in, "app", 5, observed.ContainerExited, true)
		incarnation(in, "app", 4, observed.ContainerRunning, true)
	},
	gate.Backoff: func(in *podplan.Input, t *rapid.T) {
		incarnation(in, "app", 3, observed.ContainerExited, true)
		in.Crash = map[string]backoff.Crash{"app": {Attempt: 2}}
		if rapid.Bool().Draw(t, "hook") {
			in.Hooks = map[string]podplan.Hooks{"app3": {PostStart: podplan.HookFailed, Message: "no hook"}}
		}
	},
	gate.Image: func(in *podplan.Input, t *rapid.T) {
		in.Images.Set("app", rapid.SampledFrom([]imagepull.Status{
			{}, {Image: "img", State: imagepull.Pending},
			{Image: "img", State: imagepull.Failed, Reason: "ErrImagePull", Message: "no image"},
			{Image: "img", State: imagepull.Failed, Reason: "InvalidImageName", Message: "no name"},
		}).Draw(t, "image"))
	},
	gate.Volumes: func(in *podplan.Input, t *rapid.T) {
		in.Volumes = rapid.SampledFrom([]volumeplan.Volumes{
			{}, {State: volumeplan.Pending}, {State: volumeplan.Pending, Message: "waiting"},
			{State: volumeplan.Failed, Message: "no volume"},
		}).Draw(t, "volumes")
	},
	gate.Cgroup: func(in *podplan.Input, t *rapid.T) {
		in.View.Sandboxes = nil
		in.Cgroup = rapid.SampledFrom([]podcgroup.Cgroup{
			{Own: true}, {Own: true, State: podcgroup.Failed, Message: "no cgroup"},
		}).Draw(t, "cgroup")
	},
	gate.Claims: func(in *podplan.Input, t *rapid.T) {
		in.UsesClaims = true
		in.Claims = rapid.SampledFrom([]*claims.Pod{
			nil, {State: claims.Pending}, {State: claims.Pending, Message: "no driver"},
		}).Draw(t, "claims")
	},
	gate.Sandbox: func(in *podplan.Input, t *rapid.T) {
		in.View.Sandboxes = nil
		if rapid.Bool().Draw(t, "sandbox") {
			in.Failures[podplan.Lane{Kind: podplan.LaneSandbox}] = podplan.Failure{
				Count: 1, At: now, Reason: "CreatePodSandboxError", Message: "no network",
			}
		}
	},
	gate.Turn: func(in *podplan.Input, _ *rapid.T) {
		in.Pod.Spec.InitContainers = []v1.Container{{Name: "first", Image: "img"}}
		incarnation(in, "first", 0, observed.ContainerRunning, true)
	},
	gate.Hook: func(in *podplan.Input, _ *rapid.T) {
		another(in, v1.Container{Name: "proxy", Image: "img", Lifecycle: &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"wait"}}},
		}})
		incarnation(in, "proxy", 0, observed.ContainerRunning, true)
	},
	gate.Room: func(in *podplan.Input, _ *rapid.T) {
		in.Resize = &podplan.Resize{Pod: observed.Resources{Memory: 2}}
		in.Seen = &podresize.Seen{Pod: observed.Resources{Memory: 1}}
	},
	gate.Restart: func(in *podplan.Input, _ *rapid.T) {
		always := v1.ContainerRestartPolicyAlways
		another(in, v1.Container{Name: "side", Image: "img", RestartPolicy: &always, RestartPolicyRules: []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1},
			},
		}}})
		incarnation(in, "side", 0, observed.ContainerExited, false)
	},
	gate.Retry: func(in *podplan.Input, t *rapid.T) {
		in.Failures[podplan.Lane{Kind: podplan.LaneContainer, Name: "app"}] = podplan.Failure{
			Count: 1, At: now, Message: "no secret",
			Reason: rapid.SampledFrom([]string{podplan.ConfigError, "CreateContainerError"}).Draw(t, "reason"),
		}
	},
}

// ofGate are words, one of which people are told of a gate that has something to say.
var ofGate = map[gate.Gate]string{
	gate.Backoff: "crash loop|postStart hook", gate.Image: "image|InvalidImageName", gate.Volumes: "volume",
	gate.Cgroup: "cgroup", gate.Claims: "resource claims", gate.Sandbox: "sandbox", gate.Retry: "cannot be created",
}

// TestGates: each gate alone keeps a container from being created, whatever the others are. What the status shows is what
// the plan says, and people who ask are told of the same gate.
func TestGates(t *testing.T) {
	for g := gate.Older; g <= gate.Retry; g++ {
		first, said := false, false // the gate was the first that is shut, and the one that the status is about
		rapid.Check(t, func(t *rapid.T) {
			in := gated()
			closed := map[gate.Gate]bool{g: true}
			for o := gate.Older; o <= gate.Retry; o++ {
				closed[o] = closed[o] || rapid.IntRange(0, 9).Draw(t, o.String()) == 0
			}
			if closed[gate.Older] {
				closed[gate.Backoff] = false // they are two states of one incarnation
			}
			if g == gate.Backoff {
				closed[gate.Older], closed[g] = false, true
			}
			draw(in, closed, t)
			w := agree(t, in, false)
			first = first || !slices.ContainsFunc(all(closed), func(o gate.Gate) bool { return o < g })
			said = said || w.Gate == g
		})
		if !first || !said {
			t.Errorf("%v: it was the first gate: %t, and the status was about it: %t", g, first, said)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := gated()
		draw(in, nil, t)
		agree(t, in, true)
	})
}

func all(closed map[gate.Gate]bool) (out []gate.Gate) {
	for g := gate.Older; g <= gate.Retry; g++ {
		if closed[g] {
			out = append(out, g)
		}
	}
	return out
}

// draw shuts gates, those first that change the spec.
func draw(in *podplan.Input, closed map[gate.Gate]bool, t *rapid.T) {
	order := []gate.Gate{gate.Hook, gate.Restart, gate.Objects, gate.Address}
	for _, g := range all(closed) {
		if !slices.Contains(order, g) {
			order = append(order, g)
		}
	}
	for _, g := range order {
		if closed[g] {
			shut[g](in, t)
		}
	}
	for i := range in.Pod.Spec.Containers {
		if c := &in.Pod.Spec.Containers[i]; !closed[gate.Image] || c.Name != "app" {
			in.Images.Set(c.Name, imagepull.Status{State: imagepull.Ready, Image: "img", Ref: "sha256:1"})
		}
	}
}

// agree holds that the plan, the status and whynot have one answer about the container. It returns the plan's.
func agree(t *rapid.T, in *podplan.Input, open bool) podplan.Waiting {
	out := podplan.Plan(*in)
	created := slices.ContainsFunc(out.Actions, func(a podplan.Action) bool {
		c, is := a.(podplan.CreateContainer)
		return is && c.Name == "app"
	})
	if created != open {
		t.Fatalf("created: %t, want %t: %+v", created, open, out)
	}
	w, is := out.Waiting.Get("app")
	if !is || (w.Gate == gate.None) != open {
		t.Fatalf("the plan says %+v", out.Waiting)
	}
	status := podstatus.Compute(podstatus.Input{Plan: *in, Out: out})
	i := slices.IndexFunc(status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.Name == "app" })
	s := status.ContainerStatuses[i].State.Waiting
	if s == nil || s.Reason != w.Reason || s.Message != w.Message {
		t.Fatalf("the status shows %+v, and the plan says %+v", s, w)
	}
	a := Explain(&Input{Now: now, Life: "Syncing", Phase: "Pending", Containers: []Container{{
		Name: "app", Image: "img", Kind: "main", State: waiting, Reason: s.Reason, Message: s.Message, Gate: w.Gate,
	}}})
	if gates := out.Gates(); gates.Has("app") != (w.Message != "") || gates.At("app") != w.Gate && w.Message != "" {
		t.Fatalf("the report has the gates %v, and the plan says %+v", gates, w)
	}
	words, speaks := ofGate[w.Gate]
	if speaks = speaks && (w.Message != "" || !quiet(w.Reason)); !speaks {
		words = "about to be created"
	}
	told := slices.ContainsFunc(strings.Split(words, "|"), func(word string) bool { return strings.Contains(a.Text, word) })
	if !told || a.Wrong != speaks || speaks != (a.Next != "") || strings.Contains(a.Text+a.Next, "{") ||
		w.Reason != "CrashLoopBackOff" && !strings.Contains(a.Text, w.Message) {
		t.Fatalf("people are told %+v of %+v", a, w)
	}
	return w
}
