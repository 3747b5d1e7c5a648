package gc

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podgc"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// collect begins to remove a pod, or starts over.
func (g *gc) collect(ctx *kernel.Context[Message], c *collection) {
	uid := c.ref.UID
	g.of[uid] = c
	id := portcall.Do(ctx, g.effect(pod.TeardownPool, "List", string(uid), "list/"+string(uid)),
		func(cc context.Context, done func(observed.Runtime, error)) {
			g.deps.Runtime.List(cc, string(uid), done)
		},
		func(id kernel.EffectID, l observed.Runtime, err error) Message { return listed{id, uid, l, err} })
	c.pending[id] = true
}

func (g *gc) listed(ctx *kernel.Context[Message], m listed) {
	c := g.of[m.uid]
	if c == nil || !c.pending[m.id] {
		return
	}
	delete(c.pending, m.id)
	c.fail(m.err)
	for i := range m.list.Pods {
		p := &m.list.Pods[i]
		if p.Ref.UID != m.uid {
			continue
		}
		for j := range p.Containers {
			c.dead = append(c.dead, p.Containers[j])
			c.dead[len(c.dead)-1].Pod = p.Ref
		}
		for j := range p.Sandboxes {
			c.boxes = append(c.boxes, p.Sandboxes[j].ID)
		}
	}
	g.next(ctx, c)
}

// next continues to the next stage when the last one is done.
func (g *gc) next(ctx *kernel.Context[Message], c *collection) {
	uid := c.ref.UID
	for len(c.pending) == 0 {
		if c.failed {
			if c.answered {
				c.tries++
			}
			ctx.After(backoff.Retry(g.deps.Backoff, max(c.tries, 1)), again{uid})
			return
		}
		if c.stage == directories {
			delete(g.of, uid)
			g.deps.Collected(uid, len(c.stuck) > 0)
			if c.retried {
				g.list(ctx)
			}
			return
		}
		c.stage++
		switch c.stage {
		case listing:
		case unmounting:
			if c.abandoned || c.mounted {
				c.pending[remove(g, ctx, "", "UnmountPod", uid, uid, g.deps.Host.UnmountPod)] = true
			}
		case older, newest:
			last := podgc.Last(c.dead)
			for i := range c.dead {
				if d := &c.dead[i]; last[d.ID] == (c.stage == newest) {
					c.pending[g.removeContainer(ctx, uid, port.LinkedLogOf(d.Pod, d))] = true
				}
			}
		case sandboxes:
			for i := range c.dead {
				if d := &c.dead[i]; c.stuck[d.ID] {
					c.stuck[d.SandboxID] = true // it goes with its containers or not at all
				}
			}
			for _, id := range c.boxes {
				if !c.stuck[id] {
					c.pending[g.removeSandbox(ctx, uid, id)] = true
				}
			}
		case directories:
			dirs := port.PodDirs{UID: uid, Namespace: c.ref.Namespace, Name: c.ref.Name}
			c.pending[remove(g, ctx, "", "RemovePod", uid, uid, func(cc context.Context, _ types.UID, done func(error)) {
				g.deps.Host.RemovePod(cc, dirs, done)
			})] = true
		}
	}
}

func (g *gc) removed(ctx *kernel.Context[Message], m removed) {
	g.note(ctx, m)
	g.reclaimed(ctx, m.id, m.err)
	c := g.of[m.uid]
	if c == nil || !c.pending[m.id] {
		return
	}
	delete(c.pending, m.id)
	c.mounted = c.mounted || c.stage == directories && port.KindOf(m.err) == port.StateConflict
	if port.KindOf(m.err) == port.Stuck {
		c.stuck[m.object] = true
	} else {
		c.fail(m.err)
	}
	g.next(ctx, c)
}

// fail takes down that a part of the stage failed, if it did.
func (c *collection) fail(err error) {
	if err == nil {
		return
	}
	c.failed = true
	c.answered = c.answered || port.Answered(err)
}
