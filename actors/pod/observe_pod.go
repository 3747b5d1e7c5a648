package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
)

var _ = performs(func(a podplan.ObservePod) effect { return observePod{} })

type observePod struct{ quiet }

func (observePod) kind() string { return "List" }

func (observePod) begin(p *pod) run {
	rt, uid := p.deps.Runtime, p.uid
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		rt.List(ctx, string(uid), func(l observed.Runtime, err error) {
			d := ActionDone{Err: err}
			for i := range l.Pods {
				if l.Pods[i].Ref.UID == uid {
					d.View = l.Pods[i].Pod
				}
			}
			done(d)
		})
	}}
}

func (e observePod) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.logFailure(ctx, e.kind(), p.name(), f)
}
