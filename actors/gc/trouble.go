package gc

import (
	"time"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// trouble is a removal that failed, and when people were told. Failures that are
// no answers are not counted.
//
// There is one at the most for each container and sandbox of the runtime and for
// each pod that is collected: it goes when the removal works, or the thing.
type trouble struct {
	backoff.Failures
	said time.Time
	// runtime: it is about something of the runtime, named object.
	runtime bool
	object  string
}

// sayAgain is after how long the same trouble is told again.
const sayAgain = time.Hour

// note takes down how a removal ended, and tells of it unless that is known.
func (g *gc) note(ctx *kernel.Context[Message], m removed) {
	if m.err == nil {
		delete(g.troubles, m.what)
		return
	}
	t := g.troubles[m.what]
	if t == nil {
		t = &trouble{object: m.object, runtime: m.object != string(m.uid)}
		g.troubles[m.what] = t
	}
	now, words := ctx.Now(), m.err.Error()
	if words != t.Message || now.Sub(t.said) >= sayAgain {
		t.said = now
		ctx.Log().Warn().Str("uid", string(m.uid)).Str("what", m.what).Str("error",
			words).Msg("cannot remove the remains of a pod; retrying with backoff")
	}
	if t.At, t.Message = (time.Time{}), words; port.Answered(m.err) { // else it is for the next sweep
		t.Failures = t.Failed(now, words)
	}
}

// waits reports whether it is too early to try a removal again.
func (g *gc) waits(ctx *kernel.Context[Message], r podgc.Removal) bool {
	t := g.troubles[removal(r)]
	return t != nil && t.RetryAt(g.deps.Backoff).After(ctx.Now())
}

// removal is what a removal of the plan is called.
func removal(r podgc.Removal) string {
	if r.Container {
		return "RemoveContainer " + r.ID
	}
	return "RemovePodSandbox " + r.ID
}

// forget gives up what is known of things that the runtime has no more.
func (g *gc) forget(list observed.Runtime) {
	if len(g.troubles) == 0 {
		return
	}
	there := map[string]bool{}
	for i := range list.Pods {
		p := &list.Pods[i]
		for j := range p.Containers {
			there[p.Containers[j].ID] = true
		}
		for j := range p.Sandboxes {
			there[p.Sandboxes[j].ID] = true
		}
	}
	for what, t := range g.troubles { // order-free: each by itself
		if t.runtime && !there[t.object] {
			delete(g.troubles, what)
		}
	}
}
