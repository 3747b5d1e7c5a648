package nodestatus

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/resourcelist"
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
}

// markRetry is the time until the mark is written again after a failure.
const markRetry = 5 * time.Second

// reset is the reset of the extended resources of a Node whose devices nobody knows: those of device plugins must not
// be advertised, and they can't be told from others. A kubelet does it as well if its checkpoint is gone.
//
//	loading ──markRead──► due ──the Node shows 0──► done (mark in memory), and written until that succeeds
//	                       ▲ another Node or another loss
//	                       └──────────────────────────┘
type reset struct {
	// mark is the last one. loading and saving are its effects, 0 for none; unsaved says that it must be written.
	mark            resetMark
	loading, saving kernel.EffectID
	unsaved         bool
}

func (n *nodestatus) loadMark(ctx *kernel.Context[Message]) {
	if n.deps.Devices.Lost() == "" {
		return
	}
	n.reset.loading = checkpoint.Load(ctx, n.deps.Checkpoints, &resetFile,
		func(id kernel.EffectID, content checkpoint.Content) Message { return markRead{id, content} })
}

func (n *nodestatus) markRead(ctx *kernel.Context[Message], m markRead) {
	if m.id != n.reset.loading {
		return
	}
	n.reset.loading = 0
	n.reset.mark = resetFile.Take(ctx.Log(), &m.content)
}

// resetDue says whether the extended resources of a node must be set to 0.
func (n *nodestatus) resetDue(node *v1.Node) bool {
	lost := n.deps.Devices.Lost()
	return lost != "" && n.reset.mark != resetMark{node.UID, lost}
}

// resetting says in the log which resources a write of the status sets to 0.
func (n *nodestatus) resetting(ctx *kernel.Context[Message], from *v1.Node) {
	if gone := nodeobject.WithExtended(nil, from.Status.Capacity); n.resetDue(from) && len(gone) > 0 {
		ctx.Log().Warn().Str("resources", resourcelist.Text(gone)).
			Msg("the kubelet's device checkpoint is missing or damaged: the extended resources of the Node are set to 0; " +
				"patch the status of the Node to add those that no device plugin serves")
	}
}

// resetDone notes that the node has no extended resources any more.
func (n *nodestatus) resetDone(ctx *kernel.Context[Message]) {
	if n.resetDue(n.node) {
		n.reset.mark, n.reset.unsaved = resetMark{n.node.UID, n.deps.Devices.Lost()}, true
		n.saveMark(ctx)
	}
}

func (n *nodestatus) saveMark(ctx *kernel.Context[Message]) {
	if !n.reset.unsaved || n.reset.saving != 0 {
		return
	}
	n.reset.unsaved = false
	n.reset.saving = checkpoint.Save(ctx, n.deps.Checkpoints, &resetFile, n.reset.mark,
		func(id kernel.EffectID, err error) Message { return markSaved{id, err} })
}

func (n *nodestatus) markSaved(ctx *kernel.Context[Message], m markSaved) {
	if m.id != n.reset.saving {
		return
	}
	n.reset.saving = 0
	if m.err != nil {
		n.reset.unsaved = true
		ctx.Log().Warn().Str("checkpoint", resetFile.Name).Str("error", m.err.Error()).
			Msg("cannot write checkpoint; retrying: until then a restart of the agent sets the extended resources to 0 again")
		ctx.After(markRetry, markAgain{})
		return
	}
	n.saveMark(ctx)
}
