package node

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/pod"
)

// panicWrap replaces the behavior of one pod's actor by one that panics. The
// name is namespace/name, with or without the node's name behind it.
func panicWrap(
	name, node string,
) func(*v1.Pod, func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
	return func(p *v1.Pod, construct func() kernel.Behavior[pod.Message]) func() kernel.Behavior[pod.Message] {
		full := p.Namespace + "/" + p.Name
		if full != name && full != name+"-"+node {
			return construct
		}
		return func() kernel.Behavior[pod.Message] { return &panicking{construct()} }
	}
}

type panicking struct{ kernel.Behavior[pod.Message] }

// Receive implements kernel.Behavior.
func (*panicking) Receive(*kernel.Context[pod.Message], pod.Message) {
	panic("panic requested with --chaos-panic-pod")
}
