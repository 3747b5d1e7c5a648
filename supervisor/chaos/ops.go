package chaos

import (
	"encoding/json"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// do does one operation. What can't be done just now (a container that does not run can't
// end) is not done.
func (r *runner) do(o *plan.Op) {
	wait, _ := time.ParseDuration(o.Arg("for"))
	m := r.on(o.Node)
	switch o.Verb {
	case plan.Create, plan.Write:
		r.make(o)
	case plan.Delete, plan.Force, plan.Remove:
		r.remove(o)
	case plan.Image:
		r.image(o)
	case plan.Deploy:
		r.deploy(o)
	case plan.Replicas:
		r.scale(o)
	case plan.Exit, plan.OOM, plan.EndSandbox, plan.LoseTask, plan.Vanish:
		r.breakPod(o)
	case plan.Use, plan.Unused:
		r.press(m, o)
	case plan.CutOff:
		r.link(m, simapi.Silent, wait)
	case plan.NoAnswers:
		r.link(m, simapi.NoAnswers, wait)
	case plan.NoWatches:
		r.link(m, simapi.NoWatches, wait)
	case plan.Expire:
		r.world.API().Expire()
		for _, name := range r.nodes {
			r.world.API().CloseWatches(name)
		}
	case plan.Grow:
		r.expand(o)
	case plan.Backup:
		r.takeBackup()
	case plan.Restore:
		r.restore()
	default:
		r.doNode(m, o, wait)
	}
	r.dirty = true
}

// doNode does an operation on a machine.
func (r *runner) doNode(m *caseNode, o *plan.Op, wait time.Duration) {
	if m.lost {
		return
	}
	switch o.Verb {
	case plan.Restart:
		r.restart(m, max(wait, restartDelay))
	case plan.DownRuntime:
		r.down(m, max(wait, runtimeDelay))
	case plan.Power:
		r.powerCycle(m, max(wait, runtimeDelay))
	case plan.LoseNode:
		r.lose(m, wait)
	case plan.Drain, plan.Uncordon:
		r.drain(m, o.Verb == plan.Drain)
	case plan.StepClock:
		by, _ := time.ParseDuration(o.Arg("by"))
		m.rules.ClockSet()
		m.StepClock(by)
	case plan.Pause:
		m.rules.Stands(wait)
		m.PauseAgent(wait)
	case plan.StopPlugin, plan.BreakGPUs:
		m.rules.Troubled("", wait)
		r.unplug(m, o, wait)
	case plan.StopDriver, plan.CrashDriver:
		m.rules.Troubled("", wait)
		r.breakDriver(m, o, wait)
	case plan.Suspend:
		m.rules.Slept(wait)
		m.Suspend(wait)
	default:
	}
}

// breakPod breaks something of a pod: the first of a workload that has it.
func (r *runner) breakPod(o *plan.Op) {
	if o.Verb == plan.EndSandbox {
		r.inRuntime(r.readySandbox(o.Role.Pod), (*simcri.Runtime).EndSandbox)
		return
	}
	id := r.runningID(o.Role)
	switch o.Verb {
	case plan.Exit:
		code, _ := strconv.ParseInt(o.Arg("code"), 10, 32)
		r.exit(id, simcri.Exit{Code: int32(code)})
	case plan.OOM:
		r.exit(id, simcri.Exit{OOMKilled: true})
	case plan.LoseTask:
		r.inRuntime(id, (*simcri.Runtime).LoseTask)
	case plan.Vanish:
		if id = r.ranID(o.Role); id == "" {
			return
		}
		for _, m := range r.caseNodes {
			m.rules.Outsider(id)
		}
		r.inRuntime(id, (*simcri.Runtime).Vanish)
	default:
	}
}

// inRuntime does something to what has the ID, in the runtime that has it.
func (r *runner) inRuntime(id string, do func(*simcri.Runtime, string) error) {
	for _, m := range r.caseNodes {
		if id != "" && do(m.Runtime(), id) == nil {
			return
		}
	}
}

// exit ends a running container.
func (r *runner) exit(id string, e simcri.Exit) {
	r.inRuntime(id, func(rt *simcri.Runtime, id string) error { return rt.EndContainer(id, e) })
}

// link breaks a machine's link to the apiserver in some way for a time.
func (r *runner) link(m *caseNode, l simapi.Link, wait time.Duration) {
	if m.lost {
		return
	}
	m.rules.CutOff(wait)
	r.world.API().SetLink(m.Name(), l)
	r.v.AfterFunc(wait, func() {
		if m.On() {
			r.world.API().SetLink(m.Name(), simapi.Up)
		}
	})
}

func (r *runner) restart(m *caseNode, after time.Duration) {
	m.KillAgent()
	r.v.AfterFunc(after, m.StartAgent)
}

func (r *runner) down(m *caseNode, d time.Duration) {
	m.rules.Troubled("", d)
	m.Runtime().Kill()
	r.v.AfterFunc(d, m.Runtime().Restart)
}

func (r *runner) powerCycle(m *caseNode, d time.Duration) {
	m.PowerOff()
	m.rules.LostPower()
	r.v.AfterFunc(d, m.PowerOn)
}

func podKey(name string) port.APIKey {
	return port.APIKey{Kind: port.PodKind, Namespace: "default", Name: name}
}

func (r *runner) make(o *plan.Op) {
	s, err := plan.ShapeOf(o)
	if err != nil {
		panic(err) // the case was validated
	}
	name := o.Role.Pod
	if o.Verb == plan.Create {
		if !r.cluster {
			s.Pod.Spec.NodeName = r.nodes[0]
		}
		r.provide(&s.Pod.Spec)
		if _, err := r.world.API().Create(s.Pod); err != nil {
			return // there is one of the name, which is to go first
		}
	} else {
		data, err := json.Marshal(s.Pod)
		if err != nil {
			panic(err)
		}
		r.caseNodes[0].WriteManifest(name+".yaml", data)
	}
	r.want(name, s.Pod, o.Verb == plan.Write, r.v.Now())
}

func (r *runner) remove(o *plan.Op) {
	name := o.Role.Pod
	if w := r.workloads[name]; w != nil {
		r.removeWorkload(w)
		return
	}
	r.unwant(name)
	var grace *int64
	switch o.Verb {
	case plan.Remove:
		r.caseNodes[0].WriteManifest(name+".yaml", nil)
		return
	case plan.Force:
		grace = new(int64)
	default:
		if g, err := strconv.ParseInt(o.Arg("grace"), 10, 64); err == nil {
			grace = &g
		}
	}
	_ = r.world.API().Delete(port.APIDelete{Key: podKey(name), Grace: grace}) // it may be gone
}

func (r *runner) image(o *plan.Op) {
	container, image := o.Role.Container, o.Arg("to")
	if w := r.workloads[o.Role.Pod]; w != nil {
		r.update(w, container, image)
		return
	}
	found, err := r.world.API().Get(podKey(o.Role.Pod))
	if err != nil {
		return
	}
	to := found.(*v1.Pod).DeepCopy()
	setImage(to, container, image)
	_, _ = r.world.API().Update(to)
}

func setImage(p *v1.Pod, container, image string) {
	for _, list := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == container {
				list[i].Image = image
			}
		}
	}
}
