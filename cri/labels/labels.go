// Package labels names the labels and annotations of sandboxes and containers that
// identify a running pod after a restart of the agent. They are those of the kubelet, so
// a node can change between kubelet and troupe without a container restart. The kubelet's
// spec hash is neither written nor read, because its input is the kubelet's Go types.
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
	// SpecHash is ours: the hash of the container's spec it was made from.
	SpecHash = "troupe.dev/container-spec-hash"
	// RestartCount is the attempt, in decimal.
	RestartCount = "io.kubernetes.container.restartCount"
	// TerminationMessagePath and TerminationMessagePolicy are the fields of the spec.
	TerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	TerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	// PreStopHandler is a v1.LifecycleHandler as JSON.
	PreStopHandler = "io.kubernetes.container.preStopHandler"
	// Ports are the container's []v1.ContainerPort as JSON: a preStop hook that
	// names its port still finds it.
	Ports = "io.kubernetes.container.ports"
	// Type is init, container or ephemeral.
	Type = "io.kubernetes.container.type"
	// TerminationGracePeriod and DeletionGracePeriod are seconds, in decimal.
	TerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
	DeletionGracePeriod    = "io.kubernetes.pod.deletionGracePeriod"
)

// Values of the annotation Type.
const (
	TypeInit      = "init"
	TypeContainer = "container"
	TypeEphemeral = "ephemeral"
)
