package nodestatus

import (
	"cmp"
	"context"
	"strings"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// podNetwork is what the runtime was told of the addresses of this node's pods. Some runtimes write the
// configuration of their network from it.
type podNetwork struct {
	// told are the networks that the runtime has acknowledged, call is the effect that tells it.
	told string
	call kernel.Call
	// failures in a row, after which retry is set.
	failures int
	retry    kernel.Alarm[Message]
}

// networkTold is the result of telling the runtime.
type networkTold struct {
	id   kernel.EffectID
	cidr string
	err  error
}

// tellNetwork is this actor's own timer, after a failure.
type tellNetwork struct{}

func (networkTold) isNodeStatusMessage() {}
func (tellNetwork) isNodeStatusMessage() {}

// Outcome implements kernel.Outcome.
func (m networkTold) Outcome() (kernel.EffectID, error) { return m.id, m.err }

// network tells the runtime the node's pod networks when the apiserver has others.
func (n *nodestatus) network(ctx *kernel.Context[Message]) {
	w := &n.podNetwork
	if n.deps.SetPodCIDR == nil || n.node == nil || w.call.Busy() || w.retry.IsSet() {
		return
	}
	cidr := cmp.Or(strings.Join(n.node.Spec.PodCIDRs, ","), n.node.Spec.PodCIDR)
	if cidr == "" || cidr == w.told {
		return
	}
	w.call.Begin(portcall.Do0(ctx,
		kernel.Effect[Message]{Kind: "UpdateRuntimeConfig", Object: cidr, Lane: "podnetwork", Deadline: n.deps.Deadline},
		func(c context.Context, done func(error)) { n.deps.SetPodCIDR(c, cidr, done) },
		func(id kernel.EffectID, err error) Message { return networkTold{id, cidr, err} }))
}

func (n *nodestatus) networkTold(ctx *kernel.Context[Message], m networkTold) {
	w := &n.podNetwork
	if !w.call.Take(m.id) {
		return
	}
	if m.err == nil {
		w.told, w.failures = m.cidr, 0
		ctx.Log().Info().Str("podCIDR", m.cidr).Msg("the runtime was told the node's pod network")
		return
	}
	if w.failures++; w.failures == 1 {
		ctx.Log().Warn().Str("podCIDR", m.cidr).Str("error", m.err.Error()).
			Msg("cannot tell the runtime the node's pod network; retrying")
	}
	w.retry.SetIn(ctx, n.wait(ctx, w.failures), tellNetwork{})
}
