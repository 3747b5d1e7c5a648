package podplan

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/gate"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/smallmap"
	"github.com/troupe-dev/troupe/tests/check"
)

// two is a pod of two main containers, of which the first has a postStart hook. They have ended as the functions say.
func two(in *Input) {
	main0(in).Lifecycle = &v1.Lifecycle{PostStart: hook()}
	in.Pod.Spec.Containers = append(in.Pod.Spec.Containers,
		v1.Container{Name: "b", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent})
	if in.Images.Has("a") {
		in.Images.Set("b", in.Images.At("a"))
	}
}

// hooksOf says how far the postStart hooks of some containers are.
func hooksOf(in *Input, of map[string]HookState) {
	in.Hooks = map[string]Hooks{}
	for id, state := range of {
		in.Hooks[id] = Hooks{PostStart: state}
	}
}

// TestPlanOrder: a container is made when the postStart hooks of those before it have ended, as a kubelet does that
// starts one after the other.
func TestPlanOrder(t *testing.T) {
	const a = "a: ContainerCreating; b: ContainerCreating"
	fails := imagepull.Status{State: imagepull.Failed, Image: "img:1", Reason: "ErrImagePull"}
	sidecar := func(in *Input) { // in place of a
		withInit(in, true)
		in.Pod.Spec.InitContainers[1].Lifecycle = &v1.Lifecycle{PostStart: hook()}
	}
	checkPlans(t, []planCase{
		{"the first", upInput, two, "create a#0 in s0; " + a},
		{"the image of the first is not there", upInput, func(in *Input) {
			two(in)
			in.Images.Set("a", imagepull.Status{State: imagepull.Pending, Image: "img:1"})
		}, "" + a},
		{"the image of the first can't be pulled", upInput, func(in *Input) { two(in); in.Images.Set("a", fails) },
			"create b#0 in s0; a: ErrImagePull; b: ContainerCreating; Failed! Error: ErrImagePull"},
		{"the first can't be made", upInput, func(in *Input) {
			two(in)
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 1, 0, "CreateContainerError")
		}, "create b#0 in s0; a: CreateContainerError; b: ContainerCreating; wake +1s"},
		{"the first is made once more", upInput, func(in *Input) {
			two(in)
			failedLane(in, Lane{Kind: LaneContainer, Name: "a"}, 1, time.Minute, "CreateContainerError")
		}, "create a#0 in s0; a: CreateContainerError; b: ContainerCreating"},
		{"the first is being started", upInput, func(in *Input) {
			two(in)
			containers(in, created("a", 0))
			busyWith(in, StartContainer{Name: "a", ID: "a0"})
		}, "" + a},
		{"its hook", runInput, two, "postStart a0; b: ContainerCreating"},
		{"its hook runs", runInput, func(in *Input) { two(in); hooksOf(in, map[string]HookState{"a0": HookRunning}) },
			"b: ContainerCreating"},
		{"the image of the second is pulled meanwhile", runInput, func(in *Input) {
			two(in)
			hooksOf(in, map[string]HookState{"a0": HookRunning})
			in.Images.Delete("b")
		}, "image b#0 ahead; b: ContainerCreating"},
		{"its hook is through", runInput, func(in *Input) { two(in); hooksOf(in, map[string]HookState{"a0": HookDone}) },
			"create b#0 in s0; b: ContainerCreating"},
		{"pulled ahead, and now its turn", runInput, func(in *Input) {
			two(in)
			hooksOf(in, map[string]HookState{"a0": HookDone})
			in.Images.Set("b", imagepull.Status{State: imagepull.Ready, Image: "img:1", Ref: "sha256:1", Ahead: true})
		}, "image b#0; b: ContainerCreating"},
		{"a later pull can't be made ahead of its turn", runInput, func(in *Input) {
			two(in)
			hooksOf(in, map[string]HookState{"a0": HookRunning})
			ahead := fails
			ahead.Ahead = true
			in.Images.Set("b", ahead)
		}, "b: ContainerCreating"},
		{"its hook failed", runInput, func(in *Input) { two(in); hooksOf(in, map[string]HookState{"a0": HookFailed}) },
			"stop a0 30s; b: ContainerCreating; Killing! FailedPostStartHook"},
		{"its hook failed, and the next try does not hold up the others", upInput, func(in *Input) {
			two(in)
			containers(in, exited("a", 0, 137, 0))
			hooksOf(in, map[string]HookState{"a0": HookFailed})
		}, "create a#1 in s0; create b#0 in s0; a: PostStartHookError; b: ContainerCreating; wake +10s"},
		{"nor does the hook of that try", upInput, func(in *Input) {
			two(in)
			containers(in, alive("a", 1), exited("a", 0, 137, time.Minute))
			hooksOf(in, map[string]HookState{"a0": HookFailed, "a1": HookRunning})
		}, "create b#0 in s0; b: ContainerCreating"},
		{"but one that ended since", upInput, func(in *Input) {
			two(in)
			containers(in, alive("a", 1), exited("a", 0, 137, time.Minute), exited("b", 0, 1, time.Second))
			hooksOf(in, map[string]HookState{"a0": HookFailed, "a1": HookRunning})
		}, ""},
		{"both ended by themselves", upInput, func(in *Input) {
			two(in)
			containers(in, exited("a", 0, 1, 0), exited("b", 0, 1, 0))
			hooksOf(in, map[string]HookState{"a0": HookDone})
		}, "create a#1 in s0"},
		{"the first waits for its backoff", upInput, func(in *Input) {
			two(in)
			containers(in, exited("a", 1, 1, 0), exited("b", 0, 1, 0))
		}, "create b#1 in s0; a: CrashLoopBackOff; " +
			"BackOff! Back-off restarting failed container a in pod web_default(u1); wake +10s"},
		{"one that was stopped to be restarted", upInput, func(in *Input) {
			two(in)
			containers(in, alive("a", 1), exited("b", 0, 137, 0))
			hooksOf(in, map[string]HookState{"a1": HookRunning})
			in.Health = map[string]probe.Health{"b0": {Liveness: probe.Failure}}
			in.Stopped = map[string]time.Time{"b0": t0}
		}, "create b#1 in s0"},
		{"a later one holds up none before it", upInput, func(in *Input) {
			two(in)
			in.Pod.Spec.Containers[0].Lifecycle, in.Pod.Spec.Containers[1].Lifecycle = nil, main0(in).Lifecycle
			containers(in, exited("a", 0, 1, 0), alive("b", 0))
			hooksOf(in, map[string]HookState{"b0": HookRunning})
		}, "create a#1 in s0"},
		{"a sidecar that is restarted", upInput, func(in *Input) {
			sidecar(in)
			containers(in, exited("i", 0, 0, time.Hour), alive("s", 1), exited("a", 0, 1, 0))
			hooksOf(in, map[string]HookState{"s1": HookRunning})
		}, ""},
		{"ephemeral containers do not wait", runInput, func(in *Input) {
			two(in)
			hooksOf(in, map[string]HookState{"a0": HookRunning})
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img:1"}}}
			in.Images.Set("e", in.Images.At("a"))
		}, "create e#0 in s0; b: ContainerCreating; e: ContainerCreating"},
	})
}

// TestPlanAhead: what fails ahead of a container's turn is not shown, and is tried anew when it is its turn.
func TestPlanAhead(t *testing.T) {
	image := func(state imagepull.State, ahead bool) func(*Input) {
		return func(in *Input) {
			withInit(in, false)
			in.Images.Set("a", imagepull.Status{State: state, Image: "img:1", Ahead: ahead, Ref: "sha256:1", Reason: "ErrImagePull"})
			containers(in, alive("i", 0))
		}
	}
	turn := func(f func(*Input)) func(*Input) {
		return func(in *Input) { f(in); containers(in, exited("i", 0, 0, 0)) }
	}
	const waits = "a: PodInitializing"
	checkPlans(t, []planCase{
		{"fails", upInput, image(imagepull.Failed, true), waits},
		{"failed in an earlier sandbox", upInput, image(imagepull.Failed, false), "image a#0 ahead; " + waits},
		{"there", upInput, image(imagepull.Ready, true), waits},
		{"there since an earlier sandbox", upInput, image(imagepull.Ready, false), waits},
		{"its turn, it failed", upInput, turn(image(imagepull.Failed, true)), "image a#0; " + waits},
		{"its turn, it is being pulled", upInput, turn(image(imagepull.Pending, true)), "image a#0; " + waits},
		{"its turn, it is there", upInput, turn(image(imagepull.Ready, true)), "image a#0; " + waits},
		{"its turn, asked", upInput, turn(image(imagepull.Pending, false)), waits},
		{"its turn, it fails", upInput, turn(image(imagepull.Failed, false)), "a: ErrImagePull; Failed! Error: ErrImagePull"},
		{"its turn, and made", upInput, turn(image(imagepull.Ready, false)), "create a#0 in s0; " + waits},
		{"the image of a volume", upInput, func(in *Input) {
			image(imagepull.Ready, true)(in)
			in.Pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				Image: &v1.ImageVolumeSource{Reference: "img:2"}}}}
			main0(in).VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
			in.Images.Set(imagepull.VolumeImage("v"), imagepull.Status{State: imagepull.Failed, Image: "img:2", Reason: "ErrImagePull"})
		}, waits},
	})
}

// TestPlanNoImage: that an image can't be had is told once for each reason, of each container whose turn it is: users
// find it by the field path of the event. (kuberuntime_manager.go toKubeContainerImageVolumes, called for what is
// started)
func TestPlanNoImage(t *testing.T) {
	image := func(in *Input, name, reason string) {
		in.Images.Set(name, imagepull.Status{State: imagepull.Failed, Image: "img:2", Reason: reason})
	}
	// volume is mounted by these containers, and its image can't be had. The pod has main containers a, b and c.
	volume := func(reason string, by ...string) func(*Input) {
		return func(in *Input) {
			s := &in.Pod.Spec
			for _, name := range []string{"b", "c"} {
				s.Containers = append(s.Containers,
					v1.Container{Name: name, Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent})
				in.Images.Set(name, in.Images.At("a"))
			}
			s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				Image: &v1.ImageVolumeSource{Reference: "img:2"}}}}
			for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
				for i := range list {
					if slices.Contains(by, list[i].Name) {
						list[i].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
					}
				}
			}
			image(in, imagepull.VolumeImage("v"), reason)
		}
	}
	after := func(f func(*Input), init ...observed.Container) func(*Input) {
		return func(in *Input) {
			withInit(in, false)
			f(in)
			containers(in, init...)
		}
	}
	waited := func(f func(*Input), reason string) func(*Input) {
		return func(in *Input) {
			f(in)
			in.Waited.Set("a", Waiting{Reason: reason, Gate: gate.Image})
		}
	}
	own := func(in *Input) { image(in, "a", "ErrImagePull"); main0(in).Image = "img:2" }
	const initializing = "a: PodInitializing; b: PodInitializing; c: PodInitializing"
	checkPlans(t, []planCase{
		{"told", upInput, own, "a: ErrImagePull; Failed! Error: ErrImagePull"},
		{"once", upInput, waited(own, "ErrImagePull"), "a: ErrImagePull"},
		{"for each reason", upInput, waited(own, "ImagePullBackOff"), "a: ErrImagePull; Failed! Error: ErrImagePull"},
		{"of a volume", upInput, volume("ImagePullBackOff", "a", "c"),
			"create b#0 in s0; a: ImagePullBackOff; b: ContainerCreating; c: ImagePullBackOff; " +
				"Failed! Error: ImagePullBackOff; Failed! Error: ImagePullBackOff"},
		{"of a volume, told of one", upInput, waited(volume("ErrImagePull", "a", "c"), "ErrImagePull"),
			"create b#0 in s0; a: ErrImagePull; b: ContainerCreating; c: ErrImagePull; Failed! Error: ErrImagePull"},
		{"of its own and of a volume", upInput, func(in *Input) { own(in); volume("ImagePullBackOff", "a")(in) },
			"image b#0; image c#0; a: ImagePullBackOff; b: ContainerCreating; c: ContainerCreating; " +
				"Failed! Error: ImagePullBackOff"},
		{"not its turn", upInput, after(volume("ErrImagePull", "a"), alive("i", 0)), initializing},
		{"its turn", upInput, after(volume("ErrImagePull", "a"), exited("i", 0, 0, 0)),
			"create b#0 in s0; create c#0 in s0; a: ErrImagePull; b: PodInitializing; c: PodInitializing; " +
				"Failed! Error: ErrImagePull"},
		{"an init container holds up the others", upInput, after(volume("ErrImagePull", "i", "a")),
			initializing + "; i: ErrImagePull; Failed! Error: ErrImagePull"},
		{"of an ephemeral container", runInput, func(in *Input) {
			volume("ErrImagePull")(in)
			in.Pod.Spec.Containers = in.Pod.Spec.Containers[:1]
			in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
				Name: "e", Image: "img:1", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}}}
			in.Images.Set("e", in.Images.At("a"))
		}, "e: ErrImagePull; Failed! Error: ErrImagePull"},
	})
}

// TestPlanLostImage: if the runtime has lost an image, it may be that of the container or of a volume. Both are asked
// for again. It was the container's alone, so a container whose volume's image was removed did not come back.
func TestPlanLostImage(t *testing.T) {
	in := upInput()
	ready := in.Images.At("a")
	in.Images.Set(imagepull.VolumeImage("v"), ready)
	in.Images.Set("b", ready)
	e := CreateContainer{Name: "a", SandboxID: "s0"}
	in.Begin(e, t0)
	in.Failed(e, Situation{Now: t0}, Problem{Detail: "no image", NoImage: true})
	check.Same(t, in.Images, smallmap.Map[string, imagepull.Status]{{Key: "b", Value: ready}}, "left")
}

// TestPlanHeldUpSays: users see what a container waits for.
func TestPlanHeldUpSays(t *testing.T) {
	in := runInput()
	two(&in)
	in.View.Sort()
	if w := Plan(in).Waiting.At("b"); w.Message != "waiting for the postStart hook of container a" {
		t.Errorf("b waits: %+v", w)
	}
}

// checkOrder: no main container is made while the first hook of one before it runs, but one that was stopped to be
// restarted.
func (w *world) checkOrder(a CreateContainer) {
	in := &w.mem.in
	_, kind := podspec.Find(&w.pod.Spec, a.Name)
	mine, made := in.View.Newest(a.Name)
	if p := (planner{in: *in}); kind != podspec.Main || made && p.killed(&mine) {
		return
	}
	for i := range w.pod.Spec.Containers {
		c := &w.pod.Spec.Containers[i]
		if c.Name == a.Name {
			return
		}
		n, _ := in.View.Newest(c.Name)
		if n.State == observed.ContainerRunning && in.Hooks[n.ID].PostStart == HookRunning && n.Attempt == 0 {
			w.fail("%s is made while the postStart hook of %s runs", a.Name, n.ID)
		}
	}
}
