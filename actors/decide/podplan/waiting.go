package podplan

import (
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
	"github.com/troupe-dev/troupe/actors/decide/volumeplan"
)

// wait records why a container doesn't run. Without a reason it records the default one. An earlier
// record stands: it is more specific.
func (p *planner) wait(c *v1.Container, kind podspec.Kind, reason, message string) {
	if p.waits.Has(c.Name) {
		return
	}
	if reason == "" {
		reason = defaultReason(p.in.Pod)
		if p.in.Volumes.State != volumeplan.Up && p.in.Volumes.Message != "" {
			message = p.in.Volumes.Message
		} else if p.in.Cgroup.State == podcgroup.Failed {
			message = p.in.Cgroup.Message
		} else if p.in.Claims.Trouble() != "" {
			message = p.in.Claims.Trouble()
		} else if f, ok := p.in.Failures[Lane{Kind: LaneSandbox}]; ok && p.sandbox == nil {
			message = f.Message
		}
	}
	p.setWaiting(c.Name, reason, message)
}

func (p *planner) setWaiting(name, reason, message string) {
	message = podspec.Share(&p.in.Pod.Spec, message, maxWaiting, maxAllWaiting)
	p.waits.Set(name, Waiting{Reason: reason, Message: message})
}

// maxWaiting is how long the message is of a container that waits, and maxAllWaiting of all of a pod together, in
// bytes: what a pod waits for is in the status of each of its containers, and the apiserver takes no longer one.
const (
	maxWaiting    = 2 << 10
	maxAllWaiting = 128 << 10
)

// tellNoImage tells users that a container whose turn it is can't be made, because its image or that of a volume can't
// be had: once for each reason. A kubelet tells it at each look at the pod (kuberuntime_container.go startContainer,
// kuberuntime_manager.go toKubeContainerImageVolumes).
func (p *planner) tellNoImage(name string) {
	if w := p.waits.At(name); w != p.waitedFor(name) {
		p.note(Note{Warning: true, Reason: "Failed", Container: name, Message: "Error: " + w.Reason})
	}
}

// waitAll sets the default waiting reason for all containers of a pod that is not known yet.
func (p *planner) waitAll() {
	if len(p.in.View.Containers) > 0 {
		return
	}
	for c := range podspec.Lasting(&p.in.Pod.Spec) {
		p.wait(c, podspec.Main, "", "")
	}
}

// defaultReason is the waiting reason of a container that waits for nothing in particular.
func defaultReason(pod *v1.Pod) string {
	if len(pod.Spec.InitContainers) > 0 {
		return "PodInitializing"
	}
	return "ContainerCreating"
}
