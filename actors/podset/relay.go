package podset

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podset"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pleg"
	"github.com/troupe-dev/troupe/actors/pod"
	"github.com/troupe-dev/troupe/actors/port"
)

// take relays a full list. A pod that is not in it has nothing in the runtime.
func (a *registry) take(s pleg.Snapshot) {
	a.listed = s.Listed
	clear(a.runtime)
	there := make(map[types.UID]bool, len(s.Runtime.Pods))
	for _, rp := range s.Runtime.Pods {
		there[rp.Ref.UID] = true
		if r := a.of[rp.Ref.UID]; r != nil && r.State.HasActor() {
			r.sees(rp.Pod, s.Listed)
		} else {
			a.runtime[rp.Ref.UID] = rp
		}
	}
	a.unread = map[types.UID]string{}
	for _, u := range s.Runtime.Unread {
		there[u.UID], a.unread[u.UID] = true, u.Why
	}
	for _, r := range a.ranked {
		if r.State.HasActor() && !there[r.Pod.UID] {
			r.sees(observed.Pod{}, s.Listed)
		}
	}
	maps.DeleteFunc(a.stuck, func(uid types.UID, _ bool) bool { return !there[uid] }) // order-free: a set
}

// seen relays a list, or keeps it for a pod that has no actor yet.
func (a *registry) seen(ctx *kernel.Context[Message], m pleg.Seen) {
	_, was := a.unread[m.Ref.UID]
	delete(a.unread, m.Ref.UID)
	if r := a.of[m.Ref.UID]; r != nil && r.State.HasActor() {
		r.sees(m.View, m.Listed)
		return
	}
	if len(m.View.Sandboxes)+len(m.View.Containers) == 0 {
		delete(a.runtime, m.Ref.UID)
		if was {
			a.reconcile(ctx)
		}
		return
	}
	a.runtime[m.Ref.UID] = observed.RuntimePod{Ref: m.Ref, Pod: m.View}
	a.reconcile(ctx)
}

// sees relays what the runtime has of a pod, or keeps it for the first Assign.
func (r *record) sees(v observed.Pod, listed time.Time) {
	if r.view != nil {
		r.view = &v
		return
	}
	r.ref.Tell(pod.RuntimeSeen{View: v, Listed: listed})
}

// illegible reports whether a pod can't begin because a part of it in the runtime can't be read: what runs of it would
// be made once more. People are told once.
func (a *registry) illegible(ctx *kernel.Context[Message], r *record) bool {
	why, is := a.unread[r.Pod.UID]
	if why != "" {
		a.unread[r.Pod.UID] = ""
		a.deps.Events.Record(port.Event{Pod: r.Pod, Warning: true, Reason: "FailedSync",
			Message: "error determining status: " + why, At: ctx.Now()})
	}
	return is
}

// reported stores a pod's report and sends it on.
func (a *registry) reported(ctx *kernel.Context[Message], m pod.Report) {
	r := a.of[m.UID]
	if r == nil || r.ref.IsZero() || r.first != m.FirstSandbox {
		return // one that has not begun yet is asked again then
	}
	if a.deps.Started != nil && podstatus.Started(r.report.Status, m.Status) {
		a.deps.Started(Started{Pod: r.Pod, Status: m.Status, Seen: r.seen, At: ctx.Now()})
	}
	down := m.Down && !r.Down
	r.Down = r.Down || m.Down // what it had may be another's by now, whatever its actor doubts
	before := r.status()
	r.report, r.crash = m, nil
	a.countEnded(r, before, m.Status)
	a.reportedOver(ctx, r, before)
	a.placeDown(r)
	if down {
		// Before others hear of its terminal phase: the scheduler gives what it had to another pod then.
		a.release(r)
	}
	a.show(m.UID, r)
	if down {
		a.reconcile(ctx)
	}
}

// finished handles that nothing of a pod runs.
func (a *registry) finished(ctx *kernel.Context[Message], m pod.Finished) {
	r := a.of[m.UID]
	if r == nil || r.ref.IsZero() || r.State != podset.Running || r.first != m.FirstSandbox {
		return // one without an address: the last word of an actor that has ended since
	}
	r.State, r.next, r.Alone = podset.Next(r.State, podset.Ended), m.NextSandbox, r.Stop == nil
	a.resolved(ctx, r, terminated)
	a.show(m.UID, r)
	a.reconcile(ctx)
}

// crashed stores the last crash of a pod's actor, until it reports again, and tells people of it.
func (a *registry) crashed(ctx *kernel.Context[Message], c *kernel.CrashReport) {
	name := c.Path[strings.LastIndexByte(c.Path, '/')+1:]
	r := a.of[types.UID(name)]
	if r == nil {
		return
	}
	r.crash = c
	if c.Decision == kernel.Ended {
		return
	}
	text := fmt.Sprintf("the agent made a mistake with this pod: %s: panic: %s. Its containers go on; the next try is in "+
		"%v: see `troupe crashes`", c.Message, crashText(c.Reason), c.RetryAfter)
	a.deps.Events.Record(port.Event{Pod: r.Pod, Warning: true, Reason: actorCrashed, Message: text, At: ctx.Now()})
}

// actorCrashed is the reason of an event.
const actorCrashed = "ActorCrashed"

// crashText is what was panicked with, as far as an event has room for it.
func crashText(s string) string {
	const most = 300
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
