package observe

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/scenario"
)

// PodCounter keeps the counts of the pods that are of a workload and have an image,
// where these are not empty.
type PodCounter struct {
	workload, image string
	counts          scenario.Counts
	pods            map[types.UID]*v1.Pod
}

// Count begins to count the pods of a selection, those that are there included.
func (o *Pods) Count(workload, image string) (*PodCounter, error) {
	for _, t := range o.counters {
		if t.workload == workload && t.image == image {
			return t, nil
		}
	}
	t := &PodCounter{workload: workload, image: image, pods: map[types.UID]*v1.Pod{},
		counts: scenario.Counts{Waiting: map[string]int{}}}
	all, err := simapi.Objects[*v1.Pod](o.server, simapi.Select{})
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		t.see(simapi.Event{Type: simapi.Added, Object: p})
	}
	o.counters = append(o.counters, t)
	return t, nil
}

// Counts are those of now. NodesReady is not among them.
func (t *PodCounter) Counts() scenario.Counts { return t.counts }

func (t *PodCounter) see(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	if old := t.pods[p.UID]; old != nil {
		t.count(old, -1)
		delete(t.pods, p.UID)
	}
	if e.Type == simapi.Deleted || !t.selects(p) {
		return
	}
	t.pods[p.UID] = p
	t.count(p, 1)
}

func (t *PodCounter) selects(p *v1.Pod) bool {
	if t.workload != "" && p.Labels["app"] != t.workload {
		return false
	}
	return t.image == "" || len(p.Spec.Containers) > 0 && p.Spec.Containers[0].Image == t.image
}

func (t *PodCounter) count(p *v1.Pod, by int) {
	c := &t.counts
	c.Restarts += by * int(restartsOf(p))
	if p.DeletionTimestamp != nil {
		c.Terminating += by
		return
	}
	c.Pods += by
	switch p.Status.Phase {
	case v1.PodRunning:
		c.Running += by
	case v1.PodSucceeded:
		c.Succeeded += by
	case v1.PodFailed:
		c.Failed += by
	case v1.PodPending, v1.PodUnknown:
	}
	if ready(p) {
		c.Ready += by
	}
	for _, all := range [...][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			if w := all[i].State.Waiting; w != nil {
				c.Waiting[w.Reason] += by
			}
		}
	}
}
