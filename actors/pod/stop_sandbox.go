package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

var _ = performs(func(a podplan.StopSandbox) effect { return stopSandbox{StopSandbox: a} })

type stopSandbox struct {
	podplan.StopSandbox
	quiet
}

func (stopSandbox) kind() string { return "StopPodSandbox" }

func (a stopSandbox) begin(p *pod) run {
	rt := p.deps.Runtime
	return run{deadline: sandboxDeadline, pool: TeardownPool, call: func(ctx context.Context, done func(ActionDone)) {
		rt.StopPodSandbox(ctx, a.ID, onlyErr(done))
	}}
}

func (stopSandbox) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.notKilled(ctx, "KillPodSandbox", string(p.uid), f)
}
