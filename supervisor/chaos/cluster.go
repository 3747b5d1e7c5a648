package chaos

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/nodeobject"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/podstatus"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/chaos/plan"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
)

// workload is a workload of a cluster.
type workload struct {
	name string
	// replicas and template are what was asked for last; no replicas if it is not to be.
	replicas int
	template *v1.Pod
}

// workloadOf is the workload whose controller has made the pod of this name, nil for none. The name is
// that of the workload, of a revision (r1), and five random letters.
func (s *history) workloadOf(pod string) *workload {
	if len(s.workloads) == 0 {
		return nil
	}
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return nil
	}
	k := strings.LastIndex(pod[:i], "-r")
	if k < 0 {
		return nil
	}
	return s.workloads[pod[:k]]
}

// of are the pods of a role: one, or those of a workload in order of their names.
func (s *history) of(role string) (out []*podState) {
	w := s.workloads[role]
	if w == nil {
		return []*podState{s.pod(role)}
	}
	for _, name := range sorted(s.pods) {
		if c := s.pods[name]; c.workload == w {
			out = append(out, c)
		}
	}
	return out
}

// asks: in a cluster others than the case may delete a pod, and a restored apiserver has it again.
func (s *history) asks(c *podState, p *v1.Pod, wanted bool) {
	switch {
	case !s.cluster || c.static || c.workload != nil:
	case wanted:
		c.asked = p
	case c.uid == p.UID:
		c.asked = nil
	}
}

// forget drops a pod of a workload of which nothing is left.
func (s *history) forget(name string, c *podState) {
	if c.workload != nil && c.shown == nil && c.objects == 0 {
		delete(s.pods, name)
	}
}

// workloadIs reports whether a workload, or a container of one of its pods, is in a state.
func (s *history) workloadIs(w *workload, role plan.Role, state plan.State) bool {
	pods := s.of(w.name)
	switch state {
	case plan.Ready:
		return s.short(w) == ""
	case plan.Gone:
		return len(pods) == 0
	default:
		return slices.ContainsFunc(pods, func(c *podState) bool { return c.is(role, state) })
	}
}

// short says what a workload lacks; empty if all its pods are Ready and there are no others.
func (s *history) short(w *workload) string {
	n := 0
	for _, c := range s.of(w.name) {
		if c.shown != nil && c.shown.DeletionTimestamp == nil && podspec.Finished(c.shown) {
			continue // its controller counts it as gone, and leaves it
		}
		switch {
		case c.shown == nil:
			return fmt.Sprintf("the runtime still has %d objects of a pod of %s", c.objects, w.name)
		case !w.made(c.shown):
			return fmt.Sprintf("pod %s is of an old template", c.shown.Name)
		case !podstatus.Ready(c.status) && !c.unschedulable() && !w.loops():
			return fmt.Sprintf("pod %s on %s is not Ready, but %s", c.shown.Name, c.shown.Spec.NodeName, c.phase())
		}
		n++
	}
	if n != w.replicas {
		return fmt.Sprintf("%s has %d pods, not %d", w.name, n, w.replicas)
	}
	return ""
}

// loops says that its pods are never Ready for good.
func (w *workload) loops() bool { return (&podState{asked: w.template}).loops() }

// made says whether a pod was made of the newest template.
func (w *workload) made(p *v1.Pod) bool {
	return w.template != nil && slices.EqualFunc(p.Spec.Containers, w.template.Spec.Containers,
		func(a, b v1.Container) bool { return a.Image == b.Image })
}

// unschedulable says that no node can take the pod: the fault of none.
func (c *podState) unschedulable() bool {
	if c.shown == nil || c.shown.Spec.NodeName != "" {
		return false
	}
	return slices.ContainsFunc(c.shown.Status.Conditions, func(x v1.PodCondition) bool {
		return x.Type == v1.PodScheduled && x.Reason == v1.PodReasonUnschedulable
	})
}

// clusterMissing says what is missing of workloads and nodes.
func (r *runner) clusterMissing() string {
	for _, name := range sorted(r.workloads) {
		if why := r.short(r.workloads[name]); why != "" {
			return why
		}
	}
	for m := range r.there() {
		n, err := simapi.Object[*v1.Node](r.world.API(), "", m.Name())
		if err != nil || !nodeobject.Ready(&n.Status) {
			return fmt.Sprintf("node %s is not Ready", m.Name())
		}
	}
	return ""
}

// twice says which pod runs where it should not: on two nodes, or on another than its own.
func (r *runner) twice() string {
	if !r.cluster {
		return ""
	}
	where := map[string]string{}
	for m := range r.there() {
		pods := m.Runtime().Truth().Runtime.Pods
		for i := range pods {
			p := &pods[i]
			if !slices.ContainsFunc(p.Sandboxes, func(s observed.Sandbox) bool { return s.State == observed.SandboxReady }) {
				continue
			}
			name := p.Ref.Namespace + "/" + p.Ref.Name
			if other, is := where[name]; is {
				return fmt.Sprintf("pod %s runs on %s and on %s", name, other, m.Name())
			}
			where[name] = m.Name()
			if c := r.pods[r.podName(p.Ref.Name)]; c == nil || !c.static && (c.shown == nil || c.shown.UID != p.Ref.UID ||
				c.shown.Spec.NodeName != m.Name()) {
				return fmt.Sprintf("pod %s runs on %s, and the API has no such pod there", name, m.Name())
			}
		}
		if n := m.Machine().Host.Pods(); n > r.bound(m.Name()) {
			return fmt.Sprintf("the machine %s has directories of %d pods, %d are wanted", m.Name(), n, r.bound(m.Name()))
		}
	}
	return ""
}

// bound is how many pods are to be on a node.
func (r *runner) bound(node string) (n int) {
	for _, c := range r.pods { // order-free: a count
		if c.asked != nil && c.static && r.caseNodes[0].Name() == node || c.shown != nil && !c.static &&
			c.shown.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// deploy makes a workload, or gives it another template or number.
func (r *runner) deploy(o *plan.Op) {
	s, err := plan.ShapeOf(o)
	if err != nil {
		panic(err) // the case was validated
	}
	r.apply(o.Role.Pod, s.Replicas, s.Pod)
}

func (r *runner) apply(name string, replicas int, template *v1.Pod) {
	w := r.workloads[name]
	if w == nil {
		w = &workload{name: name}
		r.workloads[name] = w
	}
	w.replicas, w.template = replicas, template
	err := r.world.ControlPlane().Apply(controlplane.Workload{
		Namespace: template.Namespace, Name: name, Replicas: replicas,
		Template: v1.PodTemplateSpec{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()},
	})
	if err != nil {
		panic(err) // the case was validated
	}
}

// scale gives a workload another number of pods; nothing if it was deleted.
func (r *runner) scale(o *plan.Op) {
	if w := r.workloads[o.Role.Pod]; w != nil && w.template != nil {
		n, _ := strconv.Atoi(o.Arg("to"))
		r.apply(w.name, n, w.template)
	}
}

// update gives the template of a workload another image.
func (r *runner) update(w *workload, container, image string) {
	if w.template == nil {
		return
	}
	t := w.template.DeepCopy()
	setImage(t, container, image)
	r.apply(w.name, w.replicas, t)
}

func (r *runner) removeWorkload(w *workload) {
	if w.template != nil {
		w.replicas = 0
		_ = r.world.ControlPlane().Remove(w.template.Namespace, w.name)
		w.template = nil
	}
}

// there are the machines that were not taken away.
func (r *runner) there() iter.Seq[*caseNode] {
	return func(yield func(*caseNode) bool) {
		for _, m := range r.caseNodes {
			if !m.lost && !yield(m) {
				return
			}
		}
	}
}

// lose takes a machine's power, for a time, or takes the machine away for good if none is given.
func (r *runner) lose(m *caseNode, wait time.Duration) {
	if wait > 0 {
		r.powerCycle(m, wait)
		return
	}
	if m.lost || len(slices.Collect(r.there())) == 1 {
		return // it was lost before, or is the last
	}
	m.Remove()
	m.lost = true
	for _, p := range m.Runtime().Truth().Runtime.Pods {
		name := r.podName(p.Ref.Name)
		c := r.pod(name)
		c.objects -= len(p.Sandboxes) + len(p.Containers)
		r.forget(name, c)
	}
}

// drain keeps new pods from a node, and deletes those that it has, or lets it have pods again.
func (r *runner) drain(m *caseNode, drain bool) {
	// It fails for a node that has not registered yet.
	if drain {
		_ = r.world.ControlPlane().Drain(m.Name())
	} else {
		_ = r.world.ControlPlane().Cordon(m.Name(), false)
	}
}

// backup is the apiserver's store at one time, and what was asked for then.
type backup struct {
	*simapi.Backup
	asked map[string]*v1.Pod
	// workloads are workloads, as they were.
	workloads map[string]workload
}

func (r *runner) takeBackup() {
	r.backup = &backup{r.world.API().Checkpoint(), map[string]*v1.Pod{}, map[string]workload{}}
	for name, w := range r.workloads { // order-free: a map of the same
		r.backup.workloads[name] = *w
	}
	for name, c := range r.pods { // order-free: a map of the same
		r.backup.asked[name] = c.asked
	}
}

// restore brings back the store, and so the pods and workloads that were asked for then.
func (r *runner) restore() {
	before := map[string]*v1.Pod{}
	for name, c := range r.pods { // order-free: all of them
		before[name] = c.asked
		if !c.static && c.workload == nil {
			c.asked = r.backup.asked[name]
		}
	}
	for _, m := range r.caseNodes {
		m.rules.Restored()
	}
	// First the workloads: controllers take to pods of theirs as they are told of them.
	for _, name := range sorted(r.workloads) {
		if was := r.backup.workloads[name]; was.template != nil {
			r.apply(name, was.replicas, was.template)
		} else {
			r.removeWorkload(r.workloads[name])
		}
	}
	r.world.API().Restore(r.backup.Backup)
	for _, m := range r.caseNodes {
		if m.lost { // a cloud's controller deletes the nodes of machines that there are no more
			_ = r.world.API().Delete(port.APIDelete{Key: port.APIKey{Kind: port.NodeKind, Name: m.Name()}})
		}
	}
	for name, c := range r.pods { // order-free: all of them
		c.revived = c.revived || c.asked != nil && !same(before[name], c.asked)
	}
}

// same says whether two are one pod that was asked for: in a cluster, as the API shows it.
func same(a, b *v1.Pod) bool { return a == b || a != nil && a.UID != "" && a.UID == b.UID }
