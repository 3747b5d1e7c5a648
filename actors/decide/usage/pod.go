package usage

import (
	"cmp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Of is what is known about a pod before anything is read: its living containers, from its status.
// It is false for a pod without a living container that has ended or not begun.
func Of(p *v1.Pod) (Pod, bool) {
	out := Pod{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.Time
	}
	for _, list := range [...][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for i := range list {
			s := &list[i]
			if !podspec.Lives(&p.Spec, s) {
				continue
			}
			_, id, _ := strings.Cut(s.ContainerID, "://")
			c := Container{Name: s.Name, RuntimeID: id, Image: s.Image}
			if s.State.Running != nil {
				c.Started = s.State.Running.StartedAt.Time
			}
			out.Containers = append(out.Containers, c)
		}
	}
	return out, len(out.Containers) > 0 || p.Status.Phase == v1.PodRunning
}

// Fill adds what the runtime knows better about the containers of pods: writable layers, and everything
// of containers whose cgroup is unknown.
func Fill(pods []Pod, all []Container) {
	by := make(map[string]*Container, len(all))
	for i := range all {
		by[all[i].RuntimeID] = &all[i]
	}
	for i := range pods {
		p := &pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			from := by[c.RuntimeID]
			if from == nil {
				continue
			}
			c.Rootfs = from.Rootfs
			if c.Cgroup.CPU == nil && c.Cgroup.Memory == nil {
				c.Cgroup = from.Cgroup
			}
		}
		p.Sum()
	}
}

// Sum computes the usage of a pod without its own cgroup: the sum of its containers, if all of them
// are known. Swap may be known of some, and has a limit if that of all of these is known.
func (p *Pod) Sum() {
	if p.ID != "" || len(p.Containers) == 0 {
		return
	}
	var cpu CPU
	var memory Memory
	var swap *Swap
	at := p.Containers[0].Cgroup.At
	for i := range p.Containers {
		c := &p.Containers[i].Cgroup
		if c.CPU == nil || c.Memory == nil {
			return
		}
		if c.At.Before(at) {
			at = c.At
		}
		cpu.Usage += c.CPU.Usage
		memory.Usage += c.Memory.Usage
		memory.WorkingSet += c.Memory.WorkingSet
		memory.Reclaimable += c.Memory.Reclaimable
		memory.RSS += c.Memory.RSS
		memory.Faults += c.Memory.Faults
		memory.MajorFaults += c.Memory.MajorFaults
		swap = swap.plus(c.Swap)
	}
	p.Cgroup = Cgroup{At: at, CPU: &cpu, Memory: &memory, Swap: swap}
}

// plus is the swap of two cgroups; nil stands for what is not known.
func (s *Swap) plus(other *Swap) *Swap {
	if s == nil || other == nil {
		return cmp.Or(s, other)
	}
	sum := Swap{Usage: s.Usage + other.Usage, Limit: NoLimit}
	if s.Limit != NoLimit && other.Limit != NoLimit {
		sum.Limit = s.Limit + other.Limit
	}
	return &sum
}

// On is the usage of a whole file system for one purpose, with the free space of the whole.
func (d *Disk) On(whole *Disk) *Disk {
	out := *whole
	out.At, out.Used, out.InodesUsed = d.At, d.Used, d.InodesUsed
	return &out
}

// Sample is a reading of CPU time, and the rate reported then.
type Sample struct {
	at    time.Time
	usage time.Duration
	rate  *uint64
}

// Next sets the rate of c, which was read after last, and returns the next sample. Within apart of
// the last sample, that one and its rate stay. If the counter went back, it is another cgroup's.
func Next(last Sample, known bool, c *Cgroup, apart time.Duration) Sample {
	next := Sample{at: c.At, usage: c.CPU.Usage}
	if c.CPU.Rate != nil { // the runtime has reported it
		return next
	}
	if !known || next.usage < last.usage {
		return next
	}
	passed := next.at.Sub(last.at)
	if passed < apart {
		c.CPU.Rate = last.rate
		return last
	}
	next.rate = new(uint64(float64(next.usage-last.usage) / passed.Seconds()))
	c.CPU.Rate = next.rate
	return next
}
