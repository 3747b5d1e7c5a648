// Package port declares the interfaces that actors need: to the runtime and the host below them and
// to the apiserver above them. The daemon connects real implementations, the simulation simulated
// ones. Actors cannot tell the difference.
//
// # Calling convention
//
// Every call is asynchronous: it returns at once and calls done exactly once, later, from any
// goroutine. That fits both a gRPC call on a goroutine and a step of a simulation on a virtual
// clock, where nothing may block. If ctx ends, done is called soon after with an error of kind
// Deadline or Canceled. The far side may have done anything by then, so the caller must read the
// state again. A simulated call may hang and never answer: the kernel's effect runner enforces the
// deadline, not the port.
package port

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/devices"
	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Runtime is a container runtime and its images (CRI v1 RuntimeService and ImageService), in
// troupe's types. Stop and remove are idempotent: it is no error if the object is already gone. All
// errors are *Error.
type Runtime interface {
	// Version returns the runtime's version; it is also the health check.
	Version(ctx context.Context, done func(RuntimeVersion, error))
	// Status returns its conditions (RuntimeReady, NetworkReady) and handlers.
	Status(ctx context.Context, done func(RuntimeStatus, error))

	RunPodSandbox(ctx context.Context, r RunPodSandbox, done func(id string, err error))
	StopPodSandbox(ctx context.Context, id string, done func(error))
	RemovePodSandbox(ctx context.Context, id string, done func(error))
	// PodSandboxStatus fails with NotFound if there is no such sandbox.
	PodSandboxStatus(ctx context.Context, id string, done func(observed.Sandbox, error))

	CreateContainer(ctx context.Context, r CreateContainer, done func(id string, err error))
	StartContainer(ctx context.Context, id string, done func(error))
	// StopContainer sends the stop signal and, after grace, SIGKILL. It is done when the container is
	// dead. Zero grace kills at once.
	StopContainer(ctx context.Context, id string, grace time.Duration, done func(error))
	RemoveContainer(ctx context.Context, id string, done func(error))
	// ContainerStatus fails with NotFound if there is no such container. SandboxID may be empty: the
	// CRI has it only in lists.
	ContainerStatus(ctx context.Context, id string, done func(observed.Container, error))
	// ExecSync runs a command and collects at most 64 KiB of its output. An exit code other than 0 is
	// no error of the call. The command is killed at the end of timeout or of ctx; a timeout of zero
	// means none.
	ExecSync(ctx context.Context, containerID string, command Command, timeout time.Duration,
		done func(ExecResult, error))

	// UpdateContainer changes the limits of a container, which may not have started yet. Idempotent.
	UpdateContainer(ctx context.Context, r UpdateContainer, done func(error))
	// UpdateSandbox tells the runtime and its plugins the limits that a pod's cgroup is about to get.
	// The runtime does not set them itself. Unsupported means that the runtime does not need to know;
	// any other error is a refusal.
	UpdateSandbox(ctx context.Context, r UpdateSandbox, done func(error))
	// ContainerMemory is how many bytes of memory a running container uses.
	ContainerMemory(ctx context.Context, id string, done func(bytes int64, err error))

	// List reads all sandboxes and containers, or those of one pod if uid is not empty. It leaves out
	// details that need an inspection.
	List(ctx context.Context, uid string, done func(observed.Runtime, error))

	// PullImage resolves to the image's reference in the runtime.
	PullImage(ctx context.Context, r PullImage, done func(ref string, err error))
	// ImageStatus returns ok=false, and no error, if the image does not exist.
	ImageStatus(ctx context.Context, image string, done func(img observed.Image, ok bool, err error))
	ListImages(ctx context.Context, done func([]observed.Image, error))
	RemoveImage(ctx context.Context, image string, done func(error))

	// Events opens the stream of container events. It calls opened once when the stream is open, event
	// for each event, and done once when it ends: with kind Unsupported if the runtime has none.
	// Events are hints: they may come late, twice or never.
	Events(ctx context.Context, opened func(), event func(RuntimeEvent), done func(error))
}

// PodNetwork is the part of a runtime that may configure the network of pods itself (CRI UpdateRuntimeConfig).
type PodNetwork interface {
	// SetPodCIDR tells it the networks of this node's pods, comma-separated. Idempotent.
	SetPodCIDR(ctx context.Context, cidr string, done func(error))
}

// RuntimeVersion is the name and version of the runtime.
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

// RuntimeStatus is the state that the runtime reports.
type RuntimeStatus struct {
	Conditions []RuntimeCondition
	// Handlers and Features are shown by the node (status.runtimeHandlers, status.features); nil if
	// the runtime does not report them.
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures
}

// RunPodSandbox asks for a sandbox for Pod. The sandbox's name in the runtime follows from the pod
// and Attempt: using it twice gives NameReserved.
type RunPodSandbox struct {
	Pod     *v1.Pod
	Attempt uint32
	// RuntimeHandler is that of the pod's RuntimeClass, empty for the default.
	RuntimeHandler string
	// Groups are those of podobjects.Set.Groups.
	Groups []int64
}

// CreateContainer asks for one incarnation of a container.
type CreateContainer struct {
	Pod       *v1.Pod
	Container *v1.Container
	Attempt   uint32
	SandboxID string
	// SandboxAttempt is the attempt of that sandbox: the runtime needs the sandbox's configuration
	// again for each container.
	SandboxAttempt uint32
	// ImageRef is the reference from PullImage or ImageStatus for the container's image.
	ImageRef string
	// Image is the runtime's information on the image, such as its user; zero if unknown.
	Image observed.Image
	// SpecHash is stored in the annotations and read back by inspections.
	SpecHash string
	// RuntimeHandler is that of the pod's RuntimeClass, empty for the default. It may be empty if the
	// container needs no feature of the handler.
	RuntimeHandler string
	// Groups are those of podobjects.Set.Groups.
	Groups []int64
	// Env holds the container's variables.
	Env containerplan.Environment
	// Mounts are the volumes on this host, including /etc/hosts, the termination log and the service
	// account.
	Mounts []containerplan.Mount
	// TargetID is the container whose processes an ephemeral container can see (core/v1
	// EphemeralContainer.targetContainerName); empty for none.
	TargetID string
	// LogDirectory is the pod's, under /var/log/pods.
	LogDirectory string
	// Placement is where it runs.
	Placement cpus.ContainerPlacement
	// Devices are what it gets for its devices of device plugins; nil for none.
	Devices *devices.Given
}

// UpdateContainer asks for other limits of a container, or for other CPUs. To replaces the CPU and memory of its spec;
// the rest of the spec stays. With Placement, the container is moved there, and all its limits stay: To does not count.
type UpdateContainer struct {
	ID        string
	Pod       *v1.Pod
	Container *v1.Container
	To        observed.Resources
	Placement *cpus.ContainerPlacement
}

// UpdateSandbox announces other limits of a pod's cgroup. To includes the pod's overhead.
type UpdateSandbox struct {
	ID  string
	Pod *v1.Pod
	To  observed.Resources
}

// Command makes the words of a command, where the call is made: they may be long, and are not kept. If they take more
// than room, in bytes, the error is containerplan.ErrTooLong.
type Command func(room int) ([]string, error)

// Words is a command that is known.
func Words(words ...string) Command {
	return func(int) ([]string, error) { return words, nil }
}

// ExecResult is the result of a command in a container.
type ExecResult struct {
	ExitCode int32
	Stdout   []byte
	Stderr   []byte
}

// PullImage asks for an image.
type PullImage struct {
	Image string
	// Pod is the pod that needs the image; the runtime may use its annotations. May be nil.
	Pod *v1.Pod
	// Auth is the credential; nil for none.
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
