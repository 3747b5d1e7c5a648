package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

var _ = performs(func(a podplan.InspectMade) effect { return inspectMade{InspectMade: a} })

type inspectMade struct {
	podplan.InspectMade
	quiet
}

func (inspectMade) kind() string { return "ContainerStatus" }

func (a inspectMade) begin(p *pod) run {
	rt := p.deps.Runtime
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		rt.ContainerStatus(ctx, a.ID, func(c observed.Container, err error) {
			done(ActionDone{Result: podplan.Result{Container: &c}, Err: err})
		})
	}}
}

func (a inspectMade) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.unseen(ctx, a.kind(), a.Name, f)
}
