package port

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/decide/probe"
	"github.com/troupe-dev/troupe/actors/decide/volumefiles"
	"github.com/troupe-dev/troupe/actors/smallmap"
)

// Host is the file systems of the machine, as far as pods use them. The calling convention is
// Runtime's. Calls that touch a pod's mount may hang, but not the agent.
type Host interface {
	// PreparePod makes the pod's own directories: data, and logs per container.
	// Idempotent.
	PreparePod(ctx context.Context, pod *v1.Pod, done func(error))
	// MountVolume mounts one volume of a pod and returns its path on the host. The path is empty for
	// an image, which the runtime mounts. Idempotent: the content of an existing volume is updated
	// atomically, so that a reader sees either the old or the new one. If that fails, the old content
	// stays.
	MountVolume(ctx context.Context, r MountVolume, done func(path string, err error))
	// GrowVolume grows the file system of a local volume that is mounted for a pod to the size of its device. It mounts
	// nothing, and does nothing for a directory or a device that is mapped into pods (volumeMode Block). Idempotent.
	GrowVolume(ctx context.Context, r GrowVolume, done func(error))
	// MountSubPaths mounts the subpaths of volumes for a container, and returns their paths on the
	// host, in order. Missing ones are created as directories. A container cannot redirect a path out
	// of its volume. Idempotent; UnmountPod unmounts them.
	MountSubPaths(ctx context.Context, r MountSubPaths, done func(paths []string, err error))
	// UnmountPod unmounts all volumes of a pod, and what it has left mounted within its emptyDirs, and removes what the
	// agent has made of them. Idempotent. It never descends into anything still mounted. Files below a mount point are
	// StateConflict, and so are other mounts.
	UnmountPod(ctx context.Context, uid types.UID, done func(error))
	// RemovePod removes the remains of a pod: log and data directories, found by the UID alone if
	// nothing else is known. While something is mounted below them, it fails and removes nothing.
	RemovePod(ctx context.Context, ref PodDirs, done func(error))
	// PodDirs lists the pods that have data directories.
	PodDirs(ctx context.Context, done func([]types.UID, error))
}

// MountVolume asks for one volume of a pod.
type MountVolume struct {
	Pod    *v1.Pod
	Volume *v1.Volume
	// Content is the content of a volume for which volumefiles.Holds; nil for others.
	Content *volumefiles.Content
	// Persistent is the volume bound to the claim; nil if there is none.
	Persistent *v1.PersistentVolume
	// CHAP are the secrets of an iSCSI target.
	CHAP blockdevice.CHAP
	// Label is the SELinux label to mount a disk with; empty for none. If it is mounted with another one, that is
	// StateConflict.
	Label string
	// ReadOnly: no process may write to it.
	ReadOnly bool
	// Size is the maximum size in bytes of a volume in memory: an emptyDir, or files of the API; 0 if unknown.
	Size int64
	// Patience bounds all but the change of the files' group, which may take hours; 0: ctx alone bounds the call. Walked
	// is told how many files were done while that takes long.
	Patience time.Duration
	Walked   Walked
	// Taken is told, from any goroutine, that another pod has a local volume, whose group is not that of this pod: its
	// files stay with it. Nil: nobody is.
	Taken func(group int64)
}

// Walked is told, from any goroutine, how many files of a volume have been given to the group of its pod (fsGroup) so
// far: after [WalkedFirst], and then every [WalkedEvery]. Nil: nobody is.
type Walked func(files int64)

// Those are the kubelet's.
const (
	WalkedFirst = 30 * time.Second
	WalkedEvery = time.Minute
)

// GrowVolume asks for the growth of a volume.
type GrowVolume struct {
	// Pod is one that has it.
	Pod        types.UID
	Persistent *v1.PersistentVolume
	// Patience bounds the call; 0: ctx alone does.
	Patience time.Duration
}

// MountSubPaths asks for subpaths of volumes, for one container.
type MountSubPaths struct {
	Pod       *v1.Pod
	Container string
	Parts     []containerplan.SubPath
}

// PodDirs names the directories of a pod.
type PodDirs struct {
	UID             types.UID
	Namespace, Name string
}

// NodeFacts are the properties of this machine that its node shows. The calling convention is
// Runtime's.
type NodeFacts interface {
	// Machine reads them. While nothing has changed it returns the same pointer.
	Machine(ctx context.Context, done func(*Machine, error))
}

// Machine is what a node shows of its machine. It is immutable.
type Machine struct {
	// Capacity is the total, Allocatable the share that pods may use.
	Capacity, Allocatable v1.ResourceList
	// Addresses, in order of preference.
	Addresses []v1.NodeAddress
	// Info is status.nodeInfo without the runtime's version.
	Info v1.NodeSystemInfo
}

// Network is how hooks and probes reach a container.
type Network interface {
	// HTTPGet fails without an answer. Any answer will do, whatever its status. plain: it came without TLS, which the URL
	// asks for. ctx alone bounds it.
	HTTPGet(ctx context.Context, r HTTPGet, done func(plain bool, err error))
	// ProbeHTTP returns any answer, whatever its status, also if its body can't be read. All three probe
	// calls fail with Deadline if there is no answer within timeout.
	ProbeHTTP(ctx context.Context, r probe.HTTP, timeout time.Duration, done func(HTTPAnswer, error))
	// ProbeTCP opens a connection and closes it.
	ProbeTCP(ctx context.Context, r probe.TCP, timeout time.Duration, done func(error))
	// ProbeGRPC returns the status of the health service by name (SERVING).
	ProbeGRPC(ctx context.Context, r probe.GRPC, timeout time.Duration, done func(status string, err error))
}

// HTTPGet is one request. Redirects are followed on the same host only.
type HTTPGet struct {
	URL     string
	Headers []v1.HTTPHeader
}

// HTTPAnswer is what a server answered, after redirects on the same host.
type HTTPAnswer struct {
	Status int
	// Body is the beginning of the body, at most 10 KiB.
	Body []byte
	// Unread is why the body could not be read that far; empty if it was.
	Unread string
}

// Event is something that users should see (API Event of the core group).
type Event struct {
	// Pod is the object of the event, or else Of, such as a claim, or else Node, by name.
	Pod     *v1.Pod
	Of      *v1.ObjectReference
	Node    string
	Warning bool
	Reason  string
	// Container is the container's name, empty for the pod as a whole.
	Container string
	Message   string
	// Annotations of the API object, for programs. Whoever has the event shares them: nobody changes them.
	Annotations smallmap.Map[string, string]
	At          time.Time
}

// Recorder records events. It must not block.
type Recorder interface{ Record(Event) }

// Manifests is the source of static pods.
type Manifests interface {
	// Read returns all files of the directory; see ManifestFile.
	Read(ctx context.Context, done func([]ManifestFile, error))
	// Watch calls changed soon after a change in the directory, until ctx ends. It is a hint: a change
	// may be missed. again are files that were removed and are there again, as Read names them: whoever reads may have
	// been too late to miss them. One that is replaced by another one (rename) is not among them.
	Watch(ctx context.Context, changed func(again []string), done func(error))
	// Fetch gets the content of the manifest URL. If the content is unchanged since the last Fetch, it
	// returns same=true, unless fresh asks for the content anyway.
	Fetch(ctx context.Context, fresh bool, done func(data []byte, same bool, err error))
}

// ManifestFile is one file of a manifest directory, or the error of reading it.
type ManifestFile struct {
	Name string
	Data []byte
	Err  error
}

// Checkpoints stores small data that outlives the process.
type Checkpoints interface {
	// Load returns nil data, and no error, if that name does not exist.
	Load(ctx context.Context, name string, done func(data []byte, err error))
	// Save replaces the data atomically. One that has not begun when the same name is saved again need not be made: it
	// is Canceled then.
	Save(ctx context.Context, name string, data []byte, done func(error))
	// SetAside keeps what is stored under name for people to look at, in place of what was set aside under
	// that name before. After that Load returns nil data. where tells people where it is.
	SetAside(ctx context.Context, name string, done func(where string, err error))
}
