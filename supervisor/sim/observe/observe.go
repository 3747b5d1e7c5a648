// Package observe counts pods of a simulated cluster from the API: pods by phase, start
// latencies, and container restarts.
package observe

import (
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/apiclient/simapi"
	"github.com/troupe-dev/troupe/supervisor/sim/report"
)

// Pods counts the pods of a server, from its watch. It costs a few steps for
// each change of a pod, and 64 bytes a pod.
type Pods struct {
	server   *simapi.Server
	clock    simapi.Clock
	stop     func()
	seen     map[types.UID]*seen
	counters []*PodCounter
	// changes is how many changes of pods were seen.
	changes uint64

	counts   report.PhaseCounts
	running  int
	restarts int
	nodes    map[string]*Node
	starts   histogram
}

// Node is what was counted of one node.
type Node struct {
	// Pods that it should run, those that have ended left out, and the ready ones.
	Pods, Ready int
	// Starts is how many pods became ready on it for the first time, Restarts how
	// many containers were started again, since the begin.
	Starts, Restarts int
}

// seen is what is remembered of one pod.
type seen struct {
	bound    time.Time
	on       *Node // that it is counted on; nil for none
	restarts int32
	phase    report.Phase
	counted  bool
	running  bool
	ready    bool
	started  bool // was ready once
}

// New begins to count.
func New(server *simapi.Server, clock simapi.Clock) (*Pods, error) {
	o := &Pods{server: server, clock: clock, seen: map[types.UID]*seen{}, nodes: map[string]*Node{}, starts: histogram{}}
	var err error
	o.stop, err = server.Watch(simapi.WatchOptions{Select: simapi.Select{Kind: port.PodKind}}, o.see)
	return o, err
}

// Stop ends the watch. What was counted stays.
func (o *Pods) Stop() { o.stop() }

// Counts are the pods by phase, now.
func (o *Pods) Counts() report.PhaseCounts { return o.counts }

// Len is how many pods there are.
func (o *Pods) Len() int { return len(o.seen) }

// Running are those whose phase is Running, ready or not.
func (o *Pods) Running() int { return o.running }

// Restarts of containers there were, of pods that are gone as well.
func (o *Pods) Restarts() int { return o.restarts }

// Node is what was counted of a node.
func (o *Pods) Node(name string) Node {
	if n := o.nodes[name]; n != nil {
		return *n
	}
	return Node{}
}

// Starts is how long pods took from being bound to being ready for the first
// time, each pod once, in order of length. The lengths are exact up to 10 ms
// and within 1% above.
func (o *Pods) Starts() []report.Latency { return o.starts.list() }

// StartPercentile is the p-th part (0 to 1) of them, zero if there is none.
func (o *Pods) StartPercentile(p float64) time.Duration { return o.starts.percentile(p) }

// Changes is how many changes of pods were seen: while it stays, all counts stay.
func (o *Pods) Changes() uint64 { return o.changes }

func (o *Pods) see(e simapi.Event) {
	p := e.Object.(*v1.Pod)
	o.changes++
	for _, t := range o.counters {
		t.see(e)
	}
	s := o.seen[p.UID]
	if s == nil {
		if e.Type == simapi.Deleted {
			return
		}
		s = &seen{}
		o.seen[p.UID] = s
	}
	var on *Node
	if name := p.Spec.NodeName; name != "" {
		if on = o.nodes[name]; on == nil {
			on = &Node{}
			o.nodes[name] = on
		}
		if s.bound.IsZero() {
			s.bound = o.clock.Now()
		}
	}
	o.count(s, -1)
	if n := restartsOf(p); n > s.restarts {
		o.restarts += int(n - s.restarts)
		if on != nil {
			on.Restarts += int(n - s.restarts)
		}
		s.restarts = n
	}
	if e.Type == simapi.Deleted {
		delete(o.seen, p.UID)
		return
	}
	s.phase, s.counted = Phase(p), true
	s.running, s.ready = p.Status.Phase == v1.PodRunning, ready(p)
	if s.on = on; s.phase == report.Succeeded || s.phase == report.Failed {
		s.on = nil
	}
	o.count(s, 1)
	if s.ready && !s.started && on != nil {
		s.started = true
		on.Starts++
		o.starts.add(o.clock.Now().Sub(s.bound))
	}
}

// count adds a pod as it was last seen, or takes it away.
func (o *Pods) count(s *seen, by int) {
	if !s.counted {
		return
	}
	o.counts[s.phase] += by
	if s.running {
		o.running += by
	}
	if s.on != nil {
		s.on.Pods += by
		if s.ready {
			s.on.Ready += by
		}
	}
}

// Phase says where a pod is, as a report shows it.
func Phase(p *v1.Pod) report.Phase {
	switch {
	case p.DeletionTimestamp != nil:
		return report.Terminating
	case p.Status.Phase == v1.PodFailed:
		return report.Failed
	case p.Status.Phase == v1.PodSucceeded:
		return report.Succeeded
	case backsOff(p):
		return report.BackOff
	case p.Spec.NodeName == "":
		return report.Pending
	case ready(p):
		return report.Ready
	case p.Status.Phase == v1.PodRunning:
		return report.NotReady
	default:
		return report.Creating
	}
}

func ready(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodReady {
			return p.Status.Conditions[i].Status == v1.ConditionTrue
		}
	}
	return false
}

func backsOff(p *v1.Pod) bool {
	for _, all := range [...][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			if w := all[i].State.Waiting; w != nil && (w.Reason == "CrashLoopBackOff" || w.Reason == "ImagePullBackOff" ||
				w.Reason == "ErrImagePull") {
				return true
			}
		}
	}
	return false
}

func restartsOf(p *v1.Pod) (n int32) {
	for _, all := range [...][]v1.ContainerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for i := range all {
			n += all[i].RestartCount
		}
	}
	return n
}

// histogram counts durations in buckets of 1 ms up to 10 ms, and of 1% above.
type histogram map[int]int

const (
	exactBuckets = 10
	growth       = 1.01
)

func (h histogram) add(d time.Duration) { h[bucket(d)]++ }

func bucket(d time.Duration) int {
	ms := float64(max(d, 0)) / float64(time.Millisecond)
	if ms < exactBuckets {
		return int(math.Round(ms))
	}
	return exactBuckets + int(math.Round(math.Log(ms/exactBuckets)/math.Log(growth)))
}

func middle(bucket int) time.Duration {
	ms := float64(bucket)
	if bucket > exactBuckets {
		ms = exactBuckets * math.Pow(growth, float64(bucket-exactBuckets))
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

func (h histogram) keys() []int {
	keys := make([]int, 0, len(h))
	for k := range h {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (h histogram) list() []report.Latency {
	out := make([]report.Latency, 0, len(h))
	for _, k := range h.keys() {
		out = append(out, report.Latency{Took: middle(k), Pods: h[k]})
	}
	return out
}

func (h histogram) percentile(p float64) time.Duration {
	total := 0
	for _, n := range h {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := max(int(math.Ceil(p*float64(total))), 1)
	for _, k := range h.keys() {
		if rank -= h[k]; rank <= 0 {
			return middle(k)
		}
	}
	panic("unreachable: the ranks are all counted")
}
