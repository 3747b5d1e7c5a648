// Package port declares the interfaces that actors need: to the runtime and the host
// below them and to the apiserver above them. The daemon connects real implementations,
// the simulation simulated ones. Actors cannot tell the difference.
//
// # Calling convention
//
// Every call is asynchronous: it returns at once and calls done exactly once,
// later, from any goroutine. That one shape fits a gRPC call on a goroutine
// and a step of a simulation on a virtual clock, in which nothing may block.
// A call that is given a ctx that ends calls done soon after with an error of
// kind Deadline or Canceled; what the far side did by then is unknown, and the
// caller has to look. A simulated call may keep silent for ever (a hang): the
// effect runner of the kernel holds the deadline, not the port.
package port

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerenv"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podobjects"
)

// Runtime is a container runtime and its images (CRI v1 RuntimeService and
// ImageService), seen through troupe's values. Stop and remove are idempotent:
// what is gone already is no error. All errors are *Error.
type Runtime interface {
	// Version asks who the runtime is; it is also the health check.
	Version(ctx context.Context, done func(RuntimeVersion, error))
	// Status asks for its conditions (RuntimeReady, NetworkReady) and handlers.
	Status(ctx context.Context, done func(RuntimeStatus, error))

	RunPodSandbox(ctx context.Context, r RunPodSandbox, done func(id string, err error))
	StopPodSandbox(ctx context.Context, id string, done func(error))
	RemovePodSandbox(ctx context.Context, id string, done func(error))
	// PodSandboxStatus fails with NotFound if there is no such sandbox.
	PodSandboxStatus(ctx context.Context, id string, done func(observed.Sandbox, error))

	CreateContainer(ctx context.Context, r CreateContainer, done func(id string, err error))
	StartContainer(ctx context.Context, id string, done func(error))
	// StopContainer sends the stop signal and, after grace, SIGKILL. It is done
	// when the container is dead. Zero grace kills at once.
	StopContainer(ctx context.Context, id string, grace time.Duration, done func(error))
	RemoveContainer(ctx context.Context, id string, done func(error))
	// ContainerStatus fails with NotFound if there is no such container. It may
	// leave out SandboxID: the CRI says that in lists only.
	ContainerStatus(ctx context.Context, id string, done func(observed.Container, error))
	// ExecSync runs a command and collects at most 64 KiB of its output. A
	// command that ends with a code other than 0 is no error of the call. At the end
	// of timeout, or of ctx, it is killed; with a timeout of zero only with ctx.
	ExecSync(ctx context.Context, containerID string, command []string, timeout time.Duration,
		done func(ExecResult, error))

	// UpdateContainer gives a container other limits. It may be one that was made
	// and not started. Idempotent.
	UpdateContainer(ctx context.Context, r UpdateContainer, done func(error))
	// UpdateSandbox tells the runtime, and whoever is plugged into it, what a pod's
	// cgroup is about to have, which it does not change itself. With kind
	// Unsupported nobody wants to know; any other error is a no.
	UpdateSandbox(ctx context.Context, r UpdateSandbox, done func(error))
	// ContainerMemory is how many bytes of memory a running container uses.
	ContainerMemory(ctx context.Context, id string, done func(bytes int64, err error))

	// List reads all sandboxes and containers, those of one pod if uid is not
	// empty. It does not fill what only an inspection fills.
	List(ctx context.Context, uid string, done func(observed.Runtime, error))

	// PullImage resolves to the image's reference in the runtime.
	PullImage(ctx context.Context, r PullImage, done func(ref string, err error))
	// ImageStatus gives ok=false, and no error, if the image is not there.
	ImageStatus(ctx context.Context, image string, done func(img observed.Image, ok bool, err error))
	ListImages(ctx context.Context, done func([]observed.Image, error))
	RemoveImage(ctx context.Context, image string, done func(error))

	// Events opens the stream of container events. It calls opened once when
	// the stream stands, event for each, and done once when it ends: with
	// kind Unsupported if the runtime has none. Events are hints: they may
	// come late, twice or never.
	Events(ctx context.Context, opened func(), event func(RuntimeEvent), done func(error))
}

// RuntimeVersion is who the runtime is.
type RuntimeVersion struct {
	Name       string // containerd, cri-o, simcri
	Version    string
	APIVersion string // v1
}

// RuntimeCondition is one condition of the runtime.
type RuntimeCondition struct {
	Type    string // RuntimeReady, NetworkReady
	Status  bool
	Reason  string
	Message string
}

// RuntimeStatus is how the runtime says it is.
type RuntimeStatus struct {
	Conditions []RuntimeCondition
	// Handlers and Features are what a node shows of it (status.runtimeHandlers,
	// status.features); nil where the runtime says nothing of them.
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures
}

// RunPodSandbox asks for a sandbox for Pod. The sandbox's name in the runtime
// follows from the pod and Attempt: the same twice is NameReserved.
type RunPodSandbox struct {
	Pod     *v1.Pod
	Attempt uint32
	// Objects has the pod's RuntimeClass, if it names one.
	Objects podobjects.Set
}

// Mount is one resolved mount of a container.
type Mount struct {
	// Name is the volume's name in the pod, for messages.
	Name          string
	ContainerPath string
	HostPath      string
	ReadOnly      bool
	Propagation   v1.MountPropagationMode
	// RecursiveReadOnly is the mount's own; empty is Disabled (KEP-3857).
	RecursiveReadOnly v1.RecursiveReadOnlyMode
	// Relabel: what is mounted is the pod's own, so that on a host with SELinux it
	// gets the label of the pod's containers.
	Relabel bool
	// Image is mounted instead of HostPath, if it is not empty: what PullImage or
	// ImageStatus gave for UserImage. ImageSubPath is what of it, empty for all.
	Image, UserImage, ImageSubPath string
}

// CreateContainer asks for one incarnation of a container.
type CreateContainer struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
	SandboxID string
	// SandboxAttempt is the attempt of that sandbox: the runtime is told the
	// sandbox's configuration again with each container.
	SandboxAttempt uint32
	// ImageRef is what PullImage or ImageStatus gave for the container's image.
	ImageRef string
	// Image is what the runtime reports of the image, such as its user; zero if unknown.
	Image observed.Image
	// SpecHash goes into the annotations, to find it again.
	SpecHash string
	// PodIPs are known once the sandbox was inspected; needed if the container
	// reads status.podIP or status.podIPs.
	PodIPs []string
	// HostIPs are the node's addresses.
	HostIPs []string
	// Mounts are the volumes as they are on this host, with /etc/hosts, the
	// termination log and the service account among them.
	Mounts []Mount
	// Objects is what is known of the objects of the API that the pod uses, for
	// the variables that are taken from them.
	Objects podobjects.Set
	// TargetID is the container whose processes an ephemeral one is to see
	// (core/v1 EphemeralContainer.targetContainerName); empty for none.
	TargetID string
	// EnvFiles are the files that its variables are taken from, by volume and path.
	EnvFiles containerenv.Files
	// LogDirectory is the pod's, under /var/log/pods.
	LogDirectory string
}

// UpdateContainer asks for other limits for a container: To stands for the CPU and
// memory of its spec, what else its spec says stays as it is.
type UpdateContainer struct {
	ID        string
	Pod       *v1.Pod
	Container *v1.Container
	To        observed.Resources
}

// UpdateSandbox tells of other limits of a pod's cgroup: To has the overhead of the
// pod in it.
type UpdateSandbox struct {
	ID  string
	Pod *v1.Pod
	To  observed.Resources
}

// ExecResult is what a command in a container gave.
type ExecResult struct {
	ExitCode int32
	Stdout   []byte
	Stderr   []byte
}

// PullImage asks for an image.
type PullImage struct {
	Image string
	// Pod is who it is pulled for; the runtime may use its annotations. May be nil.
	Pod *v1.Pod
	// Auth is the credential, nil for none.
	Auth *ImageAuth
}

// ImageAuth is a registry credential (CRI AuthConfig).
type ImageAuth struct {
	Username, Password, Auth, ServerAddress, IdentityToken, RegistryToken string
}

// RuntimeEvent says that something happened to a container or to a sandbox
// (then ContainerID is the sandbox's ID).
type RuntimeEvent struct {
	Kind        observed.EventKind
	ContainerID string
	Pod         observed.PodRef
	At          time.Time
}
