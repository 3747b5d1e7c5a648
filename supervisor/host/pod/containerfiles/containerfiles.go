// Package containerfiles implements port.ContainerFiles: /etc/hosts, termination messages, and environment files in
// volumes.
package containerfiles

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/containerlogs"
	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/agentdir"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

var _ port.ContainerFiles = (*Files)(nil)

// Names and modes are the kubelet's: any user of a container may write its termination message.
const (
	hostsName     = "etc-hosts"
	hostsPath     = "/etc/hosts"
	hostsMode     = 0o644
	messageMode   = 0o666
	messageSuffix = ".termination"
	// keptMessages is of how many incarnations the message is kept.
	keptMessages = 4
	maxHostsFile = 1 << 20
)

// Files are those of the containers of pods.
type Files struct {
	pods          *agentdir.Dir
	logs          *agentdir.Place
	clusterDomain string
	// writing is held while a pod's /etc/hosts is written.
	writing sync.Mutex
}

// New has the files below the directories of pods and of their logs. clusterDomain is the domain of services, for the
// names of pods.
func New(pods *agentdir.Dir, logs *agentdir.Place, clusterDomain string) *Files {
	return &Files{pods: pods, logs: logs, clusterDomain: clusterDomain}
}

// MakeFiles implements port.ContainerFiles.
func (c *Files) MakeFiles(ctx context.Context, r port.MakeFiles, done func(port.MadeFiles, error)) {
	object := hostcall.Pod(r.Pod) + "/" + r.Container.Name
	hostcall.Get(ctx, "MakeFiles", object, func(context.Context) (made port.MadeFiles, err error) {
		r.Attempt = c.unused(&r)
		made.Attempt = r.Attempt
		made.Mounts, err = c.makeFiles(&r)
		return made, err
	}, done)
}

func (c *Files) makeFiles(r *port.MakeFiles) ([]containerplan.Mount, error) {
	dir, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return nil, err
	}
	var out []containerplan.Mount
	if !slices.ContainsFunc(r.Container.VolumeMounts, func(m v1.VolumeMount) bool {
		return filepath.Join("/", m.MountPath) == hostsPath
	}) {
		if err := c.writeHosts(r.Pod, dir, r.IPs); err != nil {
			return nil, err
		}
		out = append(out,
			containerplan.Mount{Name: "etc-hosts", ContainerPath: hostsPath,
				HostPath: filepath.Join(c.pods.Path, dir, hostsName), Relabel: true})
	}
	path := r.Container.TerminationMessagePath
	if path == "" {
		return out, nil
	}
	if !filepath.IsAbs(path) {
		path = "/" + path
	}
	name, err := messageFile(dir, r.Container.Name, r.Attempt)
	if err != nil {
		return nil, err
	}
	if r.Attempt >= keptMessages {
		old, err := messageFile(dir, r.Container.Name, r.Attempt-keptMessages)
		if err != nil {
			return nil, err
		}
		if err := c.pods.Root.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	// A container that was put into a running pod has no directory yet.
	if err := c.pods.Root.MkdirAll(filepath.Dir(name), agentdir.Mode); err != nil {
		return nil, fmt.Errorf("create the termination message file: %w", err)
	}
	f, err := c.pods.Root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK, messageMode)
	if err != nil {
		return nil, fmt.Errorf("create the termination message file: %w", err)
	}
	if err := errors.Join(f.Chmod(messageMode), f.Close()); err != nil { // whatever our umask is
		return nil, fmt.Errorf("create the termination message file: %w", err)
	}
	return append(out, containerplan.Mount{Name: "termination-log", ContainerPath: path,
		HostPath: filepath.Join(c.pods.Path, name), Relabel: true}), nil
}

// unused is the number of the incarnation. A first one whose container has logs is not the first: nobody knows of those
// before, as the runtime has lost its records. Logs that can't be read are none, as for a kubelet
// (calcRestartCountByLogDir).
func (c *Files) unused(r *port.MakeFiles) uint32 {
	dir, err := agentdir.LogDir(port.PodDirs{UID: r.Pod.UID, Namespace: r.Pod.Namespace, Name: r.Pod.Name})
	if r.Attempt > 0 || err != nil {
		return r.Attempt
	}
	all, err := c.logs.Dir()
	if err != nil {
		return 0
	}
	entries, _ := fs.ReadDir(all.Root.FS(), filepath.Join(dir, r.Container.Name)) //nolint:errcheck // as said
	next := uint32(0)
	for _, e := range entries {
		if attempt, _, ok := containerlogs.ParseFile(e.Name()); ok && attempt < math.MaxUint32 {
			next = max(next, attempt+1)
		}
	}
	return next
}

func messageFile(dir, container string, attempt uint32) (string, error) {
	if err := agentdir.Element("container name", container); err != nil {
		return "", err
	}
	name := strconv.FormatUint(uint64(attempt), 10) + messageSuffix
	return filepath.Join(dir, agentdir.ContainersDir, container, name), nil
}

// WriteHosts implements port.ContainerFiles.
func (c *Files) WriteHosts(ctx context.Context, r port.WriteHosts, done func(error)) {
	hostcall.Do(ctx, "WriteHosts", hostcall.Pod(r.Pod), func(context.Context) error {
		dir, err := agentdir.PodDir(string(r.Pod.UID))
		if err != nil {
			return err
		}
		err = c.writeHosts(r.Pod, dir, r.IPs)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no directory yet: its first container brings the file
		}
		return err
	}, done)
}

// writeHosts writes the file in place: containers that run have it mounted. One
// that is there is not made worse by addresses that are not known.
func (c *Files) writeHosts(pod *v1.Pod, dir string, ips []string) error {
	var want []byte
	if pod.Spec.HostNetwork {
		own, err := os.ReadFile(hostsPath)
		if err != nil {
			return fmt.Errorf("read the hosts file of the node: %w", err)
		}
		want = containerplan.HostsFileOfHost(pod, own)
	} else {
		var err error
		if want, err = containerplan.HostsFile(pod, ips, c.clusterDomain); err != nil {
			return hostcall.Failf(port.InvalidConfig, "%v", err)
		}
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	f, err := c.pods.Root.OpenFile(filepath.Join(dir, hostsName), os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, hostsMode)
	if err != nil {
		return fmt.Errorf("write the hosts file: %w", err)
	}
	defer f.Close() //nolint:errcheck // what counts is written below
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("write the hosts file: not a regular file (%w)", err)
	}
	have, err := io.ReadAll(io.LimitReader(f, maxHostsFile))
	if err != nil {
		return fmt.Errorf("write the hosts file: %w", err)
	}
	if len(have) > 0 && !pod.Spec.HostNetwork && len(ips) == 0 || bytes.Equal(have, want) {
		return nil
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the hosts file: %w", err)
	}
	if _, err := f.WriteAt(want, 0); err != nil {
		return fmt.Errorf("write the hosts file: %w", err)
	}
	return f.Chmod(hostsMode)
}

// TerminationMessage implements port.ContainerFiles.
func (c *Files) TerminationMessage(ctx context.Context, r port.TerminationMessage, done func(string, error)) {
	hostcall.Get(ctx, "TerminationMessage", hostcall.Pod(r.Pod)+"/"+r.Container, func(context.Context) (string, error) {
		return c.terminationMessage(&r)
	}, done)
}

func (c *Files) terminationMessage(r *port.TerminationMessage) (string, error) {
	dir, err := agentdir.PodDir(string(r.Pod.UID))
	if err != nil {
		return "", err
	}
	name, err := messageFile(dir, r.Container, r.Attempt)
	if err != nil {
		return "", err
	}
	own, err := filepath.Rel(filepath.Join(c.pods.Path, dir), r.File)
	if r.File != "" && err == nil && filepath.IsLocal(own) {
		name = filepath.Join(dir, own)
	}
	said, _, err := readEnd(c.pods.Root, name, containerlogs.MaxMessageFile)
	if err != nil {
		return "", fmt.Errorf("read the termination message: %w", err)
	}
	if len(said) > 0 || !r.FromLog {
		return string(said), nil
	}
	logs, err := agentdir.LogDir(port.PodDirs{UID: r.Pod.UID, Namespace: r.Pod.Namespace, Name: r.Pod.Name})
	if err != nil {
		return "", err
	}
	all, err := c.logs.Dir()
	if err != nil {
		return "", fmt.Errorf("open the pod logs directory: %w", err)
	}
	log, whole, err := readEnd(all.Root,
		filepath.Join(logs, r.Container, strconv.FormatUint(uint64(r.Attempt), 10)+".log"), containerlogs.ReadMessageLog)
	if err != nil {
		return "", fmt.Errorf("read the container log for the termination message: %w", err)
	}
	return containerlogs.LogTail(log, whole), nil
}

// readEnd reads the last bytes of a file, at most that many; none if it is not
// there. It is one that a container writes: anything but a regular file is none.
func readEnd(root *os.Root, name string, most int64) (data []byte, whole bool, err error) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, true, err
	}
	begin := max(info.Size()-most, 0)
	data, err = io.ReadAll(io.NewSectionReader(f, begin, most))
	return data, begin == 0, err
}
