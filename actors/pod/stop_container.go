package pod

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/shutdown"
	"github.com/troupe-dev/troupe/actors/kernel"
)

var _ = performs(func(a podplan.StopContainer) effect { return stopContainer{StopContainer: a} })

type stopContainer struct {
	podplan.StopContainer
	quiet
}

func (stopContainer) kind() string { return "StopContainer" }

func (a stopContainer) begin(p *pod) run {
	rt := p.deps.Runtime
	r := run{
		deadline: a.Grace + stopSlack, patience: a.Grace + stopPatience, maxQueue: stopQueue, idles: true,
		call: func(ctx context.Context, done func(ActionDone)) {
			rt.StopContainer(ctx, a.ID, a.Grace, onlyErr(done))
		},
	}
	if p.stop != nil && p.stop.Grace > 0 && !shutdown.Is(p.stop) {
		r.pool = TeardownPool // of pods that end with the machine, nobody waits for the first (decision 0003)
	}
	return r
}

func (a stopContainer) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.notKilled(ctx, "KillContainer", a.Name, f)
}

// notKilled says that something of the pod could not be stopped, in the words of a kubelet, which programs match.
func (p *pod) notKilled(ctx *kernel.Context[Message], action, target string, f failed) {
	p.event(ctx, "", true, "FailedKillPod",
		fmt.Sprintf("error killing pod: failed to %q for %q with %sError: %q", action, target, action, f.detail))
}
