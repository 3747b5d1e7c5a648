package invariants

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/tests/check"
)

// rig feeds a model with events.
type rig struct {
	*Node
	now   time.Time
	found []Violation
	ref   observed.PodRef
}

func newRig() *rig {
	r := &rig{now: time.Unix(1000, 0), ref: observed.PodRef{Namespace: "default", Name: "web", UID: "u1"}}
	r.Node = New(func() time.Time { return r.now }, func(v Violation) { r.found = append(r.found, v) })
	return r
}

var always = v1.ContainerRestartPolicyAlways

func (r *rig) spec() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.ref.Namespace, Name: r.ref.Name, UID: r.ref.UID},
		Spec: v1.PodSpec{
			RestartPolicy:  v1.RestartPolicyNever,
			InitContainers: []v1.Container{{Name: "init"}, {Name: "proxy", RestartPolicy: &always}},
			Containers:     []v1.Container{{Name: "app"}},
		},
	}
}

func (r *rig) tell(pods ...*v1.Pod) { r.Told(podspec.API, pods) }

func (r *rig) sandbox(id string, attempt uint32, kinds ...observed.EventKind) {
	for _, k := range kinds {
		r.Changed(simcri.Transition{Kind: k, Pod: r.ref, ID: id, Sandbox: id, Attempt: attempt})
	}
}

// container is one of the first sandbox, "name#attempt", and what happens to it.
func (r *rig) container(name string, attempt uint32, kinds ...observed.EventKind) {
	for _, k := range kinds {
		r.end(name, attempt, k, 0, simcri.ByItself)
	}
}

func (r *rig) end(name string, attempt uint32, k observed.EventKind, code int32, cause simcri.Cause) {
	r.Changed(simcri.Transition{
		Kind: k, Pod: r.ref, ID: fmt.Sprint(r.ref.UID, name, attempt), Sandbox: "s0", Container: name, Attempt: attempt,
		ExitCode: code, Cause: cause, Image: r.image(name),
	})
}

// image is the one that the agent was told of last.
func (r *rig) image(name string) string {
	if p := r.pods[r.ref.UID]; p != nil {
		return p.image(name)
	}
	return ""
}

func (r *rig) call(m simcri.Method, id string) {
	r.Called(simcri.Call{Method: m, Object: id, Pod: r.ref, Grace: v1.DefaultTerminationGracePeriodSeconds * time.Second}, simcri.Fault{})
}

// stop is a call that stops a container.
func (r *rig) stop(name string, grace time.Duration) simcri.Call {
	return simcri.Call{
		Method: simcri.StopContainer, Object: fmt.Sprint(r.ref.UID, name, 0), Pod: r.ref, Container: name, Grace: grace,
	}
}

// ask is a probe of container app.
func (r *rig) ask() {
	r.Called(simcri.Call{Method: simcri.ProbeHTTP, Object: "10.0.0.1:80", Pod: r.ref, Container: "app"}, simcri.Fault{})
}

// hooked is the pod with hooks that run commands.
func (r *rig) hooked() *v1.Pod {
	p := r.spec()
	hook := func(path string) *v1.LifecycleHandler {
		return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{path}}}
	}
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: hook("/start"), PreStop: hook("/stop")}
	return p
}

// probed is the pod with a readiness probe.
func (r *rig) probed() *v1.Pod {
	p := r.spec()
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{PeriodSeconds: 10, TimeoutSeconds: 1}
	return p
}

func (r *rig) show(phase v1.PodPhase) {
	p := r.spec()
	p.Status.Phase = phase
	r.Shown(p, false)
}

const (
	made    = observed.ContainerCreatedEvent
	started = observed.ContainerStartedEvent
	ended   = observed.ContainerStoppedEvent
	removed = observed.ContainerDeletedEvent
)

// up is a pod that runs.
func (r *rig) up() *rig {
	r.tell(r.spec())
	r.call(simcri.RunPodSandbox, "")
	r.sandbox("s0", 0, made, started)
	r.container("init", 0, made, started, ended)
	r.container("proxy", 0, made, started)
	r.container("app", 0, made, started)
	r.show(v1.PodRunning)
	return r
}

// TestGoodLife: a pod that comes up, is deleted and goes violates nothing.
func TestGoodLife(t *testing.T) {
	r := newRig().up()
	deleted := r.spec()
	deleted.DeletionTimestamp = &metav1.Time{Time: r.now}
	r.tell(deleted)
	r.now = r.now.Add(time.Minute)
	for _, name := range []string{"app", "proxy"} {
		r.call(simcri.StopContainer, fmt.Sprint(r.ref.UID, name, 0))
		r.end(name, 0, ended, 137, simcri.ByKill)
	}
	r.sandbox("s0", 0, ended)
	r.Done(machine.Call{Verb: "UnmountPod", Pod: string(r.ref.UID)})
	r.show(v1.PodFailed)
	r.Shown(deleted, true)
	for _, name := range []string{"init", "proxy", "app"} {
		r.container(name, 0, removed)
	}
	r.sandbox("s0", 0, removed)
	r.tell()
	r.Settled()
	check.None(t, r.found, "it")
	if r.Forget(); len(r.pods) > 0 {
		t.Error("the pod is remembered")
	}
}

// TestEachRuleIsViolated: for each rule there is a life that breaks it, and it alone.
func TestEachRuleIsViolated(t *testing.T) {
	lives := map[string]func(r *rig){
		"I01": func(r *rig) { r.sandbox("s1", 1, made, started) },
		"I02": func(r *rig) {
			r.Changed(simcri.Transition{Kind: made, Pod: r.ref, ID: "x", Sandbox: "s1", Container: "init", Attempt: 1})
			r.Changed(simcri.Transition{Kind: started, Pod: r.ref, ID: "x", Sandbox: "s1", Container: "init", Attempt: 1})
			r.Changed(simcri.Transition{Kind: made, Pod: r.ref, ID: "y", Sandbox: "s2", Container: "init", Attempt: 2})
			r.Changed(simcri.Transition{Kind: started, Pod: r.ref, ID: "y", Sandbox: "s2", Container: "init", Attempt: 2})
		},
		"I03": func(r *rig) {
			r.ref.UID = "u2"
			r.sandbox("s0", 0, made, started)
			r.container("app", 0, made, started)
		},
		"I04": func(r *rig) {
			r.end("app", 0, ended, 1, simcri.FromOutside)
			r.container("app", 0, removed, made)
		},
		"I05": func(r *rig) {
			r.ref = observed.PodRef{Namespace: "default", Name: "other", UID: "u3"}
			r.tell(r.spec())
			r.sandbox("s0", 0, made, started)
			r.container("init", 0, made, started)
			r.container("app", 0, made)
		},
		"I06": func(r *rig) { r.end("app", 0, ended, 137, simcri.WithSandbox) },
		"I07": func(r *rig) {
			r.tell(r.hooked())
			r.call(simcri.StopContainer, "u1app0")
		},
		"I08": func(r *rig) {
			r.tell()
			r.now = r.now.Add(time.Second)
			r.call(simcri.CreateContainer, "")
		},
		"I09": func(r *rig) { r.container("app", 0, ended); r.container("app", 1, made) },
		"I10": func(r *rig) {
			r.call(simcri.StopContainer, fmt.Sprint(r.ref.UID, "app", 0))
			r.end("app", 0, ended, 0, simcri.BySignal)
			r.container("proxy", 0, ended)
			r.show(v1.PodSucceeded)
		},
		"I11": func(r *rig) {
			r.container("app", 0, ended)
			r.container("proxy", 0, ended)
			r.show(v1.PodSucceeded)
			r.now = r.now.Add(time.Second)
			r.call(simcri.StartContainer, "")
		},
		"I12": func(r *rig) {
			p := r.spec()
			p.Status.Phase, p.Status.PodIP = v1.PodRunning, "10.0.0.1"
			r.Shown(p, false)
			r.show(v1.PodRunning)
		},
		"I13": func(r *rig) { r.Done(machine.Call{Verb: "UnmountPod", Pod: string(r.ref.UID)}) },
		"I16": func(r *rig) {
			r.Renewed(r.now)
			r.Renewed(r.now)
		},
		"I18": func(r *rig) {
			for range busiest + 2 {
				r.Handled(nil)
			}
		},
		"I20": func(r *rig) {
			for n := range uint32(most + 1) {
				r.now = r.now.Add(longRun)
				r.end("proxy", n, ended, 1, simcri.ByItself)
				r.container("proxy", n+1, made, started)
			}
		},
		"I21": func(r *rig) {
			for n := range uint32(2) {
				r.end("proxy", n, ended, 1, simcri.ByItself)
				r.container("proxy", n+1, made, started)
			}
		},
		"I22": func(r *rig) {
			r.tell(r.probed())
			r.now = r.now.Add(time.Minute)
			r.ask()
		},
		"I26": func(r *rig) { r.Called(r.stop("app", 29*time.Second), simcri.Fault{}) },
		"I27": func(r *rig) {
			deleted(0)(r)
			r.now = r.now.Add(6 * time.Second)
			r.call(simcri.StopContainer, "u1app0")
			r.end("app", 0, ended, 137, simcri.ByKill)
		},
		"I28": func(r *rig) {
			r.now = r.now.Add(time.Hour)
			r.Evicted(&Eviction{UID: r.ref.UID, For: v1.ResourceEphemeralStorage, Grace: time.Second, ImagesEnough: true})
		},
		"I29": func(r *rig) {
			for _, uid := range []types.UID{"u1", "u2"} {
				r.pod(observed.PodRef{UID: uid})
				r.Evicted(&Eviction{UID: uid, For: v1.ResourceMemory, Grace: time.Second})
			}
		},
		"I30": func(r *rig) {
			r.Protects(time.Minute)
			for _, is := range []bool{true, false} {
				pressure(is)(r)
			}
		},
		"I31": func(r *rig) {
			r.Over(r.ref.UID, true)
			r.now = r.now.Add(time.Minute)
			r.Measured(eviction.Conditions{})
		},
		"I32": func(r *rig) {
			r.device("app", "a", made, started)
			r.device("proxy", "a", made, started)
		},
		"I33": func(r *rig) { r.asked(csi.PublishVolume) },
		"I34": func(r *rig) {
			r.drives(csi.StageVolume, csi.PublishVolume)
			r.asked(csi.UnstageVolume)
		},
		"I35": func(r *rig) { r.asked(csi.UnpublishVolume) },
		"I36": func(r *rig) {
			r.drives(csi.StageVolume, csi.PublishVolume)
			r.container("app", 0, ended)
			r.container("proxy", 0, ended)
			r.Done(machine.Call{Verb: "UnmountPod", Pod: "u1"})
		},
		"I37": func(r *rig) {
			r.Attaches("d")
			r.asked(csi.StageVolume)
		},
		"I38": func(r *rig) {
			r.drives(csi.StageVolume)
			p := r.spec()
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{MountPath: "/v"}}
			r.tell(p)
			r.call(simcri.CreateContainer, "s0")
		},
		"I39": func(r *rig) {
			r.Entitles(func(p *v1.Pod, image string) bool { return p.UID == r.ref.UID && image != "private" })
			r.Changed(simcri.Transition{Kind: made, Pod: r.ref, ID: "other", Sandbox: "s0", Container: "init", Attempt: 5, Image: "private"})
		},
		"I41": func(r *rig) {
			r.container("app", 0, ended)
			r.container("proxy", 0, ended)
			r.Began()
			p := r.spec()
			p.Status.Phase, p.Status.Reason = v1.PodFailed, "OutOfcpu"
			r.Shown(p, false)
		},
		"I42": func(r *rig) {
			p := r.spec()
			p.Spec.InitContainers = nil
			r.ref = observed.PodRef{Namespace: "default", Name: "static", UID: "static"}
			p.Name, p.UID, p.Annotations = "static", "static", map[string]string{podspec.AnnotationSource: "file"}
			r.Told(podspec.File, []*v1.Pod{p})
			r.sandbox("s1", 0, made, started)
			r.container("app", 0, made, started)
			r.Began()
			r.Told(podspec.File, nil)
			r.reported(podspec.File)
			r.now = r.now.Add(recovery + time.Minute)
			r.call(simcri.StopContainer, "staticapp0")
			r.end("app", 0, ended, 143, simcri.BySignal)
		},
		"I40": func(r *rig) {
			p := r.spec()
			p.Spec.TerminationGracePeriodSeconds = new(int64(0))
			r.tell(p)
			r.Called(r.stop("app", 0), simcri.Fault{})
		},
		"I43": func(r *rig) {
			r.end("app", 0, ended, 3, simcri.FromOutside)
			p := r.spec()
			p.Status.Phase = v1.PodRunning
			p.Status.ContainerStatuses = []v1.ContainerStatus{{
				Name: "app", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3}},
			}}
			r.Shown(p, false)
			r.container("app", 0, removed)
			r.container("app", 1, made)
		},
	}
	for _, rule := range Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			live := lives[rule.ID]
			if live == nil {
				t.Fatal("no life breaks it")
			}
			r := newRig().up()
			r.Timely()
			if live(r); len(r.found) != 1 || r.found[0].ID != rule.ID {
				t.Errorf("found %v", r.found)
			}
		})
	}
}

// device is what happens to a container with a device, of a pod that has nothing to do with the rig's.
func (r *rig) device(container, id string, kinds ...observed.EventKind) {
	ref := observed.PodRef{Namespace: "default", Name: container, UID: types.UID(container)}
	spec := r.spec()
	spec.Namespace, spec.Name, spec.UID = ref.Namespace, ref.Name, ref.UID
	spec.Spec.InitContainers, spec.Spec.Containers = nil, []v1.Container{{Name: container}}
	for _, k := range kinds {
		if k == made {
			r.tell(spec)
			r.Changed(simcri.Transition{Kind: made, Pod: ref, ID: container, Sandbox: container})
			r.Changed(simcri.Transition{Kind: started, Pod: ref, ID: container, Sandbox: container})
		}
		r.Changed(simcri.Transition{
			Kind: k, Pod: ref, ID: container + id, Sandbox: container, Container: container,
			Devices: &devices.Given{PreStart: []devices.PreStart{{Resource: "example.com/gpu", IDs: []string{id}}}},
		})
	}
}

// TestDevices: a device may go to another container when the first has ended, and not before; and a container keeps its
// own for as long as its pod is here.
func TestDevices(t *testing.T) {
	change := func(kind observed.EventKind, pod, id string, ids ...string) *simcri.Transition {
		c := &simcri.Transition{Kind: kind, Pod: observed.PodRef{UID: types.UID(pod)}, ID: id, Container: "app"}
		if len(ids) > 0 {
			c.Devices = &devices.Given{PreStart: []devices.PreStart{{Resource: "example.com/gpu", IDs: ids}}}
		}
		return c
	}
	var d Devices
	for i, step := range []struct {
		*simcri.Transition
		wrong string
	}{
		{change(made, "p", "p1", "a", "b"), ""},
		{change(started, "p", "p1", "a", "b"), ""},
		{change(made, "q", "q1", "b"), ""},
		{change(started, "q", "q1", "b"), "container app starts with example.com/gpu/b, which container p1 has"},
		{change(ended, "q", "q1", "b"), ""},
		{change(made, "p", "p2", "a"), "container app is made again with the devices [example.com/gpu/a], and had [example.com/gpu/a example.com/gpu/b]"},
		{change(made, "p", "p3"), "container app is made again with the devices [], and had [example.com/gpu/a]"},
		{change(ended, "p", "p1", "a", "b"), ""},
		{change(started, "q", "q1", "b"), ""},
	} {
		check.Equal(t, d.Wrong(step.Transition), step.wrong, "step %d: got", i)
		d.Changed(step.Transition)
	}
	d.forget("p", "app")
	check.Equal(t, d.Wrong(change(made, "p", "p4", "c")), "", "after it was forgotten")
	d.Changed(change(made, "r", "r1", "a"))
	d.Changed(change(started, "r", "r1", "a"))
	d.Lost()
	for _, step := range []*simcri.Transition{
		change(made, "s", "s1", "a"), change(started, "s", "s1", "a"), change(made, "r", "r2", "b"),
	} {
		check.Equal(t, d.Wrong(step), "", "after the checkpoint was lost")
		d.Changed(step)
	}
	if got := d.Wrong(change(made, "r", "r3", "c")); got == "" {
		t.Error("what was given after the checkpoint was lost does not count")
	}
}

// TestSettledEnd: a pod that has ended keeps no ready sandbox.
func TestSettledEnd(t *testing.T) {
	r := newRig().up()
	r.container("app", 0, ended)
	r.container("proxy", 0, ended)
	r.show(v1.PodSucceeded)
	if r.Settled(); len(r.found) != 1 || r.found[0].ID != "I11" {
		t.Errorf("found %v", r.found)
	}
}

// TestAgentThatBegins: what runs is no violation for an agent that was told nothing yet,
// and nothing is begun before it was.
func TestAgentThatBegins(t *testing.T) {
	r := newRig().up()
	r.Began()
	r.now = r.now.Add(time.Minute)
	if r.call(simcri.CreateContainer, ""); len(r.found) != 1 || r.found[0].ID != "I08" {
		t.Errorf("found %v", r.found)
	}
	r.tell(r.spec())
	if r.call(simcri.CreateContainer, ""); len(r.found) != 1 {
		t.Errorf("found %v", r.found)
	}
}

// TestCrashWhileListsHang: nothing is held against an agent that has lost what it knew of pods and gets no list of the
// runtime, but for half a minute alone.
func TestCrashWhileListsHang(t *testing.T) {
	for name, c := range map[string]struct {
		crashed, hangs bool
		after          time.Duration
		want           int
	}{
		"a crash":                {true, false, time.Second, 1},
		"a list that hangs":      {false, true, time.Second, 1},
		"both":                   {true, true, time.Second, 0},
		"both, and a minute ago": {true, true, time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig().up()
			if c.crashed {
				r.Crashed(0)
			}
			if c.hangs {
				r.Called(simcri.Call{Method: simcri.List}, simcri.Fault{Hang: true})
			}
			r.tell()
			r.now = r.now.Add(c.after)
			r.call(simcri.CreateContainer, "")
			check.Equal(t, len(r.found), c.want, "violations: %v", r.found)
		})
	}
}

// TestStartUnderWay: an agent that is killed while it starts a container, or whose actor crashes then, may not know that
// it has started.
func TestStartUnderWay(t *testing.T) {
	for name, lost := range map[string]func(*rig){
		"nothing": func(*rig) {}, "a crash": func(r *rig) { r.Crashed(0) }, "another agent": func(r *rig) { r.Began() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig()
			r.tell(r.spec())
			r.sandbox("s0", 0, made, started)
			r.container("app", 0, made)
			r.call(simcri.StartContainer, "u1app0")
			r.now = r.now.Add(time.Second)
			lost(r)
			r.container("app", 0, started)
			r.end("app", 0, ended, 137, simcri.WithSandbox)
			found := slices.ContainsFunc(r.found, func(v Violation) bool { return v.ID == "I06" })
			check.Equal(t, found, name == "nothing", "violations: %v", r.found)
		})
	}
}

// TestNumbersBeginAnew: of a pod that was dropped and of which nothing is left the numbers
// may be used again.
func TestNumbersBeginAnew(t *testing.T) {
	r := newRig().up()
	r.tell()
	for _, name := range []string{"app", "proxy"} {
		r.call(simcri.StopContainer, fmt.Sprint(r.ref.UID, name, 0))
		r.end(name, 0, ended, 137, simcri.ByKill)
	}
	for _, name := range []string{"init", "proxy", "app"} {
		r.container(name, 0, removed)
	}
	r.sandbox("s0", 0, ended, removed)
	if r.up(); len(r.found) > 0 {
		t.Errorf("found %v", r.found)
	}
}

// TestNameOfAPodThatResists: another pod of its name may run beside one that the runtime has failed to stop for long.
func TestNameOfAPodThatResists(t *testing.T) {
	for name, c := range map[string]struct {
		asked bool
		after time.Duration
		wrong int
	}{
		"for long": {true, 5 * time.Minute, 0}, "not yet": {true, time.Minute, 1}, "it was not asked to": {false, 5 * time.Minute, 1},
	} {
		r := newRig().up()
		r.tell()
		for _, of := range []string{"app", "proxy"} {
			if c.asked {
				r.call(simcri.StopContainer, fmt.Sprint(r.ref.UID, of, 0))
			}
		}
		r.now = r.now.Add(c.after)
		spec := r.spec()
		r.ref.UID, spec.UID = "u2", "u2"
		r.tell(spec)
		r.sandbox("s9", 0, made, started)
		r.container("init", 0, made, started)
		found := slices.DeleteFunc(r.found, func(v Violation) bool { return v.ID != "I03" })
		check.Count(t, len(found), c.wrong, name+": %d violations")
	}
}

// TestCgroups: the cgroups of a settled node are those of its running pods.
func TestCgroups(t *testing.T) {
	pods := []observed.RuntimePod{{
		Ref: observed.PodRef{Name: "web", UID: "1"},
		Pod: observed.Pod{Sandboxes: []observed.Sandbox{{State: observed.SandboxReady}}},
	}}
	for _, c := range []struct {
		owners []types.UID
		want   string
	}{
		{[]types.UID{"1"}, ""}, {nil, "pod 1 runs without a cgroup"},
		{[]types.UID{"1", "2"}, "a cgroup is left of pod 2 that does not run"},
	} {
		check.Equal(t, Cgroups(pods, c.owners), c.want, "with cgroups of %v", c.owners)
	}
}

// TestDocument: docs/invariants.md has each rule as it is.
func TestDocument(t *testing.T) {
	doc := check.Value(os.ReadFile("../../docs/invariants.md"))(t)
	for _, r := range Rules() {
		if row := fmt.Sprintf("| %s | %s | %s |", r.ID, r.Text, r.Excuses); !strings.Contains(string(doc), row) {
			t.Errorf("docs/invariants.md lacks the row\n%s", row)
		}
	}
	lines := strings.Split(string(doc), "\n")
	for i, line := range lines {
		above := lines[max(i-1, 0)]
		if strings.HasPrefix(line, "|---") && !strings.HasPrefix(above, "| number |") {
			t.Errorf("docs/invariants.md: line %d is below %q, not below the header of its table", i+1, above)
		}
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| number |") && !strings.HasPrefix(above, "|") {
			t.Errorf("docs/invariants.md: line %d is a row without a table: %.40s", i+1, line)
		}
		if strings.HasPrefix(line, "| number |") && (i+1 == len(lines) || !strings.HasPrefix(lines[i+1], "|---")) {
			t.Errorf("docs/invariants.md: line %d is a header without a table", i+1)
		}
	}
}
