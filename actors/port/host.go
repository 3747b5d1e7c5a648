package port

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
)

// Host is the machine's file systems, as far as pods use them. The calling
// convention is Runtime's. What may touch a pod's mount runs where it can hang
// without hanging the agent.
type Host interface {
	// PreparePod makes the pod's own directories: data, and logs per container.
	// Idempotent.
	PreparePod(ctx context.Context, pod *v1.Pod, done func(error))
	// MountVolume brings one volume of a pod up and gives its path on the host,
	// which is empty for an image: that the runtime mounts. Idempotent: one that
	// stands already is found, and its content brought up to date, such that a
	// reader sees the old one or the new one as a whole. If that fails, the old
	// one stays.
	MountVolume(ctx context.Context, r MountVolume, done func(path string, err error))
	// MountSubPaths mounts what a container wants of volumes, of each only what
	// lies at a path in it, and gives the paths on the host, in order. What is not
	// there is made, a directory. Nothing that a container does to its volume leads
	// out of it. Idempotent; UnmountPod takes them down.
	MountSubPaths(ctx context.Context, r MountSubPaths, done func(paths []string, err error))
	// UnmountPod takes down all volumes of a pod and removes their data.
	// Idempotent. It never descends into what is still mounted.
	UnmountPod(ctx context.Context, uid types.UID, done func(error))
	// RemovePod removes what is left of a pod: log and data directories, found by
	// the UID if that is all that is known. It fails, and removes nothing, while
	// something is mounted below them.
	RemovePod(ctx context.Context, ref PodDirs, done func(error))
	// PodDirs lists the pods of which there are data directories.
	PodDirs(ctx context.Context, done func([]types.UID, error))
}

// MountVolume asks for one volume of a pod.
type MountVolume struct {
	Pod    *v1.Pod
	Volume *v1.Volume
	// Content is what is in a volume that volumefiles.Holds; nil for others.
	Content *volumefiles.Content
	// Persistent is what the claim of the volume is bound to; nil if it has none.
	Persistent *v1.PersistentVolume
	// ReadOnly: no process may write to it.
	ReadOnly bool
	// Size is how many bytes an emptyDir in memory may have, 0 if nothing is known.
	Size int64
}

// MountSubPaths asks for parts of volumes, for one container.
type MountSubPaths struct {
	Pod       *v1.Pod
	Container string
	Parts     []SubPath
}

// SubPath is a part of a volume.
type SubPath struct {
	// Index of the mount in the container.
	Index int
	// Volume is its name, Root where it is on the host.
	Volume, Root string
	// SubPath is relative, and has no "..".
	SubPath string
}

// PodDirs names the directories of a pod.
type PodDirs struct {
	UID             types.UID
	Namespace, Name string
}

// NodeFacts is what this machine has and is, as far as its node shows it. The
// calling convention is Runtime's.
type NodeFacts interface {
	// Machine reads them. As long as nothing has changed it gives the same
	// pointer, by which a reader knows that.
	Machine(ctx context.Context, done func(*Machine, error))
}

// Machine is what a node shows of its machine. It is never changed.
type Machine struct {
	// Capacity is all that there is, Allocatable what pods may have of it.
	Capacity, Allocatable v1.ResourceList
	// Addresses, in order of preference.
	Addresses []v1.NodeAddress
	// Info is status.nodeInfo, but for the runtime's version.
	Info v1.NodeSystemInfo
}

// Network is how hooks and probes reach a container.
type Network interface {
	// HTTPGet fails if there is no answer, or one with a status of 400 or more.
	HTTPGet(ctx context.Context, r HTTPGet, done func(error))
	// ProbeHTTP gives any answer, whatever its status. No answer within timeout
	// is an error of kind Deadline, as with the other two.
	ProbeHTTP(ctx context.Context, r probe.HTTP, timeout time.Duration, done func(HTTPAnswer, error))
	// ProbeTCP opens a connection and closes it.
	ProbeTCP(ctx context.Context, r probe.TCP, timeout time.Duration, done func(error))
	// ProbeGRPC gives the status that the health service answers with, by its
	// name (SERVING).
	ProbeGRPC(ctx context.Context, r probe.GRPC, timeout time.Duration, done func(status string, err error))
}

// HTTPGet is one request. Redirects are followed on the same host only.
type HTTPGet struct {
	URL     string
	Headers []v1.HTTPHeader
	// Timeout is how long the answer may take; zero for as long as the call's ctx continues.
	Timeout time.Duration
}

// HTTPAnswer is what a server answered, after redirects on the same host.
type HTTPAnswer struct {
	Status int
	// Body is the beginning of it, at most 10 KiB.
	Body []byte
}

// Event is something that users should see (API Event of the core group).
type Event struct {
	// Pod is what it is about, or else Node, by name.
	Pod     *v1.Pod
	Node    string
	Warning bool
	Reason  string
	// Container is the container's name, empty for the pod as a whole.
	Container string
	Message   string
	At        time.Time
}

// Recorder takes events. It must not block.
type Recorder interface{ Record(Event) }

// Manifests is where static pods are read from.
type Manifests interface {
	// Read gives all files of the directory; see ManifestFile.
	Read(ctx context.Context, done func([]ManifestFile, error))
	// Watch calls changed, soon after something in the directory changed, until
	// ctx ends. It is a hint: a change may be missed.
	Watch(ctx context.Context, changed func(), done func(error))
	// Fetch gets the content of the manifest URL, same=true if it is as it was at
	// the last Fetch and fresh does not ask for it all the same.
	Fetch(ctx context.Context, fresh bool, done func(data []byte, same bool, err error))
}

// ManifestFile is one file of a manifest directory, or why it can't be read.
type ManifestFile struct {
	Name string
	Data []byte
	Err  error
}

// Checkpoints keeps small things over the end of the process.
type Checkpoints interface {
	// Load gives nil data, and no error, if there is none of that name.
	Load(ctx context.Context, name string, done func(data []byte, err error))
	// Save replaces it as a whole or not at all.
	Save(ctx context.Context, name string, data []byte, done func(error))
}
