package nodestatus

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// sync makes the object match the facts, one call at a time.
func (n *nodestatus) sync(ctx *kernel.Context[Message]) {
	if n.call.Busy() || n.retrying || !n.listed {
		return
	}
	due := !ctx.Now().Before(n.report)
	if !n.dirty && !due {
		return
	}
	if n.facts == nil || n.reset.loading() {
		return // some facts are missing
	}
	own := n.deps.Own
	if n.node == nil && !n.deps.Register {
		return // the watch will report it
	}
	if n.node == nil {
		node := nodeobject.New(nodeobject.Again(own, n.seen), n.facts, ctx.Now())
		n.before = &v1.NodeStatus{}
		n.write(ctx, "CreateNode", func(c context.Context, done func(port.APIObject, error)) {
			n.deps.API.Create(c, node, done)
		})
		return
	}
	key, from := n.key(), n.node
	n.from = from
	to, relabels := nodeobject.Meta(own, from, n.starts)
	if relabels && !n.labelled && !ctx.Now().Before(n.labelAt) {
		n.labelled = true
		n.write(ctx, "PatchNode", func(c context.Context, done func(port.APIObject, error)) {
			n.deps.API.Patch(c, port.APIPatch{Key: key, From: from, To: to}, done)
		})
		return
	}
	if n.labelAt.IsZero() || !relabels {
		n.starts, n.labelAt = false, time.Time{}
	}
	facts := *n.facts
	facts.Reset = n.resetDue(from)
	status, differs := nodeobject.Status(own, &facts, &from.Status, ctx.Now())
	if (!differs || n.wrote == n.facts && n.acks > 1) && !due {
		n.dirty = false
		n.resetDone(ctx)
		return
	}
	n.resetting(ctx, from)
	reported := *from
	reported.Status = status
	n.before = &from.Status
	n.report = ctx.Now().Add(n.deps.ReportPeriod)
	n.write(ctx, "PatchNodeStatus", func(c context.Context, done func(port.APIObject, error)) {
		n.deps.API.Patch(c, port.APIPatch{Key: key, From: from, To: &reported, Status: true}, done)
	})
}

// write starts a call about the node's object.
func (n *nodestatus) write(
	ctx *kernel.Context[Message], what string, run func(context.Context, func(port.APIObject, error)),
) {
	n.dirty, n.at = false, ctx.Now()
	if what != "GetNode" && what != "PatchNode" && n.wrote != n.facts {
		n.wrote, n.acks = n.facts, 0
	}
	e := kernel.Effect[Message]{Kind: what, Object: n.deps.Own.Name, Lane: "node", Deadline: n.deps.Deadline}
	n.call.Begin(portcall.Do(ctx, e, run, func(id kernel.EffectID, o port.APIObject, err error) Message {
		w := written{id: id, what: what, err: err}
		if err == nil {
			w.node = o.(*v1.Node)
		}
		return w
	}))
}

func (n *nodestatus) written(ctx *kernel.Context[Message], m written) {
	if !n.call.Take(m.id) {
		return
	}
	if m.err == nil {
		n.failures = 0
		if n.told {
			n.told = false
			ctx.Log().Info().Msg("the apiserver accepts node status updates again")
		}
		switch m.what {
		case "CreateNode":
			ctx.Log().Info().Msg("the node is registered")
		case "PatchNode":
			n.labelAt = time.Time{}
		}
		if n.before != nil {
			for _, e := range nodeobject.Events(n.deps.Own.Name, n.before, &m.node.Status) {
				n.record(ctx, e)
			}
			n.before = nil
		}
		n.newer(m.node, n.from != nil && apipod.Restored(n.from, m.node))
		n.acks++
		n.dirty = true // is everything written?
		return
	}
	n.dirty, n.labelled, n.wrote, n.before = true, false, nil, nil
	if m.what == "PatchNodeStatus" {
		n.report = ctx.Now()
	}
	switch kind := port.KindOf(m.err); {
	case kind == port.NotFound && m.what != "CreateNode":
		n.gone() // deleted: register it again
		return
	case m.what == "PatchNode" && (kind == port.Forbidden || kind == port.Invalid || kind == port.Other):
		n.unlabelled(ctx, m.err)
		return
	case kind == port.AlreadyExists, kind == port.Conflict:
		// Another client registered the node or changed it: read it.
		if n.failures++; n.failures == 1 {
			n.read(ctx)
			return
		}
	default:
		n.failures++
	}
	if !n.told {
		n.told = true
		log := ctx.Log().Warn()
		if kind := port.KindOf(m.err); kind == port.Unavailable || kind == port.Unauthorized {
			log = ctx.Log().Debug() // the watch logs it once for all
		}
		log.Str("call", m.what).Str("error", m.err.Error()).Msg("cannot write the node status to the apiserver; retrying")
	}
	n.retrying = true
	ctx.After(n.wait(ctx, n.failures), again{})
}

// unlabelled goes on without labels that a policy or a webhook refuses, which says nothing of the status. They are
// written again and again.
func (n *nodestatus) unlabelled(ctx *kernel.Context[Message], err error) {
	log := ctx.Log().Warn()
	if !n.labelAt.IsZero() {
		log = ctx.Log().Debug()
	}
	log.Str("error", err.Error()).Msg("the apiserver refuses the labels and annotations of this Node; the node status " +
		"is written without; retrying")
	n.labelAt = ctx.Now().Add(n.deps.StatusPeriod)
	ctx.After(n.deps.StatusPeriod, again{})
}

// read reads the object when the watch is late.
func (n *nodestatus) read(ctx *kernel.Context[Message]) {
	key := n.key()
	n.write(ctx, "GetNode", func(c context.Context, done func(port.APIObject, error)) { n.deps.API.Get(c, key, done) })
}

// wait is the backoff after a failure, with jitter.
func (n *nodestatus) wait(ctx *kernel.Context[Message], failures int) time.Duration {
	d := backoff.Retry(n.deps.Backoff, failures)
	return d/2 + time.Duration(ctx.Rand().Int64N(int64(d/2)+1))
}
