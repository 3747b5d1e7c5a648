// Package observed holds what a container runtime says there is: sandboxes,
// containers and images as plain values. They are facts at the time they were
// read, never wishes. The adapters in cri fill them, the decisions read them.
package observed

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef names one incarnation of a pod.
type PodRef struct {
	UID       types.UID
	Namespace string
	Name      string
}

// String returns namespace/name, as users write it.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// SandboxState is the state of a pod sandbox (CRI PodSandboxState).
type SandboxState uint8

const (
	SandboxReady SandboxState = iota + 1
	SandboxNotReady
)

func (s SandboxState) String() string {
	switch s {
	case SandboxReady:
		return "Ready"
	case SandboxNotReady:
		return "NotReady"
	default:
		return "Invalid"
	}
}

// Sandbox is one pod sandbox.
type Sandbox struct {
	ID        string
	Pod       PodRef
	Attempt   uint32
	State     SandboxState
	CreatedAt time.Time
	// Source is the annotation kubernetes.io/config.source of the pod it was
	// made for: file, http or api. Empty if a foreign agent did not say.
	Source string
	// IPs are the pod's addresses, the primary one first. They are filled by
	// an inspection, not by a list; Detailed says which of the two it was.
	IPs      []string
	Detailed bool
	// HostNetwork is true if the sandbox uses the network of the node.
	HostNetwork bool
	// RuntimeHandler is the handler of the pod's RuntimeClass, empty for the default.
	RuntimeHandler string
}

// ContainerState is the state of a container (CRI ContainerState).
//
//	Created ──start──► Running ──exit──► Exited
//	   └──────────── failed start ─────────┘       Unknown: the runtime lost it
type ContainerState uint8

const (
	ContainerCreated ContainerState = iota + 1
	ContainerRunning
	ContainerExited
	ContainerUnknown
)

func (s ContainerState) String() string {
	switch s {
	case ContainerCreated:
		return "Created"
	case ContainerRunning:
		return "Running"
	case ContainerExited:
		return "Exited"
	case ContainerUnknown:
		return "Unknown"
	default:
		return "Invalid"
	}
}

// Container is one incarnation of a container of a pod.
type Container struct {
	ID        string
	SandboxID string
	Pod       PodRef
	// Name is the name in the pod's spec.
	Name string
	// Attempt counts the incarnations of this name in this pod from 0. It is
	// what the API calls restartCount while this incarnation is the newest.
	Attempt uint32
	State   ContainerState
	// Image is the name it was asked for, ImageRef the digest or ID that the
	// runtime resolved it to.
	Image    string
	ImageRef string
	// SpecHash is the hash of the container's spec that it was made from; empty
	// if it was made by an agent that does not write ours. An empty hash never
	// counts as changed: a node taken over from a kubelet restarts nothing.
	SpecHash  string
	CreatedAt time.Time
	// The rest is filled by an inspection; Detailed is true then. A list fills
	// only what stands above.
	Detailed   bool
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	// Reason and Message are the runtime's: OOMKilled, Completed, Error, StartError, …
	Reason  string
	Message string
	LogPath string
	// GraceSeconds and PreStop (a LifecycleHandler as JSON, or empty) are read
	// from annotations, so that a container whose pod nobody wants any more is
	// still stopped as its pod asked.
	GraceSeconds int64
	PreStop      string
	// TerminationMessagePolicy is read from the annotations as well.
	TerminationMessagePolicy string
	// Resources are the limits that it has now; nil where the runtime doesn't say.
	// They are shared, and never changed.
	Resources *Resources
	// RecursiveReadOnly are the paths in the container at which all that is mounted
	// below is read-only too (KEP-3857); nil for most.
	RecursiveReadOnly []string
	// User is the user that its first process is started as (KEP-3619); nil where the
	// runtime doesn't say. It is shared, and never changed.
	User *v1.LinuxContainerUser
}

// Resources are the limits of a cgroup, a container's or a pod's, in the units of
// the CRI (LinuxContainerResources).
type Resources struct {
	// CPUShares is the weight among its siblings, 1024 for a CPU.
	CPUShares int64
	// CPUQuota is the time that it may run in each CPUPeriod, in microseconds; 0
	// for as long as it likes.
	CPUQuota, CPUPeriod int64
	// Memory in bytes, 0 for no limit.
	Memory int64
}

// Pod is all that the runtime has of one pod.
type Pod struct {
	// Sandboxes, newest attempt first.
	Sandboxes []Sandbox
	// Containers, by name, and of one name the newest attempt first.
	Containers []Container
}

// Sort puts sandboxes and containers into the order that Pod promises.
// Runtimes list in any order, and no order of theirs may reach a decision.
func (p *Pod) Sort() {
	slices.SortFunc(p.Sandboxes, func(a, b Sandbox) int {
		if a.Attempt != b.Attempt {
			return cmpDesc(a.Attempt, b.Attempt)
		}
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	slices.SortFunc(p.Containers, func(a, b Container) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		if a.Attempt != b.Attempt {
			return cmpDesc(a.Attempt, b.Attempt)
		}
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Newest returns the newest incarnation of the named container.
func (p *Pod) Newest(name string) (Container, bool) {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return p.Containers[i], true
		}
	}
	return Container{}, false
}

// Previous returns the newest finished incarnation before the newest one.
func (p *Pod) Previous(name string) (Container, bool) {
	seen := false
	for i := range p.Containers {
		if p.Containers[i].Name != name {
			continue
		}
		if seen && p.Containers[i].State == ContainerExited {
			return p.Containers[i], true
		}
		seen = true
	}
	return Container{}, false
}

// ReadySandbox returns the newest sandbox if it is ready.
func (p *Pod) ReadySandbox() (Sandbox, bool) {
	if len(p.Sandboxes) > 0 && p.Sandboxes[0].State == SandboxReady {
		return p.Sandboxes[0], true
	}
	return Sandbox{}, false
}

// Runtime is all that a runtime has, in order of pod UID.
type Runtime struct {
	Pods []RuntimePod
}

// RuntimePod is one pod's share of a full list.
type RuntimePod struct {
	Ref PodRef
	Pod
}

// Image is what the runtime knows of one image.
type Image struct {
	// ID is the runtime's; RepoTags and RepoDigests are its names.
	ID          string
	RepoTags    []string
	RepoDigests []string
	SizeBytes   uint64
	Pinned      bool
	// UID is the numeric user that the image runs as, nil if it gives none or
	// gives a name, which is then in Username.
	UID      *int64
	Username string
}

func cmpDesc(a, b uint32) int { return cmp.Compare(b, a) }
