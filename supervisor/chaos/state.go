package chaos

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podstatus"
)

// withStates keeps the points with the state of the node at each.
func withStates() Option { return func(r *runner) { r.record, r.states = true, true } }

// mark takes down what the actors are at, after a message: hooks of calls can't ask them.
func (r *runner) mark() {
	if !r.states {
		return
	}
	h := fnv.New64a()
	for _, a := range r.world.System().Snapshot("") {
		if a.Incarnation == 1 && a.Depth == 0 && len(a.Effects) == 0 {
			continue
		}
		write(h, "%s %t %t", r.actor(a.Path), a.Incarnation > 1, a.Depth > 0)
		for i := range a.Effects {
			write(h, "%s %v", a.Effects[i].Kind, a.Effects[i].Phase)
		}
	}
	r.marked = h.Sum64()
}

// state is an abstraction of the node at this instant: what its actors are at (their effects by kind
// and phase, whether messages wait for them, whether they were restarted), which agent it is, what
// runs, what is shown, what the machine has, and how far the case is. Two nodes in one state do the
// same with the same fault, as far as their planners can tell: it has no IDs and no times.
func (r *runner) state() uint64 {
	h := fnv.New64a()
	write(h, "%x %d", r.marked, r.next)
	for _, m := range r.caseNodes {
		write(h, "%t %t %t %d %d", m.Running(), m.killed || m.downed, m.On(), m.Machine().Host.Pods(),
			len(m.Machine().Cgroups.Owners()))
		for _, p := range m.Machine().CSI.Places() {
			write(h, "%t %t %t", p.Target.Pod != "", p.Notes, p.Mounted)
		}
	}
	for _, name := range sorted(r.pods) {
		c := r.pods[name]
		write(h, "%s %t %t %t %d", name, c.asked != nil, c.made, c.sandbox != "", c.objects)
		for _, part := range sorted(c.parts) {
			p := c.parts[part]
			write(h, "%s %t %t %t %t", part, p.made, p.started, p.running != "", p.ended)
		}
		if s := c.status; s != nil {
			write(h, "%s %s %t", s.Phase, s.Reason, podstatus.Ready(s))
			for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses} {
				for i := range list {
					write(h, "%s", shownState(&list[i]))
				}
			}
		}
		write(h, "%t", c.shown != nil && c.shown.DeletionTimestamp != nil)
	}
	return h.Sum64()
}

func write(h io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(h, format+"\n", args...) }

// shownState is what is shown of a container, without times and messages.
func shownState(c *v1.ContainerStatus) string {
	s := &c.State
	var b strings.Builder
	switch {
	case s.Waiting != nil:
		b.WriteString(s.Waiting.Reason)
	case s.Terminated != nil:
		fmt.Fprintf(&b, "%s %d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Running != nil:
		b.WriteString("Running")
	}
	fmt.Fprintf(&b, " %t %d", c.Ready, min(c.RestartCount, 2))
	return b.String()
}
