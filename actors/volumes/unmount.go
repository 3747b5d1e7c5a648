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
	if !p.down {
		p.down = true
		p.failures.DeleteFunc(func(c call, _ failure) bool { return c.what != unmount })
		if p.pod == nil || len(p.plan) > 0 {
			p.expect(ctx, m.UID)
		}
		// The volume that is being mounted is no longer needed. One that hangs is given up: what
		// it was to be mounted at is removed, so that it can't come up later.
		dropped := map[kernel.EffectID]bool{} // they say nothing any more
		for _, e := range ctx.InFlight() {
			if t, ok := e.Tag.(tag); ok && t.uid == m.UID && t.what != unmount {
				dropped[e.ID] = ctx.Cancel(e.ID)
				a.ungrown(e.ID)
			}
		}
		p.running.DeleteFunc(func(_ call, id kernel.EffectID) bool { return dropped[id] })
	}
	a.advance(ctx, m.UID)
}

// mounting reports whether something of a pod is being brought up.
func mounting(ctx *kernel.Context[Message], uid types.UID) bool {
	for _, e := range ctx.InFlight() {
		if t, ok := e.Tag.(tag); ok && t.uid == uid && t.what != unmount {
			return true
		}
	}
	return false
}
