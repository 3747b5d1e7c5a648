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
	switch o.Verb {
	case plan.Create, plan.Write:
		r.make(o)
	case plan.Delete, plan.Force, plan.Remove:
		r.remove(o)
	case plan.Image:
		r.image(o)
	case plan.Exit:
		code, _ := strconv.ParseInt(o.Arg("code"), 10, 32)
		r.exit(o.Role, simcri.Exit{Code: int32(code)})
	case plan.OOM:
		r.exit(o.Role, simcri.Exit{OOMKilled: true})
	case plan.EndSandbox:
		if id := r.readySandbox(o.Role.Pod); id != "" {
			_ = r.node.Runtime().EndSandbox(id)
		}
	case plan.Restart:
		r.restart(max(wait, restartDelay))
	case plan.DownRuntime:
		r.down(max(wait, runtimeDelay))
	case plan.Power:
		r.node.PowerOff()
		r.v.AfterFunc(max(wait, runtimeDelay), r.node.PowerOn)
	case plan.CutOff:
		r.world.API().SetLink(nodeName, simapi.Silent)
		r.v.AfterFunc(wait, func() { r.world.API().SetLink(nodeName, simapi.Up) })
	case plan.LoseTask:
		if id := r.runningID(o.Role); id != "" {
			_ = r.node.Runtime().LoseTask(id)
		}
	case plan.Vanish:
		if id := r.runningID(o.Role); id != "" {
			r.rules.Outsider(r.cast(o.Role.Pod).inRuntime)
			_ = r.node.Runtime().Vanish(id)
		}
	case plan.StepClock:
		by, _ := time.ParseDuration(o.Arg("by"))
		r.node.StepClock(by)
	case plan.Pause:
		r.rules.Stands(wait)
		r.node.PauseAgent(wait)
	case plan.Suspend:
		r.rules.Stands(wait)
		r.node.Suspend(wait)
	case plan.Expire:
		r.world.API().Expire()
		r.world.API().CloseWatches(nodeName)
	}
	r.dirty = true
}

func (r *runner) restart(after time.Duration) {
	r.node.KillAgent()
	r.v.AfterFunc(after, r.node.StartAgent)
}

func (r *runner) down(d time.Duration) {
	r.node.Runtime().Kill()
	r.v.AfterFunc(d, r.node.Runtime().Restart)
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
		s.Pod.Spec.NodeName = nodeName
		if _, err := r.world.API().Create(s.Pod); err != nil {
			return // there is one of the name, which is to go first
		}
	} else {
		data, err := json.Marshal(s.Pod)
		if err != nil {
			panic(err)
		}
		r.node.WriteManifest(name+".yaml", data)
	}
	r.want(name, s.Pod, r.v.Now())
}

func (r *runner) remove(o *plan.Op) {
	name := o.Role.Pod
	r.unwant(name)
	var grace *int64
	switch o.Verb {
	case plan.Remove:
		r.node.WriteManifest(name+".yaml", nil)
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
	found, err := r.world.API().Get(podKey(o.Role.Pod))
	if err != nil {
		return
	}
	from := found.(*v1.Pod)
	to := from.DeepCopy()
	for _, list := range [][]v1.Container{to.Spec.Containers, to.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == o.Role.Container {
				list[i].Image = o.Arg("to")
			}
		}
	}
	_, _ = r.world.API().Update(to)
}

// exit ends the running incarnation of a container.
func (r *runner) exit(role plan.Role, e simcri.Exit) {
	if id := r.runningID(role); id != "" {
		_ = r.node.Runtime().EndContainer(id, e)
	}
}
