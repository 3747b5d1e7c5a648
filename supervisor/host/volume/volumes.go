package volume

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/diskuse"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/lastuse"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/netdisks"
	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
)

// Modes of directories, as the kubelet has them.
const (
	logMode       = 0o755 // of a pod's and a container's logs
	emptyDirMode  = 0o777
	readyFileMode = 0o600
)

// volumesApiece is how many volumes of one pod are made at once in this process. A pod may have thousands: all at once,
// each on a thread of its own, they kept everything else of the agent from the processors.
const volumesApiece = 8

// Config is what volumes need.
type Config struct {
	// Root is the agent's root directory, with links resolved, as mountinfo has it.
	Root string
	// Pods and Logs are the directories of pods and of their logs, which the caller closes.
	Pods *agentdir.Dir
	Logs *agentdir.Place
	// Counting bounds what it costs to count the files of pods. Zero: diskuse.Default.
	Counting diskuse.Effort
	// Measured is told how each volume was measured and how long that took: by a Source. Nil: nobody is.
	Measured func(source string, took time.Duration)
	// Room says why so many bytes of files don't fit into the memory of the agent, whose cgroup they count for; nil: they
	// always do. One after the other is asked, and written before the next.
	Room func(bytes, old int64) error
	// Warn logs a disk of an ended pod that stays attached, and why, once for each pod, and files whose group could not be
	// changed to that of their pod. fields are names and values in turn. Nil: neither is logged.
	Warn func(event string, fields ...any)
}

// Volumes implements port.Host on this machine.
type Volumes struct {
	// root is the agent's root directory, with links resolved, as mountinfo has it.
	root string
	// pods and logs are held open: nothing below them leads out of them.
	pods     *agentdir.Dir
	logs     *agentdir.Place
	children *children
	// csi are the CSI drivers; nil: there are none.
	csi DriverUse
	// disks are those of iSCSI and Fibre Channel that pods use.
	disks disks
	// last is what is known of the use of volumes.
	last lastuse.Book
	// room is Config.Room, and roomTurn has an element while one writes.
	room     func(bytes, old int64) error
	roomTurn chan struct{}
	// binding are the requests that bind parts of volumes.
	binding binding
	// counts are the directories of pods, asked how many requests children got to count several.
	counts *diskuse.Counts
	asked  atomic.Uint64
	// projects measure emptyDirs by project quota; nil without. noProject is told why one is walked all the same.
	projects  *projectquota.Projects
	noProject func(error)
	// processes are those of a pod; nil: nobody knows them.
	processes func(*v1.Pod) []int
	// measured is told how a volume was measured, and how long that took.
	measured func(source string, took time.Duration)
	// warn is Config.Warn.
	warn func(event string, fields ...any)
	// making are the volumes of pods that are being made.
	making places
	// mounts tells what is mounted, of table.
	mounts func() ([]mounts.Mount, error)
	table  *mounts.Table
}

var _ port.Host = (*Volumes)(nil)

// New has volumes in directories that are open.
func New(c *Config) (*Volumes, error) {
	h := &Volumes{
		root: c.Root, pods: c.Pods, logs: c.Logs, room: c.Room, roomTurn: make(chan struct{}, 1),
		measured: c.Measured, warn: c.Warn, making: places{each: volumesApiece},
	}
	if h.measured == nil {
		h.measured = func(string, time.Duration) {}
	}
	if h.warn == nil {
		h.warn = func(string, ...any) {}
	}
	counting := c.Counting
	if counting.Slice == 0 {
		counting = diskuse.Default
	}
	var err error
	h.counts, err = diskuse.New(&diskuse.Config{
		Effort: counting, Home: h.pods.Real, Ask: h.countInChild, Counted: h.countedInChild,
	})
	if err != nil {
		return nil, err
	}
	h.disks.machine, h.disks.root = netdisks.This(), filepath.Join(h.root, "plugins", "kubernetes.io")
	h.table = mounts.NewTable()
	h.mounts = h.table.Read
	h.children = newChildren(h.pods.Real, h.withoutServer)
	return h, nil
}

// overNetwork are the directories of volumes on disks of a network, whatever file system is on them.
var overNetwork = [...]string{iscsiPlugin, fcPlugin, csiPlugin, blockdevice.ISCSIDir, blockdevice.FCDir}

// withoutServer reports whether no server can hold up what is done at a path.
func (h *Volumes) withoutServer(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if slices.Contains(overNetwork[:], part) {
			return false
		}
	}
	all, err := h.mounts()
	return err == nil && mounts.IsLocal(all, path)
}

// Close ends what is counted, and lets go of the mount table and of the directory of disks. Calls under way fail.
func (h *Volumes) Close() error {
	h.counts.Close()
	h.table.Close()
	return h.disks.close()
}
