package nodestatus

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

func (n *nodestatus) key() port.APIKey {
	return port.APIKey{Kind: port.NodeKind, Name: n.deps.Own.Name}
}

// reread reads the node's object while no watch has reported it. An apiserver may refuse or delay
// watches and still answer all else: the node must stay ready, and pods must not wait.
func (n *nodestatus) reread(ctx *kernel.Context[Message]) {
	if n.watched {
		return
	}
	key := n.key()
	read(n, ctx, readNode, "GetNode",
		func(c context.Context, done func(*v1.Node, error)) {
			n.deps.API.Get(c, key, func(o port.APIObject, err error) {
				if err != nil {
					done(nil, err)
					return
				}
				done(o.(*v1.Node), nil)
			})
		},
		func(id kernel.EffectID, o *v1.Node, err error) Message { return nodeRead{id, o, err} })
}

// nodeRead applies the object, unless a watch reported it by now.
func (n *nodestatus) nodeRead(ctx *kernel.Context[Message], m nodeRead) {
	if !n.finished(readNode, m.id) || n.watched {
		return
	}
	next := n.deps.Every
	switch {
	case m.err == nil:
		n.listed, n.unread = true, 0
		n.others(ctx, m.node, false)
	case port.KindOf(m.err) == port.NotFound:
		n.listed, n.unread = true, 0
		if n.node != nil {
			break // it was registered since; if it is gone, the next write reports it
		}
		n.gone()
	default:
		n.unread++
		next = n.wait(ctx, n.unread)
		ctx.Log().Debug().Str("error", m.err.Error()).Msg("cannot read the Node object; retrying")
	}
	ctx.After(next, reread{})
}
