package controlplane

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// demand is what a pod asks for, or what a node has: millicores, bytes, pods, and extended resources, nil for none.
type demand struct {
	cpu, memory, pods int64
	extended          map[v1.ResourceName]int64
}

func (d demand) plus(o demand) demand { return d.with(o, func(a, b int64) int64 { return a + b }) }

func (d demand) minus(o demand) demand { return d.with(o, func(a, b int64) int64 { return a - b }) }

// atMost has the larger part of both.
func (d demand) atMost(o demand) demand {
	return d.with(o, func(a, b int64) int64 { return max(a, b) })
}

func (d demand) with(o demand, f func(a, b int64) int64) demand {
	out := demand{cpu: f(d.cpu, o.cpu), memory: f(d.memory, o.memory), pods: f(d.pods, o.pods), extended: d.extended}
	if len(o.extended) == 0 {
		return out
	}
	out.extended = make(map[v1.ResourceName]int64, len(d.extended)+len(o.extended))
	maps.Copy(out.extended, d.extended)
	for name, n := range o.extended { // order-free: a map again
		out.extended[name] = f(d.extended[name], n)
	}
	return out
}

func (d demand) fits(in demand) bool {
	return d.cpu <= in.cpu && d.memory <= in.memory && d.pods <= in.pods && d.lacks(in) == ""
}

// lacks is the first extended resource of which there is not enough, empty for none.
func (d demand) lacks(in demand) v1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(d.extended)) {
		if n := d.extended[name]; n > 0 && n > in.extended[name] {
			return name
		}
	}
	return ""
}

// of is what the API says that a pod asks for: the sum of its containers and
// sidecars, or more if an init container needs it meanwhile, and the overhead.
func of(p *v1.Pod) demand {
	sum, peak := demand{pods: 1}, demand{}
	for c, kind := range podspec.Lasting(&p.Spec) {
		with := sum.plus(ofList(c.Resources.Requests))
		if kind == podspec.Init {
			peak = peak.atMost(with)
		} else {
			sum = with
		}
	}
	return sum.atMost(peak).plus(ofList(p.Spec.Overhead))
}

func ofList(l v1.ResourceList) demand {
	d := demand{cpu: l.Cpu().MilliValue(), memory: l.Memory().Value()}
	for name, q := range l { // order-free: a map again
		if !podspec.IsExtended(name) {
			continue
		}
		if d.extended == nil {
			d.extended = map[v1.ResourceName]int64{}
		}
		d.extended[name] = q.Value()
	}
	return d
}

// candidate is a node as the scheduler sees it.
type candidate struct {
	node *v1.Node
	have demand // allocatable
	used demand
	// order breaks ties: nodes that came first are taken first.
	order int
	index int // in the heap
	// full is its share when it was weighed last.
	full int64
}

// share is how full the node is, in millionths of its fullest resource.
func (p *candidate) share() int64 {
	part := func(used, have int64) int64 {
		if have <= 0 {
			return 1e6
		}
		return used * 1e6 / have
	}
	// Pods that ask for nothing are spread by their number.
	most := max(part(p.used.cpu, p.have.cpu), part(p.used.memory, p.have.memory), part(p.used.pods, p.have.pods))
	for name, n := range p.used.extended { // order-free: the largest
		if n > 0 {
			most = max(most, part(n, p.have.extended[name]))
		}
	}
	return most
}

// candidates are the nodes, the emptiest first.
type candidates []*candidate

func (h candidates) Len() int { return len(h) }

func (h candidates) Less(i, j int) bool {
	a, b := h[i], h[j]
	if c := cmp.Compare(a.full, b.full); c != 0 {
		return c < 0
	}
	return a.order < b.order
}

func (h candidates) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *candidates) Push(x any) {
	p := x.(*candidate)
	p.index, p.full = len(*h), p.share()
	*h = append(*h, p)
}

func (h *candidates) Pop() any {
	old := *h
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	p.index = -1
	return p
}

// fix finds a node its place in the heap after it has changed.
func (h *candidates) fix(p *candidate) {
	p.full = p.share()
	heap.Fix(h, p.index)
}

// refusal is a pod that fits nowhere. Another that asks for the same does not either, until some node has more room.
type refusal struct {
	pod *v1.Pod
	is  demand
	why string
}

// same reports whether another pod may be placed exactly where that one may.
func (r *refusal) same(pod *v1.Pod, d demand) bool {
	a, b := &r.pod.Spec, &pod.Spec
	return r.is.cpu == d.cpu && r.is.memory == d.memory && r.is.pods == d.pods && maps.Equal(r.is.extended, d.extended) &&
		maps.Equal(a.NodeSelector, b.NodeSelector) && equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations)
}

// pick finds the emptiest node that the pod may and can run on, and that also, if
// it is not nil, does not refuse. Without one it says why, in the words of the
// scheduler that users know.
func (h *candidates) pick(pod *v1.Pod, d demand, also func(*v1.Node) string) (*candidate, string) {
	var passed []*candidate
	reasons := map[string]int{}
	defer func() {
		for _, p := range passed {
			heap.Push(h, p)
		}
	}()
	for h.Len() > 0 {
		p := heap.Pop(h).(*candidate)
		passed = append(passed, p)
		why := refuses(p, pod, d)
		if why == "" && also != nil {
			why = also(p.node)
		}
		if why == "" {
			return p, ""
		}
		reasons[why]++
	}
	return nil, unschedulable(len(passed), reasons)
}

// refuses says why a pod can't be placed there, empty if it can.
func refuses(p *candidate, pod *v1.Pod, d demand) string {
	n := p.node
	switch {
	case n.DeletionTimestamp != nil || n.Spec.Unschedulable &&
		!tolerates(pod, &v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}):
		return "node(s) were unschedulable"
	case !selects(pod.Spec.NodeSelector, n.Labels):
		return "node(s) didn't match Pod's node affinity/selector"
	}
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != v1.TaintEffectPreferNoSchedule && !tolerates(pod, t) {
			return "node(s) had untolerated taint(s)"
		}
	}
	left := p.have.minus(p.used)
	switch {
	case d.pods > left.pods:
		return "Too many pods"
	case d.cpu > 0 && d.cpu > left.cpu:
		return "Insufficient cpu"
	case d.memory > 0 && d.memory > left.memory:
		return "Insufficient memory"
	}
	if name := d.lacks(left); name != "" {
		return "Insufficient " + string(name)
	}
	return ""
}

func tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		if t.Operator == v1.TolerationOpExists || t.Key != "" && t.Value == taint.Value {
			return true
		}
	}
	return false
}

func selects(want, labels map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func unschedulable(nodes int, reasons map[string]int) string {
	var all []string
	for why, n := range reasons {
		if n == 0 { // it is not about nodes
			all = append(all, why)
			continue
		}
		all = append(all, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(all)
	text := fmt.Sprintf("0/%d nodes are available", nodes)
	for i, why := range all {
		if i == 0 {
			text += ": " + why
		} else {
			text += ", " + why
		}
	}
	return text + "."
}
