// Package labels names the labels and annotations of sandboxes and containers that
// identify a running pod after a restart of the agent. They are those of the kubelet, so
// a node can change from one to the other, and back, without a container restart.
package labels

// Labels on sandboxes (the first three) and containers.
const (
	PodName       = "io.kubernetes.pod.name"
	PodNamespace  = "io.kubernetes.pod.namespace"
	PodUID        = "io.kubernetes.pod.uid"
	ContainerName = "io.kubernetes.container.name"
)

// Annotations on containers.
const (
	// SpecHash is troupe's: the hash of the spec that the container was made from.
	SpecHash = "troupe.dev/container-spec-hash"
	// KubeletHash is the kubelet's hash of a container's spec, as a hexadecimal number. It is
	// written for a kubelet that takes over the node, which restarts containers with another hash
	// or none. It is read of a container that a kubelet made.
	KubeletHash = "io.kubernetes.container.hash"
	// RestartCount is the attempt, in decimal.
	RestartCount = "io.kubernetes.container.restartCount"
	// TerminationMessagePath and TerminationMessagePolicy are the fields of the spec.
	TerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	// PreStopHandler is a v1.LifecycleHandler as JSON.
	PreStopHandler = "io.kubernetes.container.preStopHandler"
	// Ports are the container's []v1.ContainerPort as JSON, for preStop hooks that name a port.
	Ports = "io.kubernetes.container.ports"
	// Type is init, container or ephemeral.
	Type = "io.kubernetes.container.type"
	// TerminationGracePeriod and DeletionGracePeriod are seconds, in decimal.
	TerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
	DeletionGracePeriod    = "io.kubernetes.pod.deletionGracePeriod"
)

// Own reports whether an annotation of a container is one of those above. A device plugin can't set it: an agent obeys
// them when it stops a container whose pod it does not know.
func Own(annotation string) bool {
	switch annotation {
	case SpecHash, KubeletHash, RestartCount, TerminationMessagePath, TerminationMessagePolicy, PreStopHandler, Ports,
		Type,
		TerminationGracePeriod, DeletionGracePeriod:
		return true
	}
	return false
}

// Values of the annotation Type.
const (
	TypeInit      = "init"
	TypeContainer = "container"
	TypeEphemeral = "ephemeral"
)
