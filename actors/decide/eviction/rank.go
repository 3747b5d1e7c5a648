package eviction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podlife"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Reason is the status reason of an evicted pod, and of its event.
const Reason = "Evicted"

// Victim is a pod to evict.
type Victim struct {
	Pod  *v1.Pod
	Stop podlife.Stop
	// Signal is why, as metrics show it.
	Signal string
	// Annotations are those of the event.
	Annotations smallmap.Map[string, string]
}

// Choose finds the pod to evict for a shortage; false if there is none. uses has the use of each pod, in the
// same order. Pods that use more than they request come first (not for processes), then those of low priority,
// then those that use most beyond their request. Critical pods are never chosen.
func (p *Policy) Choose(s *Shortage, r *Reading, pods []*v1.Pod, uses []Use, now time.Time) (Victim, bool) {
	type candidate struct {
		pod         *v1.Pod
		use         *Use
		over        bool
		priority    int32
		consumption int64
	}
	var all []candidate
	for i, pod := range pods {
		if podspec.Finished(pod) || podspec.Critical(pod) || i >= len(uses) {
			continue
		}
		c := candidate{pod: pod, use: &uses[i], priority: podspec.Priority(pod)}
		requests := podspec.Requests(pod)
		switch s.Signal.Resource() {
		case v1.ResourceMemory:
			q := requests[v1.ResourceMemory]
			c.consumption = int64(c.use.Memory) - q.Value()
			c.over = c.consumption > 0
		case PIDs:
			c.consumption = int64(c.use.Processes)
		case Inodes:
			c.consumption = int64(c.use.on(s.Signal, r).Inodes)
			c.over = c.consumption > 0
		case v1.ResourceEphemeralStorage:
			q := requests[v1.ResourceEphemeralStorage]
			c.consumption = int64(c.use.on(s.Signal, r).Bytes) - q.Value()
			c.over = c.consumption > 0
		default: // no signal is about another resource
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return Victim{}, false
	}
	c := slices.MinFunc(all, func(a, b candidate) int {
		return cmp.Or(first(a.over, b.over), cmp.Compare(a.priority, b.priority),
			cmp.Compare(b.consumption, a.consumption), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	grace := time.Second
	if !s.Immediate() {
		grace = max(grace, min(p.MaxPodGrace, podspec.Grace(c.pod)))
	}
	text := s.message(c.pod, c.use)
	return Victim{Pod: c.pod, Signal: string(s.Signal), Annotations: s.annotations(c.pod, c.use), Stop: podlife.Stop{
		At: now, Grace: grace, Reason: Reason, Message: text, Why: text, Disruption: text, Fail: true,
	}}, true
}

// Seen says whether anything is known of what pods use of what runs short, in the order of Choose.
func (s *Shortage) Seen(r *Reading, uses []Use) bool {
	return slices.ContainsFunc(uses, func(u Use) bool {
		switch s.Kind() {
		case v1.ResourceMemory:
			return u.Memory > 0
		case PIDs:
			return u.Processes > 0
		default: // disk
			return u.on(s.Signal, r) != DiskUse{}
		}
	})
}

// on is what the pod takes on the file system of a signal. Logs and volumes are on the node's.
func (u *Use) on(s Signal, r *Reading) (sum DiskUse) {
	device := r.NodeFS.Device
	switch s {
	case ImageFSAvailable, ImageFSInodesFree:
		device = cmp.Or(r.ImageFS.Device, device)
	case ContainerFSAvailable, ContainerFSInodesFree:
		device = cmp.Or(r.layers().Device, device)
	case MemoryAvailable, AllocatableMemoryAvailable, NodeFSAvailable, NodeFSInodesFree, PIDAvailable:
	}
	node := device == r.NodeFS.Device
	layers := device == cmp.Or(r.layers().Device, r.NodeFS.Device)
	if node {
		sum.add(u.Other)
		for i := range u.Volumes {
			sum.add(u.Volumes[i].DiskUse)
		}
	}
	for i := range u.Containers {
		if node {
			sum.add(u.Containers[i].Logs)
		}
		if layers {
			sum.add(u.Containers[i].Layer)
		}
	}
	return sum
}

func (d *DiskUse) add(o DiskUse) { d.Bytes, d.Inodes = d.Bytes+o.Bytes, d.Inodes+o.Inodes }

// message says why a pod is evicted, in words that users of Kubernetes know.
func (s *Shortage) message(pod *v1.Pod, u *Use) string {
	var b strings.Builder
	what := s.Signal.Resource()
	fmt.Fprintf(&b, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ", what,
		s.quantity(), amount(what, s.Left.Available))
	b.WriteString(s.usage(pod, u))
	return b.String()
}

// quantity shows the threshold as it is configured, a part as what it is of all.
func (s *Shortage) quantity() *resource.Quantity {
	if q := s.Value.Quantity; q != nil {
		return q
	}
	return resource.NewQuantity(int64(s.Quantity), resource.BinarySI)
}

// amount shows bytes in powers of 1024, all else in powers of 10.
func amount(what v1.ResourceName, n uint64) *resource.Quantity {
	format := resource.BinarySI
	if what == Inodes || what == PIDs {
		format = resource.DecimalSI
	}
	return resource.NewQuantity(int64(n), format)
}
