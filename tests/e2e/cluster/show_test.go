package cluster

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/tests/check"
)

// shown is a pod in the columns of kubectl get pods: READY, STATUS, RESTARTS.
func shown(p *v1.Pod) string {
	status, running := string(p.Status.Phase), 0
	if p.Status.Reason != "" {
		status = p.Status.Reason
	}
	total, restarts := len(p.Spec.Containers), int32(0)
	sidecars := map[string]bool{}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			sidecars[c.Name] = true
			total++
		}
	}
	initializing := false
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		restarts += c.RestartCount
		if sidecars[c.Name] && c.Ready {
			running++
		}
		if initializing || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 || sidecars[c.Name] && c.Started != nil && *c.Started {
			continue
		}
		initializing = true
		switch {
		case c.State.Terminated != nil:
			status = "Init:" + ended(c.State.Terminated)
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			status = "Init:" + c.State.Waiting.Reason
		default:
			status = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodInitialized && c.Status == v1.ConditionTrue {
			initializing = false // a sidecar that has ended since does not count
		}
	}
	if !initializing {
		runs := false
		for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
			c := &p.Status.ContainerStatuses[i]
			restarts += c.RestartCount
			switch {
			case c.State.Waiting != nil && c.State.Waiting.Reason != "":
				status = c.State.Waiting.Reason
			case c.State.Terminated != nil:
				status = ended(c.State.Terminated)
			case c.Ready && c.State.Running != nil:
				runs = true
				running++
			}
		}
		if status == "Completed" && runs {
			status = "NotReady"
			if ready(p) == nil {
				status = "Running"
			}
		}
	}
	if p.DeletionTimestamp != nil {
		if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			status = "Terminating"
		}
	}
	return fmt.Sprintf("%d/%d %s %d", running, total, status, restarts)
}

// ended is why a container ended.
func ended(s *v1.ContainerStateTerminated) string {
	switch {
	case s.Reason != "":
		return s.Reason
	case s.Signal != 0:
		return fmt.Sprintf("Signal:%d", s.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", s.ExitCode)
	}
}

// running are the IDs of a pod's containers that run, by name.
func running(p *v1.Pod) map[string]string {
	out := map[string]string{}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if list[i].State.Running != nil {
				out[list[i].Name] = list[i].ContainerID
			}
		}
	}
	return out
}

// is is nil if a pod is shown so.
func is(want string) func(*v1.Pod) error {
	return func(p *v1.Pod) error {
		got := shown(p)
		return check.That(got == want, "want %q", want)
	}
}

// another is nil if a pod is not the one of that UID.
func another(uid types.UID) func(*v1.Pod) error {
	return func(p *v1.Pod) error { return check.That(p.UID != uid, "it is still %s", uid) }
}
