package volumes

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/kernel"
)

func (a *volumes) unmount(ctx *kernel.Context[Message], m Unmount) {
	p := a.get(m.UID)
	p.reply, p.pending, p.releasing = m.ReplyTo, true, false
	if p.pod == nil {
		p.pod = m.Pod
	}
	first := !p.down
	if first {
		p.down = true
		p.failures.DeleteFunc(func(c call, _ failure) bool { return c.what != unmount })
		if p.pod == nil || len(p.plan) > 0 {
			p.expect(ctx, m.UID)
		}
	}
	a.giveUp(ctx, m.UID, p, first)
	a.advance(ctx, m.UID)
}

// giveUp notes what is being brought up of a pod that is taken down, by this incarnation and by earlier ones. The first
// time it is given up, because it is not needed any more, also what hangs: what it was to be mounted at is removed, so
// that it can't come up later.
func (a *volumes) giveUp(ctx *kernel.Context[Message], uid types.UID, p *volumed, first bool) {
	p.coming = nil
	var dropped map[kernel.EffectID]bool // those that are say nothing any more
	for _, e := range ctx.InFlight() {
		if t, ok := e.Tag.(tag); !ok || t.uid != uid || t.what == unmount {
			continue
		}
		if p.coming == nil {
			p.coming, dropped = map[kernel.EffectID]bool{}, map[kernel.EffectID]bool{}
		}
		if first {
			dropped[e.ID] = ctx.Cancel(e.ID)
		}
		if !dropped[e.ID] {
			p.coming[e.ID] = true
		}
	}
	if len(dropped) > 0 {
		p.running.DeleteFunc(func(_ call, id kernel.EffectID) bool { return dropped[id] })
		a.ungrown(dropped)
	}
}
