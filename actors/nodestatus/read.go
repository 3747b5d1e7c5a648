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
	n.getNode(ctx, readNode, "GetNode", func(id kernel.EffectID, o *v1.Node, err error) Message {
		return nodeRead{id, o, err}
	})
}

// getNode starts a reading of the node's object, unless one of the kind is running.
func (n *nodestatus) getNode(ctx *kernel.Context[Message], which int, kind string,
	result func(kernel.EffectID, *v1.Node, error) Message,
) {
	key := n.key()
	read(n, ctx, which, kind, func(c context.Context, done func(*v1.Node, error)) {
		n.deps.API.Get(c, key, func(o port.APIObject, err error) {
			if err != nil {
				done(nil, err)
				return
			}
			done(o.(*v1.Node), nil)
		})
	}, result)
}

// readAgain reads the object for pods, which must know its newest labels. What began to be read before may miss them.
func (n *nodestatus) readAgain(ctx *kernel.Context[Message], number uint64) {
	if n.reading[readAsked].Busy() {
		if number > n.begun {
			n.toRead = number
		}
		return
	}
	n.begun, n.toRead = number, 0
	n.getNode(ctx, readAsked, "ReadNode", func(id kernel.EffectID, o *v1.Node, err error) Message {
		return askedRead{id, number, o, err}
	})
}

// askedRead tells who asked that the object was read, after what is new in it.
func (n *nodestatus) askedRead(ctx *kernel.Context[Message], m askedRead) {
	if !n.reading[readAsked].Take(m.id) {
		return
	}
	if m.err != nil {
		ctx.Log().Warn().Str("error", m.err.Error()).
			Msg("cannot read the Node object: pods whose node affinity it does not match are refused by what is known of it")
	} else {
		n.listed = true
		n.others(ctx, m.node, false)
		n.tell(ctx)
	}
	n.deps.Read(m.number)
	if n.toRead != 0 {
		n.readAgain(ctx, n.toRead)
	}
}

// nodeRead applies the object, unless a watch reported it by now.
func (n *nodestatus) nodeRead(ctx *kernel.Context[Message], m nodeRead) {
	if !n.reading[readNode].Take(m.id) || n.watched {
		return
	}
	next := n.deps.StatusPeriod
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
