package gc

import "github.com/troupe-dev/troupe/actors/kernel"

// reclaims are the pending Reclaim requests.
//
//	asked ──sweep──► under way ──all removals ended──► answered
//
// A request that comes while one is under way waits for the next sweep, which then begins at once.
type reclaims struct {
	asked, underWay []func(error)
	// pending are the removals of the sweep.
	pending map[kernel.EffectID]bool
	err     error
}

func (g *gc) reclaim(ctx *kernel.Context[Message], m Reclaim) {
	g.reclaims.asked = append(g.reclaims.asked, m.Reply)
	if len(g.reclaims.underWay) == 0 && len(g.reclaims.asked) == 1 {
		g.list(ctx)
	}
}

// wanted says whether the next sweep is for requests.
func (r *reclaims) wanted() bool { return len(r.asked) > 0 && len(r.underWay) == 0 }

// begin is called when a sweep for requests begins to remove. A sweep may overtake another: then its requests are
// answered by it as well.
func (r *reclaims) begin() {
	r.underWay, r.asked, r.err = append(r.underWay, r.asked...), nil, nil
	if r.pending == nil {
		r.pending = map[kernel.EffectID]bool{}
	}
}

// add notes a removal of the sweep.
func (r *reclaims) add(id kernel.EffectID) {
	if r.pending != nil {
		r.pending[id] = true
	}
}

// settle answers when nothing is pending.
func (r *reclaims) settle(err error) {
	if r.err == nil {
		r.err = err
	}
	if r.pending != nil && len(r.pending) == 0 {
		replies := r.underWay
		r.underWay, r.pending = nil, nil
		for _, reply := range replies {
			reply(r.err)
		}
	}
}

// answer answers those who asked: no sweep can begin.
func (r *reclaims) answer(err error) {
	replies := r.asked
	r.asked = nil
	for _, reply := range replies {
		reply(err)
	}
}

func (g *gc) reclaimed(ctx *kernel.Context[Message], id kernel.EffectID, err error) {
	if r := &g.reclaims; r.pending[id] {
		delete(r.pending, id)
		r.settle(err)
		if len(r.underWay) == 0 && len(r.asked) > 0 {
			g.list(ctx)
		}
	}
}
