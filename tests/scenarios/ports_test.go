package scenarios

import (
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// setMachine looks at what is done on the machine.
func (w *world) setMachine() {
	m := w.node.Machine()
	w.rt = w.node.Runtime()
	w.host, w.cgroups, w.manifests, w.checkpoints, w.facts, w.containerFiles = m.Host, m.Cgroups, m.Manifests, m.Checkpoints, m.Facts, m.Files
	w.host.Observe = w.rules.Done
	w.cgroups.Observe = func(c machine.Call) {
		w.rules.Done(c)
		w.cgroupCalls++
	}
}

// recorder keeps events.
type recorder struct{ w *world }

func (r recorder) Record(e port.Event) {
	if r.w.keepEvents {
		r.w.events = append(r.w.events, e)
	}
}

// count is how many events there were of a pod for a reason.
func (w *world) count(name, reason string) (n int) {
	for _, e := range w.events {
		if e.Pod != nil && plainName(e.Pod.Name) == name && e.Reason == reason {
			n++
		}
	}
	return n
}
