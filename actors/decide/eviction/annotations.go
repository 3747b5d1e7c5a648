package eviction

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Annotations of the event of an evicted pod, with the kubelet's names. What there may be several of is separated by
// commas, in the same order. A pod that is evicted for its own limits has none.
const (
	starvedResource         = "starved_resource"
	offendingContainers     = "offending_containers"
	offendingContainerUsage = "offending_containers_usage"
	offendingPod            = "offending_pod"
	offendingPodUsage       = "offending_pod_usage"
)

// offender is a part of an evicted pod that uses much of what is short: a container, or the pod as a whole.
type offender struct {
	name          string
	pod           bool
	used, request *resource.Quantity
}

// offenders are the containers of a pod that use more than they request of what is short. If the pod has a request of
// its own for memory (KEP-2837), and that is short, it comes first, whatever it uses. Ephemeral containers can't
// request anything, so they are never blamed.
func (s *Shortage) offenders(pod *v1.Pod, u *Use) (out []offender) {
	what := s.Signal.Resource()
	if own := pod.Spec.Resources; own != nil && what == v1.ResourceMemory {
		if request, is := own.Requests[what]; is {
			out = append(out, offender{name: pod.Name, pod: true, used: amount(what, u.Memory), request: &request})
		}
	}
	containers := podspec.Containers(&pod.Spec)
	for i := range u.Containers {
		c := &u.Containers[i]
		spec, kind := containers(c.Name)
		if spec == nil || kind == podspec.Ephemeral {
			continue
		}
		used := c.Memory
		switch what {
		case v1.ResourceMemory:
		case v1.ResourceEphemeralStorage:
			used = c.Logs.Bytes + c.Layer.Bytes
		default:
			continue
		}
		request := spec.Resources.Requests[what]
		if q := amount(what, used); q.Cmp(request) > 0 {
			out = append(out, offender{name: c.Name, used: q, request: &request})
		}
	}
	return out
}

// usage says in words that users of Kubernetes know what a pod used of what is short.
func (s *Shortage) usage(pod *v1.Pod, u *Use) string {
	var b strings.Builder
	for _, o := range s.offenders(pod, u) {
		kind := "Container"
		if o.pod {
			kind = "Pod"
		}
		fmt.Fprintf(&b, "%s %s was using %s, request is %s, has larger consumption of %s. ", kind, o.name, o.used, o.request,
			s.Signal.Resource())
	}
	return b.String()
}

// annotations say the same as message does, for programs.
func (s *Shortage) annotations(pod *v1.Pod, u *Use) (out smallmap.Map[string, string]) {
	var names, used []string
	for _, o := range s.offenders(pod, u) {
		if o.pod {
			out.Set(offendingPod, o.name)
			out.Set(offendingPodUsage, o.used.String())
			continue
		}
		names, used = append(names, o.name), append(used, o.used.String())
	}
	out.Set(offendingContainers, strings.Join(names, ","))
	out.Set(offendingContainerUsage, strings.Join(used, ","))
	out.Set(starvedResource, string(s.Signal.Resource()))
	return out
}
