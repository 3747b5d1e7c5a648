// Package admit decides whether a pod may run on this node.
//
// A pod that may not is Failed, with a reason that users know. The node makes these checks itself,
// because a scheduler may decide on outdated facts and never sees a static pod. A pod with a ready sandbox is not
// checked: it was admitted when it began (podset.Adopt).
package admit

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/devicestate"
	"github.com/troupe-dev/troupe/actors/decide/podspec"
)

// Node is the node's data that the checks need. Values, never mutated.
type Node struct {
	Name        string
	Labels      map[string]string
	Taints      []v1.Taint
	Allocatable v1.ResourceList
	// OS and Arch as Go names them: linux, amd64.
	OS, Arch string
	// AllowedUnsafeSysctls are names, or prefixes that end in *; with dots or slashes.
	AllowedUnsafeSysctls []string
	// AppArmor: this host can confine a container by a profile. StrictGroups: its runtime supports
	// supplementalGroupsPolicy Strict, which ignores the groups of the image.
	AppArmor, StrictGroups bool
	// Devices are those of device plugins on this node, nil for none.
	Devices *devicestate.State
	// Claims: ResourceClaims can be prepared on this node.
	Claims bool
	// Pressure is zero for a pod that the runtime has already.
	Pressure Pressure
}

// Pressure is what keeps new pods out for a time: a resource of the node that runs short, or its shutdown.
// Pods that run already are not affected.
type Pressure struct {
	Memory, Disk, PID bool
	ShuttingDown      bool
}

// Rejection is why a pod may not run: the reason and message of a Failed pod.
type Rejection struct {
	Reason  string
	Message string
	// Of is cpu or memory if the pod can't have any of it to itself, and empty for other reasons.
	Of v1.ResourceName
	// ByLabels: only the labels of the node are why. A newer version of the Node may have others.
	ByLabels bool
	// Short is how much of each resource must become free so that the pod fits, if the node has too little: what
	// Message says of the first one, for all of them. Nil for other reasons.
	Short v1.ResourceList
}

// UnexpectedAdmissionError is the reason of a pod that does not get something of its own.
const UnexpectedAdmissionError = "UnexpectedAdmissionError"

// Unexpected is the rejection of a pod that does not get something of its own, as the kubelet words it.
func Unexpected(err error) *Rejection {
	return &Rejection{
		Reason: UnexpectedAdmissionError, Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err),
	}
}

// Show writes the rejection into a status.
func (r *Rejection) Show(s *v1.PodStatus) {
	s.Phase, s.Reason, s.Message = v1.PodFailed, r.Reason, "Pod was rejected: "+r.Message
}

// Request is the pod to check, and the pods that are there already.
type Request struct {
	Pod *v1.Pod
	// Others are the pods on the node that hold resources, without Pod and without finished pods.
	Others []*v1.Pod
	Node   *Node
}

// Rule is one check. It returns nil if the pod passes. Rules are pure.
type Rule func(*Request) *Rejection

// Check applies all rules in turn, those of this package and then more. It returns the first
// rejection; nil if the pod may run.
func Check(pod *v1.Pod, others []*v1.Pod, node *Node, more ...Rule) *Rejection {
	r := Request{Pod: pod, Others: holding(pod, others), Node: node}
	for _, rules := range [...][]Rule{
		{
			shuttingDown, pressure, sysctls, devices, operatingSystem, groupsPolicy, resources, affinity, nodeName,
			hostPorts, taints, appArmor,
		}, more,
	} {
		for _, rule := range rules {
			if no := rule(&r); no != nil {
				return no
			}
		}
	}
	return nil
}

// holding are the other pods that still hold resources.
func holding(pod *v1.Pod, others []*v1.Pod) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(others))
	for _, o := range others {
		if o.UID != pod.UID && !podspec.Finished(o) {
			out = append(out, o)
		}
	}
	return out
}

func reject(reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// predicate is a rejection in the words of a scheduler's predicate.
func predicate(name, why string) *Rejection {
	return reject(name, "Predicate %s failed: %s", name, why)
}

func operatingSystem(r *Request) *Rejection {
	if want, ok := r.Pod.Labels[v1.LabelOSStable]; ok && want != r.Node.OS {
		return reject("PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `%s` label doesn't match node label", v1.LabelOSStable)
	}
	if r.Pod.Spec.OS != nil && string(r.Pod.Spec.OS.Name) != r.Node.OS {
		return reject("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
	}
	return nil
}

func nodeName(r *Request) *Rejection {
	if n := r.Pod.Spec.NodeName; n != "" && r.Node.Name != "" && n != r.Node.Name {
		return predicate("NodeName", "node(s) didn't match the requested node name")
	}
	return nil
}

// taints checks only NoExecute, and not for static pods.
func taints(r *Request) *Rejection {
	if podspec.Static(r.Pod) {
		return nil
	}
	for i := range r.Node.Taints {
		t := &r.Node.Taints[i]
		if t.Effect == v1.TaintEffectNoExecute && !tolerated(r.Pod, t) {
			return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
		}
	}
	return nil
}

func tolerated(pod *v1.Pod, t *v1.Taint) bool {
	for i := range pod.Spec.Tolerations {
		o := &pod.Spec.Tolerations[i]
		if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
			continue
		}
		switch o.Operator {
		case v1.TolerationOpExists:
			return true
		case v1.TolerationOpEqual, "":
			if o.Key != "" && o.Value == t.Value {
				return true
			}
		case v1.TolerationOpLt, v1.TolerationOpGt:
			// Alpha, behind a feature gate (KEP-5471): tolerates nothing here.
		}
	}
	return false
}
