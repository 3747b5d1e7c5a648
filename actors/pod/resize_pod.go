package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.ResizePod) effect { return resizePod{ResizePod: a} })

type resizePod struct {
	podplan.ResizePod
	quiet
	unreported
}

func (resizePod) kind() string { return "SetPodCgroup" }

// begin sets new limits of the pod's cgroup, if the runtime agrees. Only this actor changes the
// limits of a running pod's cgroup.
func (a resizePod) begin(p *pod) run {
	rt, cgroups, limits, pod := p.deps.Runtime, p.deps.Cgroups, p.deps.Limits, p.want
	return run{deadline: startDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		name, err := limits.Pod(pod)
		if err != nil {
			done(ActionDone{
				Err: &port.Error{Kind: port.InvalidConfig, Verb: "SetPodCgroup", Object: pod.Name, Detail: err.Error()},
			})
			return
		}
		rt.UpdateSandbox(ctx, port.UpdateSandbox{ID: a.SandboxID, Pod: pod, To: a.To}, func(err error) {
			if err != nil && port.KindOf(err) != port.Unsupported {
				done(ActionDone{Err: err})
				return
			}
			cgroups.Set(ctx, name, limits.Resized(pod, a.To), onlyErr(done))
		})
	}}
}
