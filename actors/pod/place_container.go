package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.PlaceContainer) effect { return placeContainer{PlaceContainer: a} })

type placeContainer struct {
	podplan.PlaceContainer
	quiet
	unreported
}

func (placeContainer) kind() string { return "UpdateContainerResources" }

func (a placeContainer) begin(p *pod) run {
	spec, _ := podspec.Find(&p.want.Spec, a.Name)
	rt, u := p.deps.Runtime, port.UpdateContainer{ID: a.ID, Pod: p.want, Container: spec, Placement: &a.To}
	return run{deadline: startDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		rt.UpdateContainer(ctx, u, onlyErr(done))
	}}
}
