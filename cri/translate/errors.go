package translate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/port"
)

// invalid wraps the error of an impossible request.
func invalid(verb string, pod *v1.Pod, container string, err error) *port.Error {
	return &port.Error{Kind: port.InvalidConfig, Verb: verb, Object: Object(pod, container), Detail: err.Error()}
}

// Object names a pod, or one of its containers, in messages: default/web or default/web/app.
func Object(pod *v1.Pod, container string) string {
	s := pod.Namespace + "/" + pod.Name
	if container != "" {
		s += "/" + container
	}
	return s
}

// podDescription names a pod as in kubelet messages.
func podDescription(pod *v1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}

func isTrue(b *bool) bool { return b != nil && *b }
