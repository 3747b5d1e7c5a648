package run

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/troupe-dev/troupe/supervisor/sim"
	"github.com/troupe-dev/troupe/supervisor/sim/controlplane"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
	"github.com/troupe-dev/troupe/supervisor/sim/observe"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
)

// seenAfter is how long what a step does may take to show.
const seenAfter = 20 * time.Millisecond

func (r *run) step(s *scenario.Step) error {
	where := fmt.Sprintf("%s:%d", r.options.ScenarioName, s.Line)
	if s.At != nil {
		r.doing = fmt.Sprintf("until %v", s.At.Duration)
		if rest := s.At.Duration - r.now(); rest > 0 {
			if err := r.pass(rest); err != nil {
				return err
			}
		}
	}
	if d := r.options.Duration; d > 0 && r.now() >= d {
		return errDurationOver
	}
	r.doing = s.Do()
	err := r.perform(s, where)
	if err == nil {
		r.steps++
		err = r.pass(seenAfter) // what it did is seen before the next
	}
	if err != nil && !endsRun(err) {
		return fmt.Errorf("%s: %s: %w", where, s.Do(), err)
	}
	return err
}

func (r *run) perform(s *scenario.Step, where string) error {
	switch {
	case s.Create != nil:
		r.mark(report.Step, where, fmt.Sprintf("create %s: %d pods", s.Create.Workload, s.Create.Replicas))
		return r.cp.Apply(workload(s.Create))
	case s.Update != nil:
		r.mark(report.Step, where, "update "+s.Update.Workload)
		return r.update(s.Update)
	case s.Scale != nil:
		r.mark(report.Step, where, fmt.Sprintf("scale %s to %d", s.Scale.Workload, s.Scale.Replicas))
		return r.change(s.Scale.Workload, func(w *controlplane.Workload) { w.Replicas = s.Scale.Replicas })
	case s.Delete != nil:
		r.mark(report.Step, where, "delete "+s.Delete.Workload)
		return r.remove(s.Delete)
	case s.AddNodes != nil:
		r.mark(report.Step, where, fmt.Sprintf("%d more nodes", s.AddNodes.Count))
		return r.addNodes(s.AddNodes.Count)
	case s.Cordon != nil:
		return r.each(s.Cordon, report.Step, where, "cordon", func(n string) error { return r.cp.Cordon(n, true) })
	case s.Uncordon != nil:
		return r.each(s.Uncordon, report.Step, where, "uncordon", func(n string) error { return r.cp.Cordon(n, false) })
	case s.Drain != nil:
		return r.each(s.Drain, report.Step, where, "drain", r.cp.Drain)
	case s.Fail != nil:
		return r.each(s.Fail, report.Fault, where, "turn off", r.onNode((*sim.Node).PowerOff))
	case s.Recover != nil:
		return r.each(s.Recover, report.Step, where, "turn on", r.onNode((*sim.Node).PowerOn))
	case s.KillAgent != nil:
		return r.each(s.KillAgent, report.Fault, where, "kill the agent of", r.onNode((*sim.Node).RestartAgent))
	case s.StopPlugin != nil:
		return r.plugins(s.StopPlugin, report.Fault, where, "stop the plugin", (*machine.Plugins).Stop)
	case s.StartPlugin != nil:
		return r.plugins(s.StartPlugin, report.Step, where, "start the plugin", (*machine.Plugins).Start)
	case s.FailDevices != nil:
		return r.setHealth(s.FailDevices, report.Fault, where, "fail devices", false)
	case s.HealDevices != nil:
		return r.setHealth(s.HealDevices, report.Step, where, "heal devices", true)
	case s.APIServer != nil:
		r.outage(s.APIServer.Outage.Duration, where)
		return nil
	case s.Advance != nil:
		return r.pass(s.Advance.Duration)
	case s.Wait != nil:
		return r.wait(&s.Wait.Condition, s.Wait.Within.Duration, where)
	case s.Expect != nil:
		return r.wait(s.Expect, 0, where)
	case s.Always != nil:
		tally, err := r.pods.Count(s.Always.Workload, s.Always.Image)
		if err != nil {
			return err
		}
		r.expected++
		r.always = append(r.always, &always{condition: s.Always, tally: tally, where: where})
		r.checkAlways()
		return nil
	case s.Release != nil:
		kept := r.always[:0]
		for _, a := range r.always {
			if s.Release.Workload != "" && a.condition.Workload != s.Release.Workload {
				kept = append(kept, a)
			}
		}
		r.always = kept
		return nil
	default:
		return r.performOnVolumes(s, where)
	}
}

// remove deletes a workload.
func (r *run) remove(d *scenario.Delete) error {
	err := r.cp.Remove(metav1.NamespaceDefault, d.Workload)
	if err == nil && d.Claims {
		r.cp.RemoveClaims(d.Workload)
	}
	return err
}

func (r *run) mark(kind report.MarkKind, where, text string) {
	r.marks = append(r.marks, report.Mark{At: r.now(), Kind: kind, Text: text, Where: where})
}

func (r *run) change(name string, f func(*controlplane.Workload)) error {
	w, ok := r.cp.Workload(metav1.NamespaceDefault, name)
	if !ok {
		return fmt.Errorf("there is no workload %s", name)
	}
	f(&w)
	return r.cp.Apply(w)
}

func (r *run) update(u *scenario.Update) error {
	return r.change(u.Workload, func(w *controlplane.Workload) {
		w.Template = *w.Template.DeepCopy()
		if u.Image != "" {
			w.Template.Spec.Containers[0].Image = u.Image
		}
		annotate(&w.Template, u.Behavior)
		w.MaxSurge, w.MaxUnavailable = u.MaxSurge, u.MaxUnavailable
	})
}

// each does f to the nodes that are meant.
func (r *run) each(o *scenario.OfNodes, kind report.MarkKind, where, verb string, f func(string) error) error {
	names := o.Nodes
	switch {
	case o.Same:
		names = r.drawn
	case o.Count > 0:
		names = nil
		for _, i := range r.draw.Perm(len(r.nodes))[:min(o.Count, len(r.nodes))] {
			names = append(names, r.nodes[i])
		}
		r.drawn = names
	}
	const shown = 3
	text := verb + " " + strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		text += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	r.mark(kind, where, text)
	for _, n := range names {
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) onNode(f func(*sim.Node)) func(string) error {
	return func(name string) error {
		n := r.world.Node(name)
		if n == nil {
			return fmt.Errorf("there is no node %s", name)
		}
		f(n)
		return nil
	}
}

// outage cuts every node off from the apiserver for a while. Where outages
// overlap it is back when the last of them ends.
func (r *run) outage(d time.Duration, where string) {
	server := r.world.API()
	server.SetDown(true)
	r.cp.Suspend()
	r.down = max(r.down, r.now()+d)
	r.world.Clock().AfterFunc(d, func() {
		if r.now() < r.down {
			return
		}
		server.SetDown(false)
		r.cp.Resume()
	})
	r.marks = append(r.marks,
		report.Mark{At: r.now(), Until: r.now() + d, Kind: report.Fault, Text: "no apiserver", Where: where})
}

func (r *run) wait(k *scenario.Condition, within time.Duration, where string) error {
	tally, err := r.pods.Count(k.Workload, k.Image)
	if err != nil {
		return err
	}
	r.expected++
	counts := func() *scenario.Counts { return r.counts(k, tally) }
	if k.Holds(counts()) {
		return nil
	}
	held := false
	if within > 0 {
		if held, err = r.until(within, func() bool { return k.Holds(counts()) }); err != nil && !held {
			r.expected-- // the outcome is unknown
			return err
		}
	}
	if !held {
		want := k.String()
		if within > 0 {
			want += fmt.Sprintf(" within %v", within)
		}
		r.failures = append(r.failures, report.Failure{At: r.now(), Want: want, Got: k.Got(counts()), Where: where})
	}
	return err
}

// counts are what a condition is held against.
func (r *run) counts(k *scenario.Condition, t *observe.PodCounter) *scenario.Counts {
	c := t.Counts()
	c.NodesReady = r.ready
	if k.OfVolumes() {
		of := r.cp.StorageOf(k.Workload)
		c.Attached, c.Bound, c.Resizing = of.Attached, of.Bound, of.Resizing
	}
	return &c
}

// checkAlways tells once of each condition that does not hold any more.
func (r *run) checkAlways() {
	for _, a := range r.always {
		if a.broken {
			continue
		}
		c := r.counts(a.condition, a.tally)
		if !a.condition.Holds(c) {
			a.broken = true
			r.failures = append(r.failures,
				report.Failure{At: r.now(), Want: "always " + a.condition.String(), Got: a.condition.Got(c), Where: a.where})
		}
	}
}

// behavior is the prefix of the annotations that say what a pod does.
const behavior = "sim.troupe.dev/"

func annotate(t *v1.PodTemplateSpec, what map[string]string) {
	if len(what) > 0 && t.Annotations == nil {
		t.Annotations = map[string]string{}
	}
	for k, v := range what {
		if v == "" {
			delete(t.Annotations, behavior+k)
		} else {
			t.Annotations[behavior+k] = v
		}
	}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func workload(c *scenario.Create) controlplane.Workload {
	container := v1.Container{
		Name: c.Workload, Image: c.Image, Resources: v1.ResourceRequirements{Requests: v1.ResourceList{},
			Limits: v1.ResourceList{}},
	}
	if c.CPU != nil {
		container.Resources.Requests[v1.ResourceCPU] = *c.CPU
	}
	if c.Memory != nil {
		container.Resources.Requests[v1.ResourceMemory] = *c.Memory
	}
	if c.MemoryLimit != nil {
		container.Resources.Limits[v1.ResourceMemory] = *c.MemoryLimit
	}
	if c.Guaranteed {
		maps.Copy(container.Resources.Limits, container.Resources.Requests)
	}
	for name, n := range c.Devices { // order-free: maps again
		q := *resource.NewQuantity(int64(n), resource.DecimalSI)
		container.Resources.Limits[v1.ResourceName(name)], container.Resources.Requests[v1.ResourceName(name)] = q, q
	}
	if c.Readiness != nil {
		const healthPort = 8080
		container.Ports = []v1.ContainerPort{{ContainerPort: healthPort}}
		container.ReadinessProbe = &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(healthPort)}},
			PeriodSeconds: int32(math.Ceil(c.Readiness.Seconds())),
		}
	}
	w := controlplane.Workload{Name: c.Workload, Replicas: c.Replicas, Template: v1.PodTemplateSpec{Spec: v1.PodSpec{
		RestartPolicy: c.RestartPolicy, Containers: []v1.Container{container},
	}}}
	if c.GracePeriod != nil {
		seconds := int64(math.Ceil(c.GracePeriod.Seconds()))
		w.Template.Spec.TerminationGracePeriodSeconds = &seconds
	}
	annotate(&w.Template, c.Behavior)
	if c.Kind == scenario.StatefulSet {
		w.Stateful = stateful(c, &w.Template)
	}
	return w
}
