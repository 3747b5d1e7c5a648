package port

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// ContainerFiles are the files of containers that are no volumes: /etc/hosts, one
// for the pod, and the termination message of each container. The calling
// convention is Runtime's. They go with the pod's directory (Host.RemovePod).
type ContainerFiles interface {
	// MakeFiles makes them for one incarnation of a container, and gives where
	// they belong in it. The pod's directories are there (Host.PreparePod).
	// Idempotent.
	MakeFiles(ctx context.Context, r MakeFiles, done func([]Mount, error))
	// ReadEnvFiles reads files of a pod's emptyDir volumes, in order; nil for one
	// that is not there. Nothing that a container put there leads out of its volume.
	ReadEnvFiles(ctx context.Context, r ReadEnvFiles, done func([][]byte, error))
	// WriteHosts says in the pod's /etc/hosts what its addresses are. Containers
	// that run see it.
	WriteHosts(ctx context.Context, r WriteHosts, done func(error))
	// TerminationMessage reads the termination message of a container that has ended.
	TerminationMessage(ctx context.Context, r TerminationMessage, done func(string, error))
}

// MakeFiles asks for the files of one incarnation of a container.
type MakeFiles struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
	// IPs are the pod's addresses, as far as they are known.
	IPs []string
}

// ReadEnvFiles asks for the files that the environment of a container is taken from
// (core/v1 EnvVarSource.fileKeyRef).
type ReadEnvFiles struct {
	Pod       *v1.Pod
	Container string
	Files     []EnvFile
}

// EnvFile is a file in a volume. Root is where that is on the host; Path is
// relative.
type EnvFile struct{ Volume, Root, Path string }

// WriteHosts says what the addresses of a pod are.
type WriteHosts struct {
	Pod *v1.Pod
	IPs []string
}

// TerminationMessage names an incarnation of a container that has ended.
type TerminationMessage struct {
	Pod       *v1.Pod
	Container string
	Attempt   uint32
	// FromLog: the end of its log stands for a message that is empty.
	FromLog bool
}
