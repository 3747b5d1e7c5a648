package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/pod/accounts"
	"github.com/troupe-dev/troupe/supervisor/host/pod/containerfiles"
	"github.com/troupe-dev/troupe/supervisor/host/pod/podlogs"
	"github.com/troupe-dev/troupe/supervisor/host/volume"
)

// logRootMode is that of the directory of all logs, as the kubelet has it.
const logRootMode = 0o750

// Config is where pods' files are.
type Config struct {
	// Root is the agent's root directory (--root-dir), LogRoot that of the pods'
	// logs (podLogsDir, /var/log/pods). Both absolute; made if they are not there.
	Root, LogRoot string
	// ClusterDomain is the domain of services, for the names of pods.
	ClusterDomain string
	// Measured, Room and Warn are those of volume.Config.
	Measured func(source string, took time.Duration)
	Room     func(bytes, old int64) error
	Warn     func(event string, fields ...any)
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

// Host has what pods have on this machine: their volumes, files, logs and user IDs.
type Host struct {
	*volume.Volumes
	*containerfiles.Files
	*podlogs.Logs
	*accounts.Accounts
	// pods and logs are held open: nothing below them leads out of them.
	pods *agentdir.Dir
	logs *agentdir.Place
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
	logs := agentdir.At(c.LogRoot, logRootMode)
	if _, err := logs.Dir(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the pod logs directory: %w", err), pods.Root.Close())
	}
	volumes, err := volume.New(&volume.Config{
		Root: root, Pods: pods, Logs: logs, Measured: c.Measured, Room: c.Room, Warn: c.Warn,
	})
	if err != nil {
		return nil, errors.Join(err, pods.Root.Close(), logs.Close())
	}
	return &Host{
		Volumes: volumes, Files: containerfiles.New(pods, logs, c.ClusterDomain), Logs: podlogs.New(logs),
		Accounts: accounts.New(pods), pods: pods, logs: logs,
	}, nil
}

// Close lets go of the directories. Calls under way fail.
func (h *Host) Close() error {
	return errors.Join(h.Volumes.Close(), h.pods.Root.Close(), h.logs.Close())
}

// RunChildIfAsked does the work of a child process, and does not return, if this process was started to be one:
// volume.RunChildIfAsked, for the program.
func RunChildIfAsked() { volume.RunChildIfAsked() }
