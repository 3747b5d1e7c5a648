package podset

import "github.com/troupe-dev/troupe/actors/kernel"

// nodeReads are the readings of the Node that this actor asks nodestatus for: the last one that it asked for, and the
// last one that was done. waiting: the timer runs that asks again.
type nodeReads struct {
	asked, done uint64
	waiting     bool
}

// rereads reports whether a pod that is refused waits until the Node was read again. Somebody may have labelled the
// node and bound the pod at once, and the watches of pods and of the Node are not in step. The pod holds no room
// meanwhile.
//
//	refused for labels ──ReadNode──► waits ──NodeRead──► admitted, or refused
func (a *registry) rereads(ctx *kernel.Context[Message], r *record) bool {
	if a.deps.Cluster == nil || r.reject == nil || !r.reject.ByLabels {
		return false
	}
	if r.read == 0 {
		a.reads.asked++
		r.read = a.reads.asked
		a.askNode(ctx)
	}
	if r.read > a.reads.done {
		r.reject = nil // not yet
		return true
	}
	r.read = 0
	return false
}

// askNode asks for the Node to be read, and for as long as there is no answer.
func (a *registry) askNode(ctx *kernel.Context[Message]) {
	a.deps.Cluster.ReadNode(a.reads.asked)
	if !a.reads.waiting {
		a.reads.waiting = true
		ctx.After(askEvery, AskNode{})
	}
}

func (a *registry) askNodeAgain(ctx *kernel.Context[Message]) {
	a.reads.waiting = false
	if a.reads.done < a.reads.asked {
		a.askNode(ctx)
	}
}

// nodeRead judges again who waited for the Node.
func (a *registry) nodeRead(ctx *kernel.Context[Message], number uint64) {
	if number > a.reads.done {
		a.reads.done = number
		a.reconcile(ctx)
	}
}
