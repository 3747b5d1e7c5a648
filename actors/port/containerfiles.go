package port

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
)

// ContainerFiles are files of containers that are not volumes: /etc/hosts, one per pod, and the
// termination message of each container. The calling convention is Runtime's. Host.RemovePod
// removes them with the pod's directory.
type ContainerFiles interface {
	// MakeFiles makes the files of one incarnation of a container. The pod's directories must exist
	// (Host.PreparePod). Idempotent.
	MakeFiles(ctx context.Context, r MakeFiles, done func(MadeFiles, error))
	// ReadEnvFiles reads files of a pod's emptyDir volumes as containerplan.ReadEnvFiles does, in order; nil for a missing
	// one. It never follows a path out of the volume.
	ReadEnvFiles(ctx context.Context, r ReadEnvFiles, done func([]*containerplan.EnvFileValues, error))
	// WriteHosts writes the pod's addresses into its /etc/hosts, before the first container is started that was made when
	// they were not known.
	WriteHosts(ctx context.Context, r WriteHosts, done func(error))
	// TerminationMessage reads the termination message of a container that has ended.
	TerminationMessage(ctx context.Context, r TerminationMessage, done func(string, error))
}

// MakeFiles asks for the files of one incarnation of a container.
type MakeFiles struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
	// IPs are the known addresses of the pod.
	IPs []string
}

// MadeFiles is what was made for an incarnation.
type MadeFiles struct {
	// Mounts are how the container gets its files.
	Mounts []containerplan.Mount
	// Attempt is the number that it gets: that of MakeFiles, or, of one that seems to be the first and has logs of others,
	// the one after theirs. So no log is written on when nobody else knows of those before.
	Attempt uint32
}

// ReadEnvFiles asks for the files that set variables of a container (core/v1
// EnvVarSource.fileKeyRef).
type ReadEnvFiles struct {
	Pod       *v1.Pod
	Container string
	Files     []containerplan.EnvFile
}

// WriteHosts gives the addresses of a pod.
type WriteHosts struct {
	Pod *v1.Pod
	IPs []string
}

// TerminationMessage names an incarnation of a container that has ended.
type TerminationMessage struct {
	Pod       *v1.Pod
	Container string
	Attempt   uint32
	// File is the file's path on the host if another agent made the container; empty otherwise.
	File string
	// FromLog: the end of the container's log replaces an empty message.
	FromLog bool
}
