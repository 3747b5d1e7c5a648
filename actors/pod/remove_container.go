package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.RemoveContainer) effect { return removeContainer{RemoveContainer: a} })

type removeContainer struct {
	podplan.RemoveContainer
	quiet
}

func (removeContainer) kind() string { return "RemoveContainer" }

// begin removes the container, and then its log's link.
func (a removeContainer) begin(p *pod) run {
	call := p.deps.Runtime.RemoveContainer
	if c := p.facts.Container(a.ID); c != nil {
		call = RemoveLinked(call, p.deps.LogLinks, port.LinkedLogOf(p.ref(), c))
	}
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		call(ctx, a.ID, onlyErr(done))
	}}
}

func (a removeContainer) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.logFailure(ctx, a.kind(), a.Name, f)
}

// RemoveLinked removes a container and then the link of its log, if there are links. A link that
// stays dangles once the log is gone, and gc removes it.
func RemoveLinked(
	call func(context.Context, string, func(error)), links port.LogLinks, log port.LinkedLog,
) func(context.Context, string, func(error)) {
	if links == nil {
		return call
	}
	return func(ctx context.Context, id string, done func(error)) {
		call(ctx, id, func(err error) {
			if err != nil {
				done(err)
				return
			}
			links.UnlinkLog(ctx, log, func(error) { done(nil) })
		})
	}
}
