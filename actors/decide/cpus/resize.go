package cpus

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/admit"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// A resize of what a container has alone (KEP-1287 with cpuManagerPolicy static; KEP-5554 has what is planned):
//
//	fewer ──► some of what it has
//	more ───► all that it has, and others near to them
//	none ───► it shares CPUs with the others
//	some, and it had none ──► as a new container
//
// What a container no longer has in the answer stays its own in the state until it has left it: see [Held] and [Left].

// Refusal is why a pod that runs can't be given what it asks for.
type Refusal struct {
	// Never: not even if no other pod had CPUs.
	Never   bool
	Message string
}

// Resize is [Rules.Place] for a pod that runs and asks for other resources. If it is refused, it keeps what it has.
func (r *Rules) Resize(s State, pod *v1.Pod, others ...topology.Provider) (map[string]cpuset.CPUSet, *Refusal) {
	p := placing{Rules: r, pod: pod, grows: true}
	own, why := p.place(s, others)
	if why != nil {
		message := p.message(why)
		if r.fits(pod, s[pod.UID]) {
			return nil, &Refusal{Message: message}
		}
		if r.fits(pod, r.fewer(pod, s[pod.UID])) {
			return nil, &Refusal{Message: message + "; other containers of the pod give up CPUs only when they have left " +
				"them: resize these first, and then the others"}
		}
		return nil, &Refusal{Never: true, Message: message}
	}
	if r.Shared(s).IsEmpty() {
		for name := range s[pod.UID] { // order-free: any will do, they are told alike
			if _, still := own[name]; !still {
				return nil, &Refusal{Message: "there are no CPUs that containers share now, and the pod asks for none of its own"}
			}
		}
	}
	return own, nil
}

// fits says whether a pod could be given what it asks for, with what it has, if no other pod had CPUs.
func (r *Rules) fits(pod *v1.Pod, held map[string]cpuset.CPUSet) bool {
	alone := placing{Rules: r, pod: pod, grows: true}
	_, why := alone.place(State{pod.UID: held}, nil)
	return why == nil
}

// fewer is what the containers of a pod have once those that ask for fewer CPUs have left the others.
func (r *Rules) fewer(pod *v1.Pod, held map[string]cpuset.CPUSet) map[string]cpuset.CPUSet {
	want, out := Entitled(pod), make(map[string]cpuset.CPUSet, len(held))
	for name, had := range held { // order-free: each by itself
		kept := had
		if n := want[name]; n < had.Size() {
			kept, _ = Take(r.machine, had, n, r.options, 0) //nolint:errcheck // then it keeps none
		}
		if !kept.IsEmpty() {
			out[name] = kept
		}
	}
	return out
}

func (p *placing) message(why *admit.Rejection) string {
	switch c := p.short; {
	case why.Reason == topology.AffinityError:
		return "topologyManagerPolicy does not admit where more CPUs are: " + why.Message
	case c == nil:
		return why.Message
	default:
		return fmt.Sprintf("container %q has %d exclusive CPUs and asks for %d: %v", c.Name, p.held[c.Name].Size(),
			Exclusive(p.pod, c, false), p.err)
	}
}

// Held is what containers have in the state when they are told to run on now: that, and all that they may still run on.
func Held(before, now map[string]cpuset.CPUSet) map[string]cpuset.CPUSet {
	out := make(map[string]cpuset.CPUSet, len(now))
	for name, set := range before { // order-free: a union
		out[name] = set
	}
	for name, set := range now { // order-free: a union
		out[name] = out[name].Union(set)
	}
	return out
}

// Left is what containers have in the state when they run on now alone. They get nothing that they do not have.
func Left(before, now map[string]cpuset.CPUSet) map[string]cpuset.CPUSet {
	out := make(map[string]cpuset.CPUSet, len(now))
	for name, set := range before { // order-free: a map again
		if rest := set.Intersection(now[name]); !rest.IsEmpty() {
			out[name] = rest
		}
	}
	return out
}

// Same says whether containers have the same CPUs.
func Same(a, b map[string]cpuset.CPUSet) bool {
	if len(a) != len(b) {
		return false
	}
	for name, set := range a { // order-free: all must be so
		if other, is := b[name]; !is || !set.Equals(other) {
			return false
		}
	}
	return true
}

// Entitled is how many CPUs the containers of a pod are to have alone, by name; none without any.
func Entitled(pod *v1.Pod) map[string]int {
	out := map[string]int{}
	for c := range podspec.Lasting(&pod.Spec) {
		if n := Exclusive(pod, c, false); n > 0 {
			out[c.Name] = n
		}
	}
	return out
}
