package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.RunSandbox) effect { return runSandbox{RunSandbox: a} })

type runSandbox struct {
	podplan.RunSandbox
	quiet
}

func (runSandbox) kind() string { return "RunPodSandbox" }

func (a runSandbox) begin(p *pod) run {
	handler, err := p.objects.RuntimeHandler(p.want)
	if err != nil {
		e := unable(&port.Error{Kind: port.InvalidConfig, Verb: "RunPodSandbox", Object: p.name(), Detail: err.Error()})
		e.deadline, e.pool = sandboxDeadline, StartPool
		return e
	}
	rt, r := p.deps.Runtime, port.RunPodSandbox{
		Pod: p.want, Attempt: a.Attempt, RuntimeHandler: handler, Groups: p.objects.Groups(p.want),
	}
	return run{deadline: sandboxDeadline, pool: StartPool, call: func(ctx context.Context, done func(ActionDone)) {
		rt.RunPodSandbox(ctx, r, newID(done))
	}}
}

func (runSandbox) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	if p.stop != nil { // it needs none any more, and its end may be why (kuberuntime_manager.go SyncPod)
		p.logFailure(ctx, "RunPodSandbox", "", f)
		return
	}
	if f.kind == port.NetworkNotReady {
		p.event(ctx, "", true, "NetworkNotReady", "network is not ready: container runtime network not ready: "+f.detail)
		return
	}
	p.event(ctx, "", true, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+f.detail)
}
