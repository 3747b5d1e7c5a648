package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/troupe-dev/troupe/actors/port"
)

// Modes of directories, as the kubelet has them.
const (
	podsMode      = 0o750 // <root>, pods and all that is a pod's
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
	// pods and logs are held open: nothing below them leads out of them.
	pods, logs    area
	children      *children
	clusterDomain string
	// hosts is held while a pod's /etc/hosts is written.
	hosts sync.Mutex
	// users is held while a pod is given user IDs.
	users sync.Mutex
	// places are where claims' volumes are; placesMu guards it.
	placesMu sync.Mutex
	places   claims
	// compressing are the logs (port.LogRef) of which a file is being compressed.
	compressing sync.Map
	// mounts tells what is mounted, of table.
	mounts func() ([]mount, error)
	table  *mountTable
}

// area is a directory that is ours.
type area struct {
	root *os.Root
	// path is as configured, real with links resolved, as mountinfo has it.
	path, real string
}

var _ port.Host = (*Host)(nil)

// New makes the directories, if they are not there, and opens them.
func New(c Config) (*Host, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(c.Root, podsMode); err != nil {
		return nil, fmt.Errorf("make root directory: %w", err)
	}
	pods, err := openArea(filepath.Join(c.Root, "pods"), podsMode)
	if err != nil {
		return nil, fmt.Errorf("directory of pods: %w", err)
	}
	logs, err := openArea(c.LogRoot, logRootMode)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("directory of pods' logs: %w", err), pods.root.Close())
	}
	table := newMountTable()
	return &Host{pods: pods, logs: logs, children: newChildren(), mounts: table.read, table: table, clusterDomain: c.ClusterDomain}, nil
}

func openArea(path string, mode os.FileMode) (area, error) {
	if err := os.MkdirAll(path, mode); err != nil {
		return area{}, err
	}
	actual, err := filepath.EvalSymlinks(path)
	if err != nil {
		return area{}, err
	}
	root, err := os.OpenRoot(actual)
	if err != nil {
		return area{}, err
	}
	return area{root: root, path: filepath.Clean(path), real: actual}, nil
}

// Close lets go of the directories. Calls under way fail.
func (h *Host) Close() error {
	h.table.close()
	return errors.Join(h.pods.root.Close(), h.logs.root.Close())
}

// call runs work on a goroutine and gives its result to done, once: when ctx
// ends first, done gets that, and what work did is unknown.
func call[T any](ctx context.Context, verb, object string, work func(context.Context) (T, error), done func(T, error)) {
	var once sync.Once
	finish := func(v T, err error) {
		once.Do(func() {
			if err != nil {
				var none T
				done(none, asError(err, verb, object))
				return
			}
			done(v, nil)
		})
	}
	go func() {
		if ctx.Err() != nil { // nothing is begun for one who has gone
			var none T
			finish(none, ctx.Err())
			return
		}
		stop := context.AfterFunc(ctx, func() {
			var none T
			finish(none, ctx.Err())
		})
		defer stop()
		v, err := work(ctx)
		finish(v, err)
	}()
}

// run is call for work without a value.
func run(ctx context.Context, verb, object string, work func(context.Context) error, done func(error)) {
	call(ctx, verb, object, func(ctx context.Context) (struct{}, error) { return struct{}{}, work(ctx) },
		func(_ struct{}, err error) { done(err) })
}
