package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.ResizeContainer) effect { return resizeContainer{ResizeContainer: a} })

type resizeContainer struct {
	podplan.ResizeContainer
	quiet
	unreported
}

func (resizeContainer) kind() string { return "UpdateContainerResources" }

func (a resizeContainer) begin(p *pod) run {
	spec, _ := podspec.Find(&p.want.Spec, a.Name)
	rt, u := p.deps.Runtime, port.UpdateContainer{ID: a.ID, Pod: p.want, Container: spec, To: a.To}
	return run{deadline: startDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		rt.UpdateContainer(ctx, u, onlyErr(done))
	}}
}
