package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestPlanAnotherLife is of a pod that was stopped because nobody wanted it, and that
// is wanted again. What is in sandbox s0 is of its earlier life.
func TestPlanAnotherLife(t *testing.T) {
	old := func(policy v1.RestartPolicy, cs ...observed.Container) func(*Input) {
		return func(in *Input) {
			in.FirstSandbox, in.Pod.Spec.RestartPolicy = 1, policy
			in.View.Sandboxes[0].State = observed.SandboxNotReady
			in.SandboxStopped = map[string]bool{"s0": true}
			in.View.Containers = cs
		}
	}
	now := func(f func(*Input)) func(*Input) {
		return func(in *Input) {
			f(in)
			in.View.Sandboxes = append(in.View.Sandboxes, observed.Sandbox{
				ID: "s1", Attempt: 1, State: observed.SandboxReady, Detailed: true, IPs: []string{"10.0.0.2"}, CreatedAt: t0,
			})
		}
	}
	in1 := func(c observed.Container) observed.Container { c.SandboxID = "s1"; return c }
	checkPlans(t, []planCase{
		{"completed, of policy Never", upInput, old(v1.RestartPolicyNever, exited("a", 0, 0, 0)), "run sandbox 1"},
		{"completed, of policy OnFailure", upInput, old(v1.RestartPolicyOnFailure, exited("a", 0, 0, 0)), "run sandbox 1"},
		{"its sandbox is gone", upInput, func(in *Input) {
			old(v1.RestartPolicyNever, exited("a", 0, 0, 0))(in)
			in.View.Sandboxes = nil
		}, "run sandbox 1"},
		{"nothing is left of it", upInput, func(in *Input) {
			old(v1.RestartPolicyNever)(in)
			in.View.Sandboxes = nil
		}, "run sandbox 1; a: ContainerCreating"},
		{"its sandbox is still up", upInput, func(in *Input) {
			old(v1.RestartPolicyAlways, exited("a", 0, 0, 0))(in)
			in.View.Sandboxes[0].State, in.SandboxStopped = observed.SandboxReady, nil
		}, "stop sandbox s0"},
		{"restarted often, without a backoff", upInput, now(old(v1.RestartPolicyAlways, exited("a", 7, 1, 0))), "create a#8 in s1"},
		{"it runs in the sandbox before, of policy Never", upInput, func(in *Input) {
			old(v1.RestartPolicyNever, alive("a", 0))(in)
		}, "stop a0 30s; Killing! Stopping container a"},
		{"of this life", upInput, now(old(v1.RestartPolicyNever, in1(exited("a", 1, 0, 0)), exited("a", 0, 0, 0))), "DONE all containers have finished"},
		{"crashed in this life", upInput, now(old(v1.RestartPolicyAlways, in1(exited("a", 1, 1, 0)), exited("a", 0, 0, 0))),
			"a: CrashLoopBackOff; BackOff! Back-off restarting failed container a in pod web_default(u1); wake +10s"},
	})
}

func TestPlanSandbox(t *testing.T) {
	dead := func(in *Input) { in.View.Sandboxes[0].State = observed.SandboxNotReady }
	s := func(id string, attempt uint32, state observed.SandboxState, ago time.Duration) observed.Sandbox {
		return observed.Sandbox{ID: id, Attempt: attempt, State: state, Detailed: true, IPs: []string{"10.0.0.1"}, CreatedAt: t0.Add(-ago)}
	}
	const changed = "SandboxChanged! Pod sandbox changed, it will be killed and re-created."
	checkPlans(t, []planCase{
		{"dead, containers with it", upInput, func(in *Input) { dead(in); containers(in, exited("a", 0, 137, 0)) },
			"stop sandbox s0; " + changed},
		{"dead, a container lives", runInput, dead, "stop a0 30s; Killing! Stopping container a"},
		{"dead, a container is being started", upInput, func(in *Input) {
			dead(in)
			containers(in, created("a", 0))
			busyWith(in, StartContainer{Name: "a", ID: "a0"})
		}, "a: ContainerCreating"},
		{"dead, stopped", upInput, func(in *Input) {
			dead(in)
			containers(in, exited("a", 0, 137, 0))
			in.SandboxStopped = map[string]bool{"s0": true}
		}, "run sandbox 1"},
		{"again and again", upInput, func(in *Input) {
			in.View.Sandboxes = []observed.Sandbox{s("s3", 3, observed.SandboxNotReady, time.Second)}
			in.SandboxStopped = map[string]bool{"s3": true}
		}, "a: ContainerCreating; wake +3s"},
		{"dead, of policy Never", upInput, func(in *Input) {
			dead(in)
			containers(in, exited("a", 0, 137, 0))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
		}, "DONE all containers have finished"},
		{"dead, it isn't known yet how its container ended", upInput, func(in *Input) {
			dead(in)
			containers(in, exited("a", 0, 0, 0))
			in.View.Containers[0].Detailed = false
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "inspect a0"},
		{"dead, it isn't known yet how the container ended that is restarted in any case", upInput, func(in *Input) {
			dead(in)
			containers(in, exited("a", 0, 0, 0))
			in.View.Containers[0].Detailed = false
		}, "inspect a0; stop sandbox s0; " + changed},
		{"dead before main was made, of policy Never", upInput, func(in *Input) {
			dead(in)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
		}, "stop sandbox s0; a: ContainerCreating; " + changed},
		{"new: init again, what finished stays so", upInput, func(in *Input) {
			withInit(in, false)
			in.View.Sandboxes = []observed.Sandbox{s("s1", 1, observed.SandboxReady, 0)}
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			b := *main0(in)
			b.Name = "b"
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, b)
			in.Images.Set("b", in.Images.At("a"))
			containers(in, exited("a", 0, 0, 0), exited("b", 0, 137, 0), exited("i", 0, 0, 0))
		}, "create i#1 in s1; b: PodInitializing"},
		{"in an old one", upInput, func(in *Input) {
			in.View.Sandboxes = []observed.Sandbox{s("s1", 1, observed.SandboxReady, 0), s("s0", 0, observed.SandboxReady, 0)}
			containers(in, alive("a", 0))
		}, "stop a0 30s; Killing! Stopping container a"},
		{"old one is empty", upInput, func(in *Input) {
			in.View.Sandboxes = []observed.Sandbox{s("s1", 1, observed.SandboxReady, 0), s("s0", 0, observed.SandboxReady, 0)}
			containers(in, exited("a", 0, 137, 0))
		}, "stop sandbox s0; create a#1 in s1"},
		{"gone, what ran in it lives", runInput, func(in *Input) { in.View.Sandboxes = nil }, "stop a0 30s; Killing! Stopping container a"},
		{"gone, a stranger lives", upInput, func(in *Input) {
			in.View.Sandboxes = nil
			containers(in, alive("x", 0))
			in.View.Containers[0].GraceSeconds = 30
		},
			"stop x0 30s; a: ContainerCreating; Killing! Stopping container x"},
		{"of the node's network", upInput, func(in *Input) { in.Pod.Spec.HostNetwork = true }, "stop sandbox s0; a: ContainerCreating; " + changed},
		{"without an address", upInput, func(in *Input) { in.View.Sandboxes[0].IPs = nil }, "stop sandbox s0; a: ContainerCreating; " + changed},
		{"without an address yet", runInput, func(in *Input) { in.View.Sandboxes[0].IPs, in.View.Sandboxes[0].CreatedAt = nil, t0 }, "wake +1s"},
		{"without an address, and made before the clock was set back", upInput, func(in *Input) {
			in.View.Sandboxes[0].IPs, in.View.Sandboxes[0].CreatedAt = nil, t0.Add(time.Hour)
		}, "stop sandbox s0; a: ContainerCreating; " + changed},
	})
}

func withCgroup(s podcgroup.State) func(*Input) {
	return func(in *Input) { in.Cgroup = podcgroup.Cgroup{Own: true, State: s, Message: "no cgroup"} }
}

func withClaims(s claims.State) func(*Input) {
	return func(in *Input) { in.UsesClaims, in.Claims = true, &claims.Pod{State: s} }
}

// A container waits for the images of the volumes that it mounts, and for no others.
func TestImagesOfVolumes(t *testing.T) {
	volume := func(name, image string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: image, PullPolicy: v1.PullIfNotPresent}}}
	}
	c := v1.Container{Name: "app", VolumeMounts: []v1.VolumeMount{{Name: "model", MountPath: "/model"}}}
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{volume("model", "models.test/m:1"), volume("other", "models.test/o:1")}}}
	for _, step := range []struct {
		image imagepull.Status
		there bool
		asks  bool
		waits string
	}{
		{imagepull.Status{}, false, true, ""},
		{imagepull.Status{State: imagepull.Pending, Image: "models.test/m:1"}, false, false, ""},
		{imagepull.Status{State: imagepull.Failed, Image: "models.test/m:1", Reason: "ErrImagePull"}, false, false, "ErrImagePull"},
		{imagepull.Status{State: imagepull.Ready, Image: "models.test/m:0", Ref: "old"}, false, true, ""},
		{imagepull.Status{State: imagepull.Ready, Image: "models.test/m:1", Ref: "sha"}, true, false, ""},
	} {
		p := planner{in: Input{Pod: pod}}
		if step.image.State != imagepull.Unknown {
			p.in.Images.Set(imagepull.VolumeImage("model"), step.image)
		}
		p.in.Images.Set("app", imagepull.Status{State: imagepull.Ready, Ref: "own"})
		n := candidate{c: &c, turn: true}
		p.pull(&n, 0)
		if n.pulled != step.there || n.noImage != (step.waits != "") {
			t.Errorf("%+v: there %v, failed %v", step.image, n.pulled, n.noImage)
		}
		if asks := len(p.out.Actions) == 1; asks != step.asks || asks && p.out.Actions[0].(EnsureImage).Container != "volume/model" {
			t.Errorf("%+v: asks %v", step.image, p.out.Actions)
		}
		if got := n.why.Reason; got != step.waits {
			t.Errorf("%+v: waits for %q", step.image, got)
		}
	}
}

// TestLostName: a name that is lost stays so when the runtime then says something else.
func TestLostName(t *testing.T) {
	e := CreateContainer{Name: "a"}
	for after, lost := range map[time.Duration]bool{
		0: false, namePatience - time.Second: false, namePatience: true, 3 * namePatience: true,
	} {
		var f Facts
		s := Situation{Now: t0}
		f.Failed(e, s, Problem{Reserved: true})
		s.Now = t0.Add(after)
		f.Failed(e, s, Problem{Unanswered: true})
		got := f.Failed(e, s, Problem{Detail: "no space left on device"})
		check.Equal(t, !got.Reserved.IsZero(), lost, "%v after the runtime said that it has the name, it is lost", after)
		s.Now = s.Now.Add(time.Second)
		f.Failed(e, s, Problem{Reserved: true})
		got = f.Failures[e.Lane()]
		check.Equal(t, got.Reserved.Equal(t0), lost, "%v after it, and said again, it counts from the first time", after)
	}
}
