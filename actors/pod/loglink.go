package pod

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/podplan"
	"github.com/troupe-dev/troupe/actors/port"
)

// start starts a container, with the link of its log made before: a collector that
// watches for links misses no line. A link that can't be made stops no container;
// gc tells of it, once for all, and tries again (port.LogLinks.TidyLogLinks).
func (p *pod) start(a podplan.StartContainer) run {
	rt, links := p.deps.Runtime, p.deps.LogLinks
	r := run{deadline: startDeadline, pool: StartPool, call: func(ctx context.Context, done func(ActionDone)) {
		rt.StartContainer(ctx, a.ID, onlyErr(done))
	}}
	c := p.container(a.ID)
	if links == nil || c == nil {
		return r
	}
	log, call := port.LinkedLogOf(p.ref(), c), r.call
	r.call = func(ctx context.Context, done func(ActionDone)) {
		links.LinkLog(ctx, log, func(error) { call(ctx, done) })
	}
	return r
}

// remove removes a container, and then the link of its log.
func (p *pod) remove(a podplan.RemoveContainer) run {
	call := p.deps.Runtime.RemoveContainer
	if c := p.container(a.ID); c != nil {
		call = RemoveLinked(call, p.deps.LogLinks, port.LinkedLogOf(p.ref(), c))
	}
	return run{deadline: inspectDeadline, call: func(ctx context.Context, done func(ActionDone)) {
		call(ctx, a.ID, onlyErr(done))
	}}
}

// RemoveLinked adds to the removal of a container that of the link of its log, if
// there are links. One that stays is dead when the log has gone, and is tidied away.
func RemoveLinked(call func(context.Context, string, func(error)), links port.LogLinks, log port.LinkedLog) func(context.Context, string, func(error)) {
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
