package chaos

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
)

// History is what has happened to the pods of a case that runs on a real node: what its
// operations wait for, and what is missing at its end. It counts like the runs of this package
// do. Pods have the names of their roles. It is not safe for concurrent use.
type History struct{ s *history }

// NewHistory is of a case of which nothing has happened yet.
func NewHistory(c *plan.Case) *History { return &History{newHistory(c)} }

// Want: a pod is asked for, by a manifest if it is static.
func (w *History) Want(name string, p *v1.Pod, static bool, now time.Time) {
	w.s.want(name, p, static, now)
}

// Unwant: a pod is not to be there any more.
func (w *History) Unwant(name string) { w.s.unwant(name) }

// Changed: a sandbox or container of the runtime has changed.
func (w *History) Changed(t simcri.Transition) { w.s.transition(t) }

// Shown: the API has another version of a pod, which is gone with it if gone is true.
func (w *History) Shown(p *v1.Pod, gone bool, now time.Time) { w.s.version(p, gone, now) }

// Is reports whether a role is in a state, or for what happens once, was in it.
func (w *History) Is(role plan.Role, state plan.State) bool { return w.s.is(role, state) }

// RunningID is the ID of the running incarnation of a container, empty if none runs.
func (w *History) RunningID(role plan.Role) string { return w.s.runningID(role) }

// ReadySandbox is the ID of the ready sandbox of a pod, empty if it has none.
func (w *History) ReadySandbox(pod string) string { return w.s.readySandbox(pod) }

// Loops says whether what a pod does ends and is started again, so that it is never Ready for good.
func (w *History) Loops(pod string) bool {
	c := w.s.pod(pod)
	return c.asked != nil && c.loops()
}

// Missing says what is missing until all is well; empty if nothing is.
func (w *History) Missing() string {
	why, _ := w.s.missing()
	return why
}
