package scenarios

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/invariants"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// setMachine looks at what is done on the machine.
func (w *world) setMachine() {
	m := w.node.Machine()
	w.rt = w.node.Runtime()
	w.host, w.cgroups, w.manifests, w.checkpoints, w.facts, w.containerFiles = m.Host, m.Cgroups, m.Manifests, m.Checkpoints, m.Facts, m.Files
	w.host.Observe = func(c machine.Call) {
		if c.Verb == "UnmountPod" && w.lives(types.UID(c.Pod)) {
			w.unmounts++
		}
	}
	w.cgroups.Observe = func(c machine.Call) {
		w.cgroupCalls++
		if c.Verb == "RemovePodCgroup" && w.lives(types.UID(c.Pod)) {
			w.kills++
		}
	}
}

// lives reports whether a container of the pod runs.
func (w *world) lives(uid types.UID) bool {
	return invariants.InUse(w.rt.Truth().Runtime.Pods, uid)
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
