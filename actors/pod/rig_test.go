package pod_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/imagepull"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/tests/actortest"
)

// rig is one pod's actor on a simulated runtime and a virtual clock. The rig
// plays pods, images and volumes: all that is asked is there at once.
type rig struct {
	*actortest.Rig
	rt     *simcri.Runtime
	runner *kernel.Runner
	actor  *actortest.Actor[pod.Message]
	assign pod.Assign
	// scripts are by container name.
	scripts map[string]*simcri.Script
	// statusLate is how long the answer of a ContainerStatus is on its way.
	statusLate time.Duration
	listLate   time.Duration
	hints      bool
	status     v1.PodStatus
	finished   bool
	// forgets is how often images was told to forget the pod.
	forgets int
	inPlace []uint64
	events  []port.Event
	probed  pod.ProbeContainers
	links   links
	// report and watch, if set, are told what pods and probes are.
	report func(pod.Report)
	watch  func(pod.ProbeContainers)
	// mount, if set, is asked for volumes.
	mount func(pod.MountVolumes)
	// fault is what goes wrong with a call of the runtime; nil is nothing.
	fault func(simcri.Call) simcri.Fault
	// refuse is what the runtime answers when it is to start a container.
	refuse error
}

func newRig(t *testing.T, p *v1.Pod, scripts map[string]*simcri.Script) *rig {
	t.Helper()
	r := &rig{Rig: actortest.New(t), scripts: scripts, hints: true}
	r.links = links{r: r, made: map[string]bool{}}
	var err error
	r.rt, err = simcri.New(simcri.Config{
		Clock: r.Virtual,
		Fault: func(c simcri.Call) simcri.Fault {
			if r.fault == nil {
				return simcri.Fault{}
			}
			return r.fault(c)
		},
		Rand:   func(string) *rand.Rand { return rand.New(rand.NewPCG(1, 1)) },
		Script: func(s simcri.Starting) *simcri.Script { return r.scripts[s.Container.Name] },
	})
	r.Must(err)
	r.rt.MakeImagePresent("img", simcri.RegistryImage{})
	r.runner = r.Runner(pod.Pools(4, 2)...)
	r.assign = pod.Assign{Pod: p, View: &observed.Pod{}}
	r.actor = actortest.Spawn(r.Rig, kernel.Spec[pod.Message]{
		Name: "pod", Policy: kernel.ForPods, Runner: r.runner, New: pod.New(p.UID, r.deps()),
	})
	r.actor.Tell(r.assign)
	r.assign.View = nil
	r.rt.Events(context.Background(), func() {}, func(e port.RuntimeEvent) {
		if r.hints {
			r.actor.Tell(pod.RuntimeHint{ID: e.ContainerID, Kind: e.Kind})
		}
	}, func(error) {})
	return r
}

func (r *rig) deps() *pod.Deps {
	return &pod.Deps{
		Runtime: &lateRuntime{r.rt, r}, Network: r.rt.Network(), Events: r, LogLinks: &r.links,
		EnsureImage: func(m pod.EnsureImage) {
			m.ReplyTo.Tell(pod.ImageAnswer{Container: m.Ask.Container, Image: imagepull.Status{
				State: imagepull.Ready, Attempt: m.Ask.Attempt, Image: m.Ask.Image, Ahead: m.Ask.Ahead, Ref: m.Ask.Image,
			}})
		},
		ForgetImages: func(types.UID) { r.forgets++ },
		Mount: func(m pod.MountVolumes) {
			if r.mount != nil {
				r.mount(m)
				return
			}
			m.ReplyTo.Tell(pod.VolumesAnswer{Volumes: volumeplan.Volumes{State: volumeplan.Up}})
		},
		Unmount: func(m pod.UnmountVolumes) {
			m.ReplyTo.Tell(pod.VolumesAnswer{Volumes: volumeplan.Volumes{Unmounted: true}})
		},
		Probe: func(m pod.ProbeContainers) {
			r.probed = m
			if r.watch != nil {
				r.watch(m)
			}
		},
		Ask: func(pod.Ask) {
			r.actor.Tell(r.assign)
			r.assign.View = nil
		},
		Report: func(m pod.Report) {
			r.status = *m.Status
			if r.report != nil {
				r.report(m)
			}
		},
		Finished:    func(pod.Finished) { r.finished = true },
		InPlace:     func(m pod.InPlace) { r.inPlace = append(r.inPlace, m.Number) },
		CrashPolicy: backoff.Policy{Base: 10 * time.Second, Max: 5 * time.Minute, Reset: 10 * time.Minute},
		RetryPolicy: backoff.Policy{Base: time.Second, Max: time.Minute},
	}
}

// Record implements port.Recorder.
func (r *rig) Record(e port.Event) { r.events = append(r.events, e) }

// stop is what a delete does.
func (r *rig) stop(grace time.Duration) {
	r.assign.Stop = &podlife.Stop{At: r.Now(), Grace: grace}
	r.actor.Tell(r.assign)
}

// until runs until cond holds, within d.
func (r *rig) until(d time.Duration, what string, cond func() bool) {
	r.T.Helper()
	if !r.RunUntil(r.Now().Add(d), cond) {
		for _, e := range r.events {
			r.T.Logf("%v %s %s: %s", e.At.Sub(actortest.Begin), e.Reason, e.Container, e.Message)
		}
		for _, e := range r.runner.InFlight(r.actor.Path()) {
			r.T.Logf("under way: %s %s %s", e.Kind, e.Object, e.Phase)
		}
		r.T.Fatalf("at %v: not %s within %v", r.Since(), what, d)
	}
}

func (r *rig) in(name string, state observed.ContainerState, attempt uint32) func() bool {
	return func() bool {
		c, ok := r.rt.Find("u1", name)
		return ok && c.State == state && c.Attempt == attempt
	}
}

// lateRuntime answers some calls late: what they say is old by then.
type lateRuntime struct {
	port.Runtime
	r *rig
}

func (l *lateRuntime) ContainerStatus(ctx context.Context, id string, done func(observed.Container, error)) {
	l.Runtime.ContainerStatus(ctx, id, func(c observed.Container, err error) {
		l.r.AfterFunc(l.r.statusLate, func() { done(c, err) })
	})
}

func (l *lateRuntime) StartContainer(ctx context.Context, id string, done func(error)) {
	if err := l.r.refuse; err != nil {
		l.r.Soon(func() { done(err) })
		return
	}
	l.Runtime.StartContainer(ctx, id, done)
}

func (l *lateRuntime) List(ctx context.Context, uid string, done func(observed.Runtime, error)) {
	l.Runtime.List(ctx, uid, func(v observed.Runtime, err error) {
		l.r.AfterFunc(l.r.listLate, func() { done(v, err) })
	})
}

// onePod is a pod of these main containers.
func onePod(names ...string) *v1.Pod {
	grace := int64(30)
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1", Namespace: "default", Name: "web"}}
	p.Spec.RestartPolicy, p.Spec.TerminationGracePeriodSeconds = v1.RestartPolicyAlways, &grace
	for _, name := range names {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Image: "img", ImagePullPolicy: v1.PullIfNotPresent})
	}
	return p
}

func sleep(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

func (r *rig) reasons() (out []string) {
	for _, e := range r.events {
		out = append(out, fmt.Sprint(e.Reason, " ", e.Container))
	}
	return out
}
