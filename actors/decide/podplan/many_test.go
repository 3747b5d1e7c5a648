package podplan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/linear"
)

// crowd is a pod with n containers that run, and what is known of it.
func crowd(n int) podplan.Input {
	in := steady()
	model, ran := in.Pod.Spec.Containers[0], in.View.Containers[0]
	in.Pod.Spec.Containers, in.View.Containers, in.Images = nil, nil, nil
	in.Health, in.Hooks = map[string]probe.Health{}, map[string]podplan.Hooks{}
	for i := range n {
		c, r := model, ran
		c.Name = fmt.Sprintf("container-%05d", i)
		r.Name, r.ID, r.SpecHash = c.Name, id(i), podplan.SpecHash(&c)
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, c)
		in.View.Containers = append(in.View.Containers, r)
		in.Health[r.ID] = probe.Health{Readiness: probe.Success}
		in.Images = append(in.Images, smallmap.Entry[string, imagepull.Status]{
			Key: c.Name, Value: imagepull.Status{State: imagepull.Ready, Image: c.Image, Ref: "sha256:1"},
		})
		in.Pod.Status.ContainerStatuses = append(in.Pod.Status.ContainerStatuses, v1.ContainerStatus{Name: c.Name})
	}
	in.Status = &in.Pod.Status
	return in
}

func id(i int) string {
	return fmt.Sprintf("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda3%05d", i)
}

// make none of the containers from the i-th on.
func unmade(in *podplan.Input, from int) { in.View.Containers = in.View.Containers[:from] }

// asInit makes all but one of the containers init containers.
func asInit(in *podplan.Input, policy *v1.ContainerRestartPolicy) {
	s, status := &in.Pod.Spec, in.Status
	last := len(s.Containers) - 1
	s.InitContainers, s.Containers = s.Containers[:last:last], s.Containers[last:]
	for i := range s.InitContainers {
		s.InitContainers[i].RestartPolicy = policy
	}
	all := status.ContainerStatuses
	status.InitContainerStatuses, status.ContainerStatuses = all[:last:last], all[last:]
}

func hooked(in *podplan.Input, h v1.Lifecycle) {
	for i := range in.Pod.Spec.Containers {
		in.Pod.Spec.Containers[i].Lifecycle = &h
	}
}

func allExited(in *podplan.Input, code int32) {
	for i := range in.View.Containers {
		c := &in.View.Containers[i]
		c.State, c.ExitCode, c.FinishedAt = observed.ContainerExited, code, in.Now.Add(-time.Second)
	}
}

func terminating(in *podplan.Input) {
	in.Life, in.Stop = podlife.Terminating, &podlife.Stop{At: in.Now, Grace: 30 * time.Second}
}

// TestMany: with four times as many containers a plan takes four times as long, and not sixteen times. There is a plan
// after each message about one of them.
func TestMany(t *testing.T) {
	exec := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}
	always := v1.ContainerRestartPolicyAlways
	for name, change := range map[string]func(in *podplan.Input, n int){
		"they run":          func(*podplan.Input, int) {},
		"none is made":      func(in *podplan.Input, _ int) { unmade(in, 0) },
		"half are made":     func(in *podplan.Input, n int) { unmade(in, n/2) },
		"they wait for one": func(in *podplan.Input, n int) { hooked(in, v1.Lifecycle{PostStart: exec}); unmade(in, n/2) },
		"they are being made": func(in *podplan.Input, _ int) {
			unmade(in, 0)
			for _, c := range in.Pod.Spec.Containers {
				a := podplan.CreateContainer{Name: c.Name}
				in.Busy = append(in.Busy, smallmap.Entry[podplan.Lane, podplan.Effect]{Key: a.Lane(), Value: a})
			}
		},
		"they end again and again": func(in *podplan.Input, _ int) { allExited(in, 1) },
		"they were killed": func(in *podplan.Input, _ int) {
			allExited(in, 137)
			in.Stopped = map[string]time.Time{}
			for i := range in.View.Containers {
				in.Stopped[in.View.Containers[i].ID] = in.Now
			}
		},
		"their end may restart all": func(in *podplan.Input, _ int) {
			for i := range in.Pod.Spec.Containers {
				in.Pod.Spec.Containers[i].RestartPolicyRules = []v1.ContainerRestartRule{{
					Action: v1.ContainerRestartRuleActionRestartAllContainers,
					ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
						Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{2},
					},
				}}
			}
			allExited(in, 1)
		},
		"init containers that ended": func(in *podplan.Input, _ int) { allExited(in, 0); asInit(in, nil) },
		"sidecars":                   func(in *podplan.Input, n int) { asInit(in, &always); unmade(in, n/2) },
		"they mount images": func(in *podplan.Input, _ int) {
			unmade(in, 0)
			for i := range in.Pod.Spec.Containers {
				c := &in.Pod.Spec.Containers[i]
				c.VolumeMounts = []v1.VolumeMount{{Name: c.Name, MountPath: "/m"}}
				in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, v1.Volume{Name: c.Name, VolumeSource: v1.VolumeSource{
					Image: &v1.ImageVolumeSource{Reference: "img:2"},
				}})
			}
		},
		"their images can't be had": func(in *podplan.Input, _ int) {
			unmade(in, 0)
			for i := range in.Images {
				in.Images[i].Value.State, in.Images[i].Value.Reason = imagepull.Failed, "ErrImagePull"
			}
			in.Waited = podplan.Plan(*in).Waiting
		},
		"the sandbox is gone": func(in *podplan.Input, _ int) { in.View.Sandboxes[0].State = observed.SandboxNotReady },
		"they are stopped":    func(in *podplan.Input, _ int) { terminating(in) },
		"sidecars are stopped": func(in *podplan.Input, _ int) {
			asInit(in, &always)
			terminating(in)
		},
		"preStop hooks run": func(in *podplan.Input, _ int) {
			hooked(in, v1.Lifecycle{PreStop: exec})
			terminating(in)
			for _, c := range in.View.Containers {
				a := podplan.RunPreStop{Name: c.Name, ID: c.ID, Handler: exec}
				in.Busy = append(in.Busy, smallmap.Entry[podplan.Lane, podplan.Effect]{Key: a.Lane(), Value: a})
				in.Hooks[c.ID] = podplan.Hooks{PreStop: podplan.HookRunning, PreStopAt: in.Now}
			}
		},
		"stops are under way": func(in *podplan.Input, _ int) {
			terminating(in)
			for _, c := range in.View.Containers {
				a := podplan.StopContainer{Name: c.Name, ID: c.ID, Grace: time.Minute}
				in.Busy = append(in.Busy, smallmap.Entry[podplan.Lane, podplan.Effect]{Key: a.Lane(), Value: a})
			}
		},
		"stops fail": func(in *podplan.Input, _ int) {
			terminating(in)
			in.Failures = map[podplan.Lane]podplan.Failure{}
			for _, c := range in.View.Containers {
				in.Failures[podplan.Lane{Kind: podplan.LaneStop, Name: c.ID}] = podplan.Failure{Count: 1, At: in.Now}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 500, func(n int) func() {
				in := crowd(n)
				change(&in, n)
				return func() { podplan.Plan(in) }
			})
		})
	}
}

// TestManyFacts: so does what the runtime shows of them.
func TestManyFacts(t *testing.T) {
	for name, change := range map[string]func(f *podplan.Facts, n int) observed.Pod{
		"as before": func(f *podplan.Facts, _ int) observed.Pod { return f.View },
		"half are gone": func(f *podplan.Facts, n int) observed.Pod {
			return observed.Pod{Sandboxes: f.View.Sandboxes, Containers: f.View.Containers[n/2:]}
		},
		"the first list": func(f *podplan.Facts, _ int) (v observed.Pod) {
			v, f.View = f.View, observed.Pod{}
			return v
		},
	} {
		t.Run(name, func(t *testing.T) {
			linear.Held(t, 500, func(n int) func() {
				in := crowd(n)
				v := change(&in.Facts, n)
				situation := podplan.Situation{Now: in.Now}
				return func() {
					in.Begin(podplan.ObservePod{}, in.Now)
					in.Succeeded(podplan.ObservePod{}, situation, podplan.Result{View: v})
					in.Relisted(v, in.Now, in.Now)
				}
			})
		})
	}
}

// TestWaitingMessages: what a pod waits for is in the status of each of its containers, and all of them together stay
// small enough for the apiserver.
func TestWaitingMessages(t *testing.T) {
	for _, n := range []int{1, 20, 1000} {
		in := crowd(n)
		unmade(&in, 0)
		in.Volumes = volumeplan.Volumes{State: volumeplan.Failed, Message: strings.Repeat("ü", 100_000)}
		out, sum := podplan.Plan(in), 0
		for _, w := range out.Waiting {
			check.Equal(t, utf8.ValidString(w.Value.Message), true, "%d containers: a message that is text", n)
			check.AtLeast(t, len(w.Value.Message), 100, "bytes of a message")
			check.AtMost(t, len(w.Value.Message), 2<<10, "bytes of a message")
			sum += len(w.Value.Message)
		}
		check.AtMost(t, sum, 128<<10, "bytes of the messages of %d containers", n)
	}
}
