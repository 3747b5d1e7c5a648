package podspec

import v1 "k8s.io/api/core/v1"

// StartFailed is the waiting reason of a container that was made, and that the runtime could not start.
const StartFailed = "RunContainerError"

// PostStart is the postStart hook of a container; nil for none, also of no container.
func PostStart(c *v1.Container) *v1.LifecycleHandler {
	if c == nil || c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PostStart
}

// Lives says whether a status shows a container that lives: it runs, or it has begun and its postStart hook has not
// ended yet, until which it is shown as waiting.
func Lives(spec *v1.PodSpec, s *v1.ContainerStatus) bool {
	if s.State.Waiting == nil || s.ContainerID == "" {
		return s.State.Running != nil
	}
	if s.State.Waiting.Reason == StartFailed {
		return false
	}
	if last := s.LastTerminationState.Terminated; last != nil && last.ContainerID == s.ContainerID {
		return false
	}
	c, _ := Find(spec, s.Name)
	return PostStart(c) != nil
}
