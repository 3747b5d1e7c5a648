package probes

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/probe"
)

// Tally counts the runs of one probe of a container, over container restarts, while this
// incarnation of the actor probes the pod.
type Tally struct {
	UID                       types.UID
	Namespace, Pod, Container string
	Kind                      probe.Kind
	// Passed, Failed and Errored count the results; see probe.Verdict.
	Passed, Failed, Errored uint64
	// Total is the sum of the durations, each from due to result. Within is a histogram: it
	// counts the durations up to each of Buckets and above the one before it. The rest are above
	// all.
	Total  time.Duration
	Within [len(Buckets)]uint64
}

// Buckets are the histogram's upper bounds.
var Buckets = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second,
}

// tallied identifies a probe of a pod.
type tallied struct {
	container string
	kind      probe.Kind
}

type counts struct {
	of     [3]uint32
	within [len(Buckets)]uint32
	total  time.Duration
}

// count adds a result.
func (p *podProbes) count(r *run, v probe.Verdict, took time.Duration) {
	key := tallied{r.of.spec.Name, r.Kind}
	c := p.counts[key]
	if c == nil {
		if p.counts == nil {
			p.counts = map[tallied]*counts{}
		}
		c = &counts{}
		p.counts[key] = c
	}
	switch v {
	case probe.Passed, probe.Warned:
		c.of[0]++
	case probe.Failed:
		c.of[1]++
	case probe.Errored:
		c.of[2]++
	}
	c.total += took
	if at := slices.IndexFunc(Buckets[:], func(limit time.Duration) bool { return took <= limit }); at >= 0 {
		c.within[at]++
	}
}

// tallies lists those of all probes, in order of pod and container.
func (a *probes) tallies() []Tally {
	var out []Tally
	for uid, p := range a.pods { // order-free: sorted below
		for key, c := range p.counts { // order-free: sorted below
			t := Tally{
				UID: uid, Namespace: p.pod.Namespace, Pod: p.pod.Name, Container: key.container, Kind: key.kind,
				Passed: uint64(c.of[0]), Failed: uint64(c.of[1]), Errored: uint64(c.of[2]), Total: c.total,
			}
			for i, n := range c.within {
				t.Within[i] = uint64(n)
			}
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(x, y Tally) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Pod, y.Pod), cmp.Compare(x.UID, y.UID),
			cmp.Compare(x.Container, y.Container), cmp.Compare(x.Kind, y.Kind))
	})
	return out
}
