package nodestatus

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// jitter is the part of the period by which a renewal may be late, so that nodes that started
// together do not renew together forever.
const jitter = 0.04

// renew renews the lease when it is due. It waits only for a new lease's node, whose UID goes
// into the lease.
//
//	unread ──Get──► there ──Update, each period──► there
//	   │              ▲  └──conflict──► unread
//	   └─none─► gone ─┴─Create, once the node is known
func (n *nodestatus) renew(ctx *kernel.Context[Message]) {
	if n.leaseCall.Busy() || n.leaseTimer.IsSet() {
		return
	}
	key := port.APIKey{Kind: port.LeaseKind, Namespace: v1.NamespaceNodeLease, Name: n.deps.Own.Name}
	if n.unreadLease {
		n.lend(ctx, "GetLease", func(c context.Context, done func(port.APIObject, error)) { n.deps.API.Get(c, key, done) })
		return
	}
	if n.lease == nil && n.node == nil {
		return
	}
	l := nodeobject.Lease(n.deps.Own.Name, n.node, n.lease, n.deps.LeaseDuration, ctx.Now())
	if n.lease == nil {
		n.lend(ctx, "CreateLease", func(c context.Context, done func(port.APIObject, error)) {
			n.deps.API.Create(c, l, done)
		})
		return
	}
	n.lend(ctx, "UpdateLease", func(c context.Context, done func(port.APIObject, error)) { n.deps.API.Update(c, l, done) })
}

func (n *nodestatus) lend(
	ctx *kernel.Context[Message], what string, run func(context.Context, func(port.APIObject, error)),
) {
	at := ctx.Now()
	e := kernel.Effect[Message]{Kind: what, Object: n.deps.Own.Name, Lane: "lease", Deadline: n.deps.leasePeriod()}
	n.leaseCall.Begin(portcall.Do(ctx, e, run, func(id kernel.EffectID, o port.APIObject, err error) Message {
		l := leased{id: id, what: what, at: at, err: err}
		if err == nil {
			l.lease = o.(*coordinationv1.Lease)
		}
		return l
	}))
}

func (n *nodestatus) leased(ctx *kernel.Context[Message], m leased) {
	if !n.leaseCall.Take(m.id) {
		return
	}
	kind := port.KindOf(m.err)
	switch {
	case m.err == nil:
		n.lease, n.leaseFailures = m.lease, 0
		if m.what == "GetLease" {
			n.unreadLease = false
			return // and renewed at once
		}
		period := n.deps.leasePeriod() + time.Duration(ctx.Rand().Float64()*jitter*float64(n.deps.leasePeriod()))
		n.leaseTimer.SetIn(ctx, max(period-ctx.Now().Sub(m.at), 0), renew{})
		return
	case kind == port.NotFound:
		n.lease, n.unreadLease = nil, false
		if m.what != "CreateLease" {
			n.leaseFailures++
			if n.leaseFailures == 1 {
				return // made at once
			}
		}
	case kind == port.Conflict, kind == port.AlreadyExists:
		n.unreadLease = true
		n.leaseFailures++
		if n.leaseFailures == 1 {
			return // read at once
		}
	default:
		// An unanswered call may have worked: then the next one conflicts.
		n.leaseFailures++
	}
	log := ctx.Log().Debug()
	if n.leaseFailures == 1 {
		log = ctx.Log().Warn()
	}
	log.Str("call", m.what).Str("error", m.err.Error()).Msg("cannot renew the node lease; retrying")
	n.leaseTimer.SetIn(ctx, n.wait(ctx, max(n.leaseFailures, 1)), renew{})
}
