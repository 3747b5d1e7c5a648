package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

var _ = performs(func(a podplan.StartContainer) effect { return startContainer{a} })

type startContainer struct{ podplan.StartContainer }

func (startContainer) kind() string { return "StartContainer" }

// begin makes the log's link and then starts the container, so that a collector that watches for
// links misses no line. A failed link does not stop the container: gc reports that once for all
// and retries (port.LogLinks.TidyLogLinks).
func (a startContainer) begin(p *pod) run {
	rt, links := p.deps.Runtime, p.deps.LogLinks
	r := run{deadline: startDeadline, pool: StartPool, call: func(ctx context.Context, done func(ActionDone)) {
		rt.StartContainer(ctx, a.ID, onlyErr(done))
	}}
	c := p.facts.Container(a.ID)
	if links == nil || c == nil {
		return r
	}
	log, call := port.LinkedLogOf(p.ref(), c), r.call
	r.call = func(ctx context.Context, done func(ActionDone)) {
		links.LinkLog(ctx, log, func(error) { call(ctx, done) })
	}
	return r
}

func (a startContainer) succeeded(p *pod, ctx *kernel.Context[Message]) {
	p.event(ctx, a.Name, false, "Started", "Container started")
}

func (a startContainer) failed(p *pod, ctx *kernel.Context[Message], f failed) {
	p.event(ctx, a.Name, true, "Failed", "Error: "+f.detail)
}
