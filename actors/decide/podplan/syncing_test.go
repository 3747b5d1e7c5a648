package podplan

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/claims"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/tests/check"
)

// withInit puts an init container i, and with sidecar a sidecar s after it,
// before the main one.
func withInit(in *Input, sidecar bool) {
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "i", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}}
	if sidecar {
		always := v1.ContainerRestartPolicyAlways
		in.Pod.Spec.InitContainers = append(in.Pod.Spec.InitContainers,
			v1.Container{Name: "s", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent, RestartPolicy: &always})
	}
	for _, name := range []string{"i", "s"} {
		if in.Images != nil {
			in.Images.Set(name, in.Images.At("a"))
		}
	}
}

func main0(in *Input) *v1.Container { return &in.Pod.Spec.Containers[0] }

func readsPodIP(c *v1.Container, path string) {
	c.Env = []v1.EnvVar{{Name: "X", Value: "1"}, {Name: "IP", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}}
}

func containers(in *Input, cs ...observed.Container) { in.View.Containers = cs }

func hook() *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}
}

func failedLane(in *Input, l Lane, count int, ago time.Duration, reason string) {
	if in.Failures == nil {
		in.Failures = map[Lane]Failure{}
	}
	in.Failures[l] = Failure{Count: count, Refusals: count, At: t0.Add(-ago), Reason: reason, Message: "because"}
}

// reserved is a lane on which the runtime says for so long that it has the name.
func reserved(in *Input, l Lane, since time.Duration) {
	failedLane(in, l, 20, 5*time.Minute, "CreateContainerError")
	f := in.Failures[l]
	f.Reserved = t0.Add(-since)
	in.Failures[l] = f
}

func busyWith(in *Input, as ...Effect) {
	in.Busy = nil
	for _, a := range as {
		in.Busy.Set(a.Lane(), a)
	}
}

func TestPlanBeginning(t *testing.T) {
	checkPlans(t, []planCase{
		{"not known", baseInput, func(in *Input) { in.Known = false }, "observe; a: ContainerCreating"},
		{"not known, observing", baseInput, func(in *Input) { in.Known = false; busyWith(in, ObservePod{}) }, "a: ContainerCreating"},
		{"not known, observing failed", baseInput, func(in *Input) { in.Known = false; failedLane(in, Lane{Kind: LanePod}, 1, 0, "") },
			"a: ContainerCreating; wake +1s"},
		{"not known, but it ran", runInput, func(in *Input) { in.Known = false }, "observe"},
		{"all at once", baseInput, nil, "run sandbox 0; mount; image a#0; a: ContainerCreating"},
		{"images of all that will run", baseInput, func(in *Input) { withInit(in, true) },
			"run sandbox 0; mount; image i#0; image s#0 ahead; image a#0 ahead; " +
				"a: PodInitializing; i: PodInitializing; s: PodInitializing"},
		{"sandbox under way", baseInput, func(in *Input) { busyWith(in, RunSandbox{}); in.Volumes.State = volumeplan.Pending },
			"image a#0; a: ContainerCreating"},
		{"sandbox failed", upInput, func(in *Input) {
			in.View.Sandboxes = nil
			failedLane(in, Lane{Kind: LaneSandbox}, 2, time.Second, "CreatePodSandboxError")
		}, "a: ContainerCreating; wake +1s"},
		{"cgroup first", baseInput, withCgroup(podcgroup.Down), "make cgroup; mount; image a#0; a: ContainerCreating"},
		{"cgroup being made", baseInput, withCgroup(podcgroup.Pending), "mount; image a#0; a: ContainerCreating"},
		{"cgroup fails", baseInput, withCgroup(podcgroup.Failed), "mount; image a#0; a: ContainerCreating"},
		{"cgroup stands", baseInput, withCgroup(podcgroup.Up), "run sandbox 0; mount; image a#0; a: ContainerCreating"},
		{"cgroup of a pod that runs", runInput, withCgroup(podcgroup.Down), "tell of cgroup"},
		{"cgroup of a pod that ran", runInput, func(in *Input) {
			withCgroup(podcgroup.Known)(in)
			containers(in, exited("a", 0, 0, 0))
			in.View.Sandboxes[0].State = observed.SandboxNotReady
		}, "make cgroup; stop sandbox s0; SandboxChanged! Pod sandbox changed, it will be killed and re-created."},
		{"claims first", baseInput, withClaims(claims.Unasked), "prepare claims; mount; image a#0; a: ContainerCreating"},
		{"claims of a node without drivers", baseInput, func(in *Input) { withClaims(claims.Unasked)(in); in.UsesClaims = false },
			"run sandbox 0; mount; image a#0; a: ContainerCreating"},
		{"claims being prepared", baseInput, withClaims(claims.Pending), "mount; image a#0; a: ContainerCreating"},
		{"claims are ready", baseInput, withClaims(claims.Ready), "run sandbox 0; mount; image a#0; a: ContainerCreating"},
		{"claims of a pod that runs", runInput, withClaims(claims.Unasked), "ask for claims"},
		{"claims of the next container", upInput, withClaims(claims.Unasked), "ask for claims; a: ContainerCreating"},
		{"its devices are known", upInput, withClaims(claims.Known), "create a#0 in s0; a: ContainerCreating"},
		{"claims of a pod that ran", runInput, func(in *Input) {
			withClaims(claims.Known)(in)
			containers(in, exited("a", 0, 0, 0))
			in.View.Sandboxes[0].State = observed.SandboxNotReady
		}, "prepare claims; stop sandbox s0; SandboxChanged! Pod sandbox changed, it will be killed and re-created."},
		{"volumes not up", upInput, func(in *Input) { in.Volumes.State = volumeplan.Pending }, "a: ContainerCreating"},
		{"image not there", upInput, func(in *Input) { in.Images.Set("a", imagepull.Status{State: imagepull.Pending, Image: "img:1"}) }, "a: ContainerCreating"},
		{"image fails", upInput, func(in *Input) {
			in.Images.Set("a", imagepull.Status{State: imagepull.Failed, Image: "img:1", Reason: "ErrImagePull"})
		}, "a: ErrImagePull; Failed! Error: ErrImagePull"},
		{"image of another name", upInput, func(in *Input) { main0(in).Image = "img:2" }, "image a#0; a: ContainerCreating"},
		{"all there", upInput, nil, "create a#0 in s0; a: ContainerCreating"},
		{"two at once", upInput, func(in *Input) {
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
			in.Images.Set("b", in.Images.At("a"))
		}, "create a#0 in s0; create b#0 in s0; a: ContainerCreating; b: ContainerCreating"},
		{"sandbox not read", upInput, func(in *Input) { in.View.Sandboxes[0].Detailed, in.View.Sandboxes[0].IPs = false, nil },
			"inspect sandbox s0; create a#0 in s0; a: ContainerCreating"},
		{"sandbox not read, podIP needed", upInput, func(in *Input) {
			in.View.Sandboxes[0].Detailed, in.View.Sandboxes[0].IPs = false, nil
			readsPodIP(main0(in), "status.podIP")
		}, "inspect sandbox s0; a: ContainerCreating"},
		{"sandbox not read, podIPs needed", upInput, func(in *Input) {
			in.View.Sandboxes[0].Detailed, in.View.Sandboxes[0].IPs = false, nil
			readsPodIP(main0(in), "status.podIPs")
		}, "inspect sandbox s0; a: ContainerCreating"},
		{"sandbox in doubt, podIP known", upInput, func(in *Input) {
			in.View.Sandboxes[0].Detailed = false
			readsPodIP(main0(in), "status.podIP")
		}, "inspect sandbox s0; create a#0 in s0; a: ContainerCreating"},
		{"create failed for its configuration", upInput, func(in *Input) {
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 1, 0, "CreateContainerConfigError")
		}, "a: CreateContainerConfigError; wake +1s"},
		{"create failed a while ago", upInput, func(in *Input) {
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 1, time.Second, "CreateContainerError")
		}, "create a#0 in s0; a: CreateContainerError"},
		{"its name is reserved", upInput, func(in *Input) { reserved(in, Lane{Kind: LaneContainer, Name: "a"}, 9*time.Minute) },
			"create a#0 in s0; a: CreateContainerError"},
		{"its name stays reserved", upInput, func(in *Input) { reserved(in, Lane{Kind: LaneContainer, Name: "a"}, 10*time.Minute) },
			"create a#1 in s0; a: CreateContainerError"},
		{"and that of the next one", upInput, func(in *Input) { reserved(in, Lane{Kind: LaneContainer, Name: "a"}, 25*time.Minute) },
			"create a#2 in s0; a: CreateContainerError"},
		{"the name of its sandbox stays reserved", upInput, func(in *Input) {
			in.View.Sandboxes = nil
			reserved(in, Lane{Kind: LaneSandbox}, 10*time.Minute)
		}, "run sandbox 1; a: ContainerCreating"},
		{"created", upInput, func(in *Input) { containers(in, created("a", 0)) }, "start a0; read a0; a: ContainerCreating"},
		{"created, not read", upInput, func(in *Input) { containers(in, created("a", 0)); in.View.Containers[0].Detailed = false },
			"inspect a0; a: ContainerCreating"},
		{"created, of another hash", upInput, func(in *Input) { containers(in, created("a", 0)); in.View.Containers[0].SpecHash = "0123456789abcdef" },
			"remove a0; a: ContainerCreating"},
		{"created, of no hash", upInput, func(in *Input) { containers(in, created("a", 0)); in.View.Containers[0].SpecHash = "" },
			"start a0; read a0; a: ContainerCreating"},
		{"created in another sandbox", upInput, func(in *Input) { containers(in, created("a", 0)); in.View.Containers[0].SandboxID = "old" },
			"remove a0; a: ContainerCreating"},
		{"created, can't be started", upInput, func(in *Input) {
			containers(in, created("a", 0))
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 3, 50*time.Second, "RunContainerError")
		}, "remove a0; a: RunContainerError"},
		{"created, nobody knows whether it was started", upInput, func(in *Input) {
			containers(in, created("a", 0))
			l := Lane{Kind: LaneContainer, Name: "a"}
			failedLane(in, l, 3, 50*time.Second, "RunContainerError")
			f := in.Failures[l]
			f.Refusals = 2
			in.Failures[l] = f
		}, "start a0; read a0; a: RunContainerError"},
		{"created after others could not be started", upInput, func(in *Input) {
			containers(in, created("a", 0))
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 3, 70*time.Second, "RunContainerError")
		}, "start a0; read a0; a: RunContainerError"},
		{"records lost, status remembers", upInput, func(in *Input) {
			in.Pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", ContainerID: "containerd://x", RestartCount: 4}}
		}, "create a#5 in s0; a: ContainerCreating"},
		{"records lost, status shows that it was lost", upInput, func(in *Input) {
			in.Pod.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name: "a", ContainerID: "containerd://x", RestartCount: 4,
				State:                v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}},
				LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: podspec.StatusUnknown}},
			}}
		}, "create a#4 in s0; a: ContainerCreating"},
		{"removed by somebody else", upInput, func(in *Input) {
			containers(in, exited("a", 0, 1, time.Hour), alive("a", 1))
			in.Adopt(observed.Pod{Sandboxes: in.View.Sandboxes, Containers: []observed.Container{exited("a", 0, 1, time.Hour)}})
		}, "create a#2 in s0"},
		{"removed by somebody else before it ran", upInput, func(in *Input) {
			containers(in, created("a", 0))
			in.Adopt(observed.Pod{Sandboxes: in.View.Sandboxes})
		}, "create a#0 in s0; a: ContainerCreating"},
		{"running", runInput, nil, ""},
		{"running, not read", runInput, func(in *Input) { in.View.Containers[0].Detailed = false }, "inspect a0"},
		{"pod has finished", runInput, func(in *Input) { in.Pod.Status.Phase = v1.PodFailed }, "DONE the pod has finished"},
		{"past its deadline", runInput, func(in *Input) { s := int64(60); in.Pod.Spec.ActiveDeadlineSeconds = &s },
			"DONE activeDeadlineSeconds is over"},
		{"before its deadline", runInput, func(in *Input) {
			s := int64(60)
			in.Pod.Spec.ActiveDeadlineSeconds, in.StartTime = &s, t0.Add(-50*time.Second)
		}, "wake +10s"},
	})
}

func created(name string, attempt uint32) observed.Container {
	c := alive(name, attempt)
	c.State, c.StartedAt = observed.ContainerCreated, time.Time{}
	return c
}

// outOfMemory is a container that lost a child to the OOM killer, and ended with code 0.
func outOfMemory(name string) observed.Container {
	c := exited(name, 0, 0, 0)
	c.Reason = podspec.OOMKilled
	return c
}

func TestPlanInit(t *testing.T) {
	up := func(sidecar bool) func() Input {
		return func() Input { in := upInput(); withInit(&in, sidecar); return in }
	}
	startup := func(in *Input) { in.Pod.Spec.InitContainers[1].StartupProbe = &v1.Probe{} }
	never := func(in *Input) { in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever }
	checkPlans(t, []planCase{
		{"first", up(false), nil, "create i#0 in s0; a: PodInitializing; i: PodInitializing"},
		{"runs", up(false), func(in *Input) { containers(in, alive("i", 0)) }, "a: PodInitializing"},
		{"done", up(false), func(in *Input) { containers(in, exited("i", 0, 0, 0)) }, "create a#0 in s0; a: PodInitializing"},
		{"ended, not read", up(false), func(in *Input) { containers(in, exited("i", 0, 0, 0)); in.View.Containers[0].Detailed = false },
			"inspect i0; a: PodInitializing"},
		{"failed", up(false), func(in *Input) { containers(in, exited("i", 0, 1, 0)) }, "create i#1 in s0; a: PodInitializing"},
		{"failed, of policy Never", up(false), func(in *Input) { containers(in, exited("i", 0, 1, 0)); never(in) }, "DONE an init container failed"},
		{"out of memory, code 0", up(false), func(in *Input) { containers(in, outOfMemory("i")) },
			"create i#1 in s0; a: PodInitializing"},
		{"out of memory, code 0, of policy OnFailure", up(false), func(in *Input) {
			containers(in, outOfMemory("i"))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "create i#1 in s0; a: PodInitializing"},
		{"out of memory, code 0, of policy Never", up(false), func(in *Input) { containers(in, outOfMemory("i")); never(in) },
			"DONE an init container failed"},
		{"out of memory, code 0, beside main", up(false), func(in *Input) { containers(in, outOfMemory("i"), alive("a", 0)) }, ""},
		{"main out of memory, code 0, of policy OnFailure", up(false), func(in *Input) {
			containers(in, exited("i", 0, 0, 0), outOfMemory("a"))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "DONE all containers have finished"},
		{"lost, of policy Never", up(false), func(in *Input) {
			c := alive("i", 0)
			c.State = observed.ContainerUnknown
			containers(in, c)
			in.Stopped = map[string]time.Time{"i0": t0.Add(-time.Minute)}
			never(in)
		}, "DONE an init container failed"},
		{"failed twice", up(false), func(in *Input) { containers(in, exited("i", 1, 1, 0)) },
			"a: PodInitializing; i: CrashLoopBackOff; BackOff! Back-off restarting failed container i in pod web_default(u1); wake +10s"},
		{"sidecar next", up(true), func(in *Input) { containers(in, exited("i", 0, 0, 0)) },
			"create s#0 in s0; a: PodInitializing; s: PodInitializing"},
		{"sidecar started", up(true), func(in *Input) { containers(in, exited("i", 0, 0, 0), alive("s", 0)) }, "create a#0 in s0; a: PodInitializing"},
		{"sidecar's startup probe is not through", up(true), func(in *Input) {
			containers(in, exited("i", 0, 0, 0), alive("s", 0))
			startup(in)
			in.Health = map[string]probe.Health{"s0": {Startup: probe.Unknown}}
		}, "a: PodInitializing"},
		{"sidecar's startup probe is through", up(true), func(in *Input) {
			containers(in, exited("i", 0, 0, 0), alive("s", 0))
			startup(in)
			in.Health = map[string]probe.Health{"s0": {Startup: probe.Success}}
		}, "create a#0 in s0; a: PodInitializing"},
		{"sidecar's startup probe failed", up(true), func(in *Input) {
			containers(in, exited("i", 0, 0, 0), alive("s", 0))
			in.Health = map[string]probe.Health{"s0": {Startup: probe.Failure}}
		}, "stop s0 30s; a: PodInitializing; Killing! Init container s failed startup probe"},
		{"sidecar's postStart", up(true), func(in *Input) {
			containers(in, exited("i", 0, 0, 0), alive("s", 0))
			in.Pod.Spec.InitContainers[1].Lifecycle = &v1.Lifecycle{PostStart: hook()}
		}, "postStart s0; a: PodInitializing"},
		{"sidecar died beside main", up(true), func(in *Input) {
			containers(in, alive("a", 0), exited("i", 0, 0, time.Hour), exited("s", 0, 0, 0))
		}, "create s#1 in s0"},
		{"init records are gone", up(true), func(in *Input) { containers(in, alive("a", 0), alive("s", 0)) }, ""},
		{"main done, sidecar runs", up(true), func(in *Input) {
			containers(in, exited("a", 0, 0, 0), alive("s", 0))
			never(in)
		}, "DONE all containers have finished"},
		{"an earlier one lives on", up(true), func(in *Input) { containers(in, alive("a", 0), alive("i", 0), alive("s", 0)) },
			"stop i0 30s; Killing! Stopping container i"},
	})
}

func TestPlanRunning(t *testing.T) {
	own := int64(1)
	checkPlans(t, []planCase{
		{"image changed", runInput, func(in *Input) { in.View.Containers[0].SpecHash = SpecHash(main0(in)); main0(in).Image = "img:2" },
			"stop a0 30s; Killing! Container a definition changed, will be restarted"},
		{"image changed, foreign hash", runInput, func(in *Input) { in.View.Containers[0].SpecHash = "1f2e3d4c5"; main0(in).Image = "img:2" }, ""},
		{"image changed, no hash", runInput, func(in *Input) { in.View.Containers[0].SpecHash = ""; main0(in).Image = "img:2" }, ""},
		{"image of a kubelet's container", runInput, func(in *Input) { in.View.Containers[0].SpecHash = podspec.KubeletHash(main0(in)) }, ""},
		{"image of a kubelet's container changed", runInput, func(in *Input) {
			in.View.Containers[0].SpecHash = podspec.KubeletHash(main0(in))
			main0(in).Image = "img:2"
		}, "stop a0 30s; Killing! Container a definition changed, will be restarted"},
		{"image of a kubelet's container changed, in a crash loop", upInput, func(in *Input) {
			containers(in, exited("a", 1, 1, 0))
			in.View.Containers[0].SpecHash = podspec.KubeletHash(main0(in))
			main0(in).Image = "img:2"
		}, "image a#2"},
		{"image changed, stopped, of policy Never", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			in.View.Containers[0].SpecHash = SpecHash(main0(in))
			notes(in, "a0", podlife.ContainerChanged, true)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			main0(in).Image = "img:2"
		}, "image a#1"},
		{"image changed, ended by itself, of policy Never", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			in.View.Containers[0].SpecHash = SpecHash(main0(in))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			main0(in).Image = "img:2"
		}, "DONE all containers have finished"},
		{"image changed, of policy OnFailure", runInput, func(in *Input) {
			in.View.Containers[0].SpecHash = SpecHash(main0(in))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			main0(in).Image = "img:2"
		}, "note a0 ContainerChanged"},
		{"image changed, being written down", runInput, func(in *Input) {
			in.View.Containers[0].SpecHash = SpecHash(main0(in))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			main0(in).Image = "img:2"
			notes(in, "a0", podlife.ContainerChanged, false)
		}, ""},
		{"image changed, written down", runInput, func(in *Input) {
			in.View.Containers[0].SpecHash = SpecHash(main0(in))
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			main0(in).Image = "img:2"
			notes(in, "a0", podlife.ContainerChanged, true)
		}, "stop a0 30s; Killing! Container a definition changed, will be restarted"},
		{"image changed and back, written down", runInput, func(in *Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			notes(in, "a0", podlife.ContainerChanged, true)
		}, "stop a0 30s; Killing! Stopping container a"},
		{"written down of an incarnation before", runInput, func(in *Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			notes(in, "a9", podlife.ContainerChanged, true)
		}, ""},
		{"liveness", runInput, func(in *Input) { in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}} },
			"stop a0 30s; Killing! Container a failed liveness probe, will be restarted"},
		{"liveness, with a grace of its own", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure, Grace: &own}}
		}, "stop a0 2s; Killing! Container a failed liveness probe, will be restarted"},
		{"liveness, of policy Never", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
		}, "DONE the last container is stopped, and not restarted"},
		{"liveness, ended well, of policy OnFailure", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			notes(in, "a0", podlife.ProbeFailed, true)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "create a#1 in s0"},
		{"liveness, ended by itself before it was stopped, of policy OnFailure", upInput, func(in *Input) {
			containers(in, exited("a", 0, 0, 0))
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "DONE all containers have finished"},
		{"liveness, of policy OnFailure", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
		}, "note a0 ProbeFailed"},
		{"liveness, of policy OnFailure, heard just now: it may have completed", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Success}}
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			in.Probed(in.Pod, "a0", probe.Health{Liveness: probe.Failure})
		}, "inspect a0"},
		{"liveness, heard just now", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Success}}
			in.Probed(in.Pod, "a0", probe.Health{Liveness: probe.Failure})
		}, "stop a0 30s; Killing! Container a failed liveness probe, will be restarted"},
		{"startup", runInput, func(in *Input) { in.Health = map[string]probe.Health{"a0": {Startup: probe.Failure}} },
			"stop a0 30s; Killing! Container a failed startup probe, will be restarted"},
		{"liveness, with a hook", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			main0(in).Lifecycle = &v1.Lifecycle{PreStop: hook()}
		}, "preStop a0 30s; Killing! Container a failed liveness probe, will be restarted; wake +30s"},
		{"liveness, the hook is over", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Success}} // it came round; but the hook can't be undone
			main0(in).Lifecycle = &v1.Lifecycle{PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookDone, PreStopAt: t0.Add(-10 * time.Second)}}
		}, "stop a0 20s"},
		{"liveness, the hook took it all", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			main0(in).Lifecycle = &v1.Lifecycle{PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PreStop: HookRunning, PreStopAt: t0.Add(-30 * time.Second)}}
		}, "stop a0 2s"},
		{"liveness, postStart still runs", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook(), PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookRunning}}
			busyWith(in, RunPostStart{Name: "a", ID: "a0"})
		}, "end hook of a0; wake +30s"},
		{"liveness, postStart was ended", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook(), PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookEnded}}
		}, "preStop a0 30s; Killing! Container a failed liveness probe, will be restarted; wake +30s"},
		{"postStart was ended for what is over", runInput, func(in *Input) {
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook(), PreStop: hook()}
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookEnded}}
		}, "preStop a0 30s; Killing! Stopping container a; wake +30s"},
		{"liveness, a grace without end", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure, Grace: new(int64(9223372036))}}
		}, "stop a0 596523h14m7s; Killing! Container a failed liveness probe, will be restarted"},
		{"ended while its postStart ran", upInput, func(in *Input) {
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook()}
			containers(in, exited("a", 0, 1, time.Hour))
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookRunning}}
			busyWith(in, RunPostStart{Name: "a", ID: "a0"})
		}, "create a#1 in s0; end hook of a0"},
		{"being stopped", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			busyWith(in, StopContainer{Name: "a", ID: "a0", Grace: 30 * time.Second})
			in.KillAt = map[string]time.Time{"a0": t0.Add(20 * time.Second)}
		}, ""},
		{"stopped, not seen yet", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Stopped = map[string]time.Time{"a0": t0}
			in.View.Containers[0].Detailed = false
		}, "inspect a0; wake +1s"},
		{"stopped, but seen alive", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Stopped = map[string]time.Time{"a0": t0}
		}, "wake +1s"},
		{"stopped a while ago, and alive", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Stopped = map[string]time.Time{"a0": t0.Add(-time.Minute)}
		}, "stop a0 30s"},
		{"stopped a while ago, and an inspection has no answer", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			in.Stopped = map[string]time.Time{"a0": t0.Add(-time.Minute)}
			in.View.Containers[0].Detailed = false
			busyWith(in, InspectContainer{Name: "a", ID: "a0"})
		}, ""},
		{"stop failed", runInput, func(in *Input) {
			in.Health = map[string]probe.Health{"a0": {Liveness: probe.Failure}}
			failedLane(in, Lane{Kind: LaneStop, Name: "a0"}, 2, 0, "")
		}, "wake +2s"},
		{"postStart", runInput, func(in *Input) { main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook()} }, "postStart a0"},
		{"postStart under way", runInput, func(in *Input) {
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook()}
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookRunning}}
		}, ""},
		{"postStart failed", runInput, func(in *Input) {
			main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook()}
			in.Hooks = map[string]Hooks{"a0": {PostStart: HookFailed}}
		}, "stop a0 30s; Killing! FailedPostStartHook"},
		{"ephemeral", runInput, func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img:1"}, TargetContainerName: "a",
			}}
			in.Images.Set("e", in.Images.At("a"))
		}, "create e#0 in s0; e: ContainerCreating"},
		{"ephemeral, its target has ended", runInput, func(in *Input) { debugged(in, false) }, "e: ContainerCreating"},
		{"ephemeral, its target has ended, and they share processes", runInput, func(in *Input) { debugged(in, true) },
			"create e#0 in s0; e: ContainerCreating"},
		{"ephemeral, over", runInput, func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img:1"}}}
			in.View.Containers = append(in.View.Containers, exited("e", 0, 1, 0))
		}, ""},
		{"ephemeral, lost by the runtime", runInput, func(in *Input) {
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img:1"}}}
			e := alive("e", 0)
			e.State = observed.ContainerUnknown
			in.View.Containers = append(in.View.Containers, e)
		}, ""},
	})
}

// debugged is a pod of which a container has ended for good and another one lives, with an ephemeral container for the first.
func debugged(in *Input, shared bool) {
	in.Pod.Spec.RestartPolicy, in.Pod.Spec.ShareProcessNamespace = v1.RestartPolicyNever, &shared
	in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: "b", Image: "img:1"})
	in.View.Containers = []observed.Container{exited("a", 0, 0, 0), alive("b", 0)}
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
		EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img:1"}, TargetContainerName: "a",
	}}
	in.Images.Set("e", in.Images.At("a"))
}

// TestPlanTarget: people see what an ephemeral container waits for.
func TestPlanTarget(t *testing.T) {
	in := runInput()
	debugged(&in, false)
	check.Equal(t, Plan(in).Waiting.At("e").Message, "its target container a does not run", "what it waits for")
}
