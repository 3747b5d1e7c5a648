package translate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// invalid wraps what a pod asked for in vain.
func invalid(verb string, pod *v1.Pod, container string, err error) *port.Error {
	return &port.Error{Kind: port.InvalidConfig, Verb: verb, Object: Object(pod, container), Detail: err.Error()}
}

// Object names a pod, or one of its containers, as messages do: default/web or
// default/web/app.
func Object(pod *v1.Pod, container string) string {
	s := pod.Namespace + "/" + pod.Name
	if container != "" {
		s += "/" + container
	}
	return s
}

// podDescription is how messages that kubectl users know name a pod.
func podDescription(pod *v1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

func isTrue(b *bool) bool { return b != nil && *b }
