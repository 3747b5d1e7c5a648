// Package observed holds the state of a container runtime as plain values: sandboxes, containers
// and images. They are facts at the time of reading, never desired state. The adapters in cri fill
// them, the decisions read them.
package observed

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodRef identifies a pod by UID and name.
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
	// Source is the annotation kubernetes.io/config.source of its pod: file, http or api. Empty if
	// another agent did not set it.
	Source string
	// IPs are the pod's addresses, the primary one first. Only an inspection fills them, not a list;
	// Detailed tells the two apart.
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
	// Attempt counts the incarnations of this name in this pod from 0. For the newest incarnation it
	// is the API's restartCount.
	Attempt uint32
	State   ContainerState
	// Image is the requested name, ImageRef the digest or ID that the runtime resolved it to.
	Image    string
	ImageRef string
	// SpecHash is the hash of the container's spec: our own, or a kubelet's if that made the container. An
	// empty hash never counts as changed.
	SpecHash  string
	CreatedAt time.Time
	// An inspection fills the rest; then Detailed is true. A list fills only the fields above.
	Detailed   bool
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	// Reason and Message are the runtime's: OOMKilled, Completed, Error, StartError, …
	Reason  string
	Message string
	LogPath string
	// GraceSeconds and PreStop (a LifecycleHandler as JSON, or empty) are read from annotations, so
	// that a container is stopped correctly even after its pod was removed from its source.
	GraceSeconds int64
	PreStop      string
	// TerminationMessagePolicy is read from the annotations as well.
	TerminationMessagePolicy string
	// MessageFile is the file on the host that is mounted for its termination message, if a kubelet made the container.
	MessageFile string
	// Resources are its current limits; nil if the runtime doesn't report them. They are shared and
	// immutable.
	Resources *Resources
	// RecursiveReadOnly are the paths of mounts in the container that are recursively read-only
	// (KEP-3857); nil for most.
	RecursiveReadOnly []string
	// User is the user of its first process (KEP-3619); nil if the runtime doesn't report it. It is
	// shared and immutable.
	User *v1.LinuxContainerUser
}

// Resources are the limits of a container's or pod's cgroup, in the units of the CRI
// (LinuxContainerResources).
type Resources struct {
	// CPUShares is the weight among its siblings, 1024 for a CPU.
	CPUShares int64
	// CPUQuota is the CPU time per CPUPeriod, in microseconds; 0 for no limit.
	CPUQuota, CPUPeriod int64
	// Memory in bytes, 0 for no limit.
	Memory int64
}

// Pod is everything that the runtime has of one pod.
type Pod struct {
	// Sandboxes, newest attempt first.
	Sandboxes []Sandbox
	// Containers, by name, and of one name the newest attempt first.
	Containers []Container
}

// Sort puts sandboxes and containers into the order that Pod promises. Runtimes list in any order,
// which must not affect a decision.
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

// few is among how many containers a search from the first costs less than one that halves.
const few = 32

// Of is a part of Containers that has all incarnations of a name, newest first, and may have others.
func (p *Pod) Of(name string) []Container {
	all := p.Containers
	if len(all) <= few {
		return all
	}
	all = all[sort.Search(len(all), func(i int) bool { return all[i].Name >= name }):]
	n := 0
	for n < len(all) && all[n].Name == name {
		n++
	}
	return all[:n]
}

// Newest returns the newest incarnation of the named container.
func (p *Pod) Newest(name string) (Container, bool) {
	cs := p.Of(name)
	for i := range cs {
		if cs[i].Name == name {
			return cs[i], true
		}
	}
	return Container{}, false
}

// Previous returns the newest finished incarnation before the newest one.
func (p *Pod) Previous(name string) (Container, bool) {
	seen := false
	cs := p.Of(name)
	for i := range cs {
		if cs[i].Name != name {
			continue
		}
		if seen && cs[i].State == ContainerExited {
			return cs[i], true
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

// Runtime is everything that a runtime has, in order of pod UID.
type Runtime struct {
	Pods []RuntimePod
	// Unread are pods of which a part can't be read, in order of UID. They are not in Pods, and not gone either.
	Unread []Unread
}

// Unread is a pod of which a part can't be read, and why.
type Unread struct {
	UID types.UID
	Why string
}

// Whole is nil if everything could be read, for whoever takes for gone what is not there.
func (r *Runtime) Whole() error {
	if len(r.Unread) == 0 {
		return nil
	}
	return fmt.Errorf("a part of pod %s can't be read: %s", r.Unread[0].UID, r.Unread[0].Why)
}

// WholeOnly gives done a list that is not whole as an error.
func WholeOnly(done func(Runtime, error)) func(Runtime, error) {
	return func(r Runtime, err error) { done(r, cmp.Or(err, r.Whole())) }
}

// RuntimePod is one pod in a full list.
type RuntimePod struct {
	Ref PodRef
	Pod
}

// Image is the runtime's data of one image.
type Image struct {
	// ID is the runtime's ID; RepoTags and RepoDigests are its names.
	ID          string
	RepoTags    []string
	RepoDigests []string
	SizeBytes   uint64
	Pinned      bool
	// UID is the numeric user of the image; nil if it names none or has a user name, which is then in
	// Username.
	UID      *int64
	Username string
}

func cmpDesc(a, b uint32) int { return cmp.Compare(b, a) }
