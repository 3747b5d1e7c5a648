package podcgroup

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/admit"
)

// Requests is what a pod asks for, its overhead included.
func Requests(pod *v1.Pod) v1.ResourceList { return admit.Requests(pod) }

// Limits is the most that a pod may use, of what is limited: all main
// containers and sidecars together, or an init container beside the sidecars
// before it (KEP-753). What the pod as a whole says stands above that
// (KEP-2837); its overhead is added to what is limited.
func Limits(pod *v1.Pod) v1.ResourceList {
	sum, sidecars, start := v1.ResourceList{}, v1.ResourceList{}, v1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(sum, pod.Spec.Containers[i].Resources.Limits)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(sum, c.Resources.Limits)
			add(sidecars, c.Resources.Limits)
			most(start, sidecars)
			continue
		}
		now := sidecars.DeepCopy()
		add(now, c.Resources.Limits)
		most(start, now)
	}
	most(sum, start)
	if pod.Spec.Resources != nil {
		for name, q := range pod.Spec.Resources.Limits { // order-free: by key
			sum[name] = q.DeepCopy()
		}
	}
	for name, q := range pod.Spec.Overhead { // order-free: by key
		if have, ok := sum[name]; ok && have.Sign() > 0 {
			have = have.DeepCopy()
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

func add(to, more v1.ResourceList) {
	for name, q := range more { // order-free: by key
		sum := to[name].DeepCopy()
		sum.Add(q)
		to[name] = sum
	}
}

func most(to, other v1.ResourceList) {
	for name, q := range other { // order-free: by key
		if have, ok := to[name]; !ok || q.Cmp(have) > 0 {
			to[name] = q.DeepCopy()
		}
	}
}
