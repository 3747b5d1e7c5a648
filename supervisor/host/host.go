package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/netdisk"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/pod/accounts"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/volume/diskuse"
	"github.com/troupe-dev/troupe/supervisor/host/volume/netdisks"
	"github.com/troupe-dev/troupe/supervisor/host/volume/projectquota"
)

// Modes of directories, as the kubelet has them.
const (
	logRootMode   = 0o750
	logMode       = 0o755 // of a pod's and a container's logs
	emptyDirMode  = 0o777
	hostDirMode   = 0o755 // of a hostPath that is made
	hostFileMode  = 0o644
	readyFileMode = 0o600
)

// Config is where pods' files are.
type Config struct {
	// Root is the agent's root directory (--root-dir), LogRoot that of the pods'
	// logs (podLogsDir, /var/log/pods). Both absolute; made if they are not there.
	Root, LogRoot string
	// ClusterDomain is the domain of services, for the names of pods.
	ClusterDomain string
	// Counting bounds what it costs to count the files of pods. Zero: counts.Default.
	Counting diskuse.Effort
	// Measured is told how each volume was measured and how long that took: by a Source. Nil: nobody is.
	Measured func(source string, took time.Duration)
	// Room says why so many bytes of files don't fit into the memory of the agent, whose cgroup they count for; nil: they
	// always do. One after the other is asked, and written before the next.
	Room func(bytes, old int64) error
	// Warn is told of a disk of an ended pod that stays attached, and why, once for each pod, and of files that could not
	// be given to the group of their pod. Nil: nobody is.
	Warn func(what string)
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.Root) {
		return fmt.Errorf("root directory %q: must be an absolute path", c.Root)
	}
	if !filepath.IsAbs(c.LogRoot) {
		return fmt.Errorf("pod log directory %q: must be an absolute path", c.LogRoot)
	}
	return nil
}

// Host implements port.Host on this machine.
type Host struct {
	// root is the agent's root directory, with links resolved, as mountinfo has it.
	root string
	// pods and logs are held open: nothing below them leads out of them.
	pods *agentdir.Dir
	logs *agentdir.Place
	*podlogs.Logs
	*accounts.Accounts
	children      *children
	clusterDomain string
	// csi are the CSI drivers; nil: there are none.
	csi DriverUse
	// disks are those of iSCSI and Fibre Channel that pods use.
	disks disks
	// hosts is held while a pod's /etc/hosts is written.
	hosts sync.Mutex
	// places are where claims' volumes are, and sizes what volumes take: those with files of the API since they were
	// written, those with a file system of their own when it was asked last; placesMu guards them.
	placesMu sync.Mutex
	places   claims
	sizes    map[string]map[string]usage.Disk
	// room is Config.Room, and roomTurn has an element while one writes.
	room     func(bytes, old int64) error
	roomTurn chan struct{}
	// written counts how often a volume got new content.
	written uint64
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
	// warn is told of a disk that stays attached.
	warn   func(what string)
	apiece apiece
	// mounts tells what is mounted, of table.
	mounts func() ([]mounts.Mount, error)
	table  *mounts.Table
}

var _ port.Host = (*Host)(nil)

// New makes the directories, if they are not there, and opens them.
func New(c Config) (*Host, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Root, agentdir.Mode); err != nil {
		return nil, fmt.Errorf("make root directory: %w", err)
	}
	root, err := filepath.EvalSymlinks(c.Root)
	if err != nil {
		return nil, fmt.Errorf("resolve the root directory: %w", err)
	}
	pods, err := agentdir.Open(filepath.Join(c.Root, "pods"), agentdir.Mode)
	if err != nil {
		return nil, fmt.Errorf("open the pods directory: %w", err)
	}
	logDirs := agentdir.At(c.LogRoot, logRootMode)
	if _, err := logDirs.Dir(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the pod logs directory: %w", err), pods.Root.Close())
	}
	if c.Measured == nil {
		c.Measured = func(string, time.Duration) {}
	}
	if c.Warn == nil {
		c.Warn = func(string) {}
	}
	if c.Counting.Slice == 0 {
		c.Counting = diskuse.Default
	}
	h := &Host{
		root: root, pods: pods, logs: logDirs, Logs: podlogs.New(logDirs), Accounts: accounts.New(pods),
		clusterDomain: c.ClusterDomain, measured: c.Measured, room: c.Room, roomTurn: make(chan struct{}, 1),
		warn: c.Warn,
	}
	h.counts, err = diskuse.New(&diskuse.Config{
		Effort: c.Counting, Home: h.pods.Real, Ask: h.countInChild, Counted: h.countedInChild,
	})
	if err != nil {
		return nil, errors.Join(err, pods.Root.Close(), logDirs.Close())
	}
	h.disks.machine, h.disks.root = netdisks.This(), filepath.Join(root, "plugins", "kubernetes.io")
	h.table = mounts.NewTable()
	h.mounts = h.table.Read
	h.children = newChildren(h.pods.Real, h.withoutServer)
	return h, nil
}

// overNetwork are the directories of volumes on disks of a network, whatever file system is on them.
var overNetwork = [...]string{iscsiPlugin, fcPlugin, csiPlugin, netdisk.ISCSIDir, netdisk.FCDir}

// withoutServer reports whether no server can hold up what is done at a path.
func (h *Host) withoutServer(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if slices.Contains(overNetwork[:], part) {
			return false
		}
	}
	all, err := h.mounts()
	return err == nil && mounts.IsLocal(all, path)
}

// Close lets go of the directories. Calls under way fail.
func (h *Host) Close() error {
	h.counts.Close()
	h.table.Close()
	return errors.Join(h.disks.close(), h.pods.Root.Close(), h.logs.Close())
}
