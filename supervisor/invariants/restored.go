package invariants

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Restored: the apiserver is about to be restored from a backup. What it says of pods begins anew: a
// pod that was gone or had ended may be there again, and versions may say less.
func (n *Node) Restored() {
	for _, p := range n.pods { // order-free: all of them
		p.undone = p.undone || !p.wanted && !p.dropped.IsZero() || p.shown != nil && p.shown.DeletionTimestamp != nil
		p.finished = p.finished || p.shown != nil && podspec.Finished(p.shown)
		p.shown, p.over = nil, time.Time{}
	}
	n.renewTime, n.restoredAt = time.Time{}, n.now()
}
