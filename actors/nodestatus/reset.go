package nodestatus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/kernel"
)

// resetMark says which Node had its extended resources set to 0, and which loss of the kubelet's device checkpoint
// that was for. It is a checkpoint, so that what an operator adds to the Node afterwards survives a restart of the
// agent.
type resetMark struct {
	Node types.UID `json:"node"`
	Lost string    `json:"lost"`
}

var resetFile = checkpoint.File[resetMark]{
	Name:    "extendedresources",
	Without: "the extended resources of the Node are set to 0 once more",
	Unwritten: "cannot write checkpoint; retrying: until then a restart of the agent sets the extended resources to 0 " +
		"again",
}

// reset is the reset of the extended resources of a Node whose devices nobody knows: those of device plugins must not
// be advertised, and they can't be told from others. A kubelet does it as well if its checkpoint is gone.
//
//	loading ──markRead──► due ──the Node shows 0──► done (mark in memory), and written until that succeeds
//	                       ▲ another Node or another loss
//	                       └──────────────────────────┘
type reset struct {
	checkpoint.Journal[Message, resetMark]
	// mark is the last one.
	mark resetMark
}

// loading says whether the mark is not known yet. It is not needed, and not read, if the checkpoint of devices is
// there.
func (r *reset) loading() bool { return r.State() == checkpoint.Loading }

func (n *nodestatus) loadMark(ctx *kernel.Context[Message]) {
	if n.deps.Devices.Lost() == "" {
		return
	}
	n.reset.Load(ctx, n.deps.Checkpoints, &resetFile, func(e checkpoint.Event) Message { return journaled{e} })
}

func (n *nodestatus) journaled(ctx *kernel.Context[Message], e checkpoint.Event) {
	if news, mark := n.reset.Hear(ctx, e); news == checkpoint.Loaded {
		n.reset.mark = mark
	}
	n.saveMark(ctx)
}

// resetDue says whether the extended resources of a node must be set to 0.
func (n *nodestatus) resetDue(node *v1.Node) bool {
	lost := n.deps.Devices.Lost()
	return lost != "" && n.reset.mark != resetMark{node.UID, lost}
}

// resetting says in the log which resources a write of the status sets to 0.
func (n *nodestatus) resetting(ctx *kernel.Context[Message], from *v1.Node) {
	if gone := nodeobject.WithExtended(nil, from.Status.Capacity); n.resetDue(from) && len(gone) > 0 {
		ctx.Log().Warn().Str("resources", podspec.ResourceText(gone)).
			Msg("the kubelet's device checkpoint is missing or damaged: the extended resources of the Node are set to 0; " +
				"patch the status of the Node to add those that no device plugin serves")
	}
}

// resetDone notes that the node has no extended resources any more.
func (n *nodestatus) resetDone(ctx *kernel.Context[Message]) {
	if n.resetDue(n.node) {
		n.reset.mark = resetMark{n.node.UID, n.deps.Devices.Lost()}
		n.reset.Changed()
		n.saveMark(ctx)
	}
}

func (n *nodestatus) saveMark(ctx *kernel.Context[Message]) {
	n.reset.Write(ctx, func() resetMark { return n.reset.mark })
}
