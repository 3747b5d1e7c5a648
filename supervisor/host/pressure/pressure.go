// Package pressure implements port.Pressure on this machine: what is left of its memory, processes and
// disks, and what pods use of them.
package pressure

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
)

// Config is what is measured.
type Config struct {
	Meter *resourceuse.Meter
	// Cgroups are the settings of pods' cgroups; nil if pods have none of their own.
	Cgroups *podcgroup.Settings
	// Runtime knows where images and writable layers are, and how large; nil if it does not report that.
	Runtime port.Usage
	// Ephemeral measures what pods take of the disk of Root (host.Host), with soon without waiting for large directories.
	Ephemeral func(ctx context.Context, pods []*v1.Pod, soon bool) ([]eviction.Use, error)
	// Files is what the files of a pod that the agent has written to memory take: the kernel counts them for the agent.
	// Nil: nothing.
	Files func(*v1.Pod) uint64
	// Root is the agent's root directory, Logs that of all pods' logs.
	Root, Logs string
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.Meter == nil || c.Ephemeral == nil:
		return errors.New("pressure: nothing measures this machine")
	case !filepath.IsAbs(c.Root) || !filepath.IsAbs(c.Logs):
		return fmt.Errorf("pressure: directories %q and %q: must be absolute paths", c.Root, c.Logs)
	}
	return nil
}

// Pressure implements port.Pressure.
type Pressure struct {
	config Config
	// psi is the kernel's file of memory pressure.
	psi string

	mu sync.Mutex
	// images and layers are where the runtime has them, as of asked.
	images, layers string
	asked          time.Time
	// used is what containers use, as the runtime said at usedAt.
	used   []usage.Container
	usedAt time.Time
	// looking are the file systems that are being asked how much room they have.
	looking map[string]bool
}

var _ port.Pressure = (*Pressure)(nil)

const (
	// diskPatience bounds the time that a file system has to say what room it has.
	diskPatience = time.Second
	// askAgain is when the runtime is asked again where its file systems are: they change only with its
	// configuration. askPatience bounds its answer.
	askAgain    = 10 * time.Minute
	askPatience = 2 * time.Second
)

// New makes what measures this machine.
func New(c Config) (*Pressure, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Pressure{config: c, psi: "/proc/pressure/memory", looking: map[string]bool{}}, nil
}

// Left implements port.Pressure.
func (p *Pressure) Left(ctx context.Context, done func(eviction.Reading, error)) {
	const verb, object = "Read", "what is left of this machine"
	rescue.Ask(ctx, func() (eviction.Reading, error) {
		r, err := p.left(ctx)
		if err != nil {
			err = &port.Error{Kind: hostcall.KindOf(err), Verb: verb, Object: object, Detail: err.Error()}
		}
		return r, err
	}, port.Panicked(verb, object), done)
}

func (p *Pressure) left(ctx context.Context) (eviction.Reading, error) {
	r := eviction.Reading{At: time.Now()}
	var errs []error
	r.Memory = p.memory()
	if !r.Memory.Known {
		errs = append(errs, errors.New("/proc/meminfo has no MemAvailable"))
	}
	if p.config.Cgroups != nil {
		if b, ok := p.config.Meter.Bound(p.top()); ok {
			r.Allocatable = eviction.Left{Available: b.Available, Capacity: b.Limit, Known: true}
		}
	}
	r.PID.Available, r.PID.Capacity, r.PID.Known = p.config.Meter.ProcessesLeft()
	if !r.PID.Known {
		errs = append(errs, errors.New("/proc says nothing about processes"))
	}
	images, layers, err := p.places(ctx)
	errs = append(errs, err)
	for _, d := range []struct {
		to   *eviction.Disk
		path string
	}{{&r.NodeFS, p.config.Root}, {&r.ImageFS, images}, {&r.ContainerFS, layers}} {
		if d.path == "" {
			continue
		}
		*d.to, err = p.disk(ctx, d.path)
		errs = append(errs, err)
	}
	r.LogFS, _ = p.disk(ctx, p.config.Logs) // nothing is short there; the directory may not be there yet
	return r, errors.Join(errs...)
}

// top is the cgroup of all pods.
func (p *Pressure) top() string { return p.config.Cgroups.Top().Path(p.config.Cgroups.Driver) }

// above is the lowest cgroup that pods are in and that the agent did not make (cgroupRoot).
func (p *Pressure) above() string {
	if p.config.Cgroups == nil {
		return "/"
	}
	return filepath.Dir(p.top())
}

// memory is what is left of the machine's memory, or of the smallest limit above the cgroup of all pods: a
// node in a container has no more than that.
func (p *Pressure) memory() eviction.Left {
	var l eviction.Left
	l.Available, l.Capacity, l.Known = p.config.Meter.MemoryLeft()
	for _, b := range p.config.Meter.Bounds(p.above()) {
		if !l.Known {
			break
		}
		l.Capacity, l.Available = min(l.Capacity, b.Limit), min(l.Available, b.Available)
	}
	return l
}

// places are where the runtime has images and writable layers, empty if it does not report that.
func (p *Pressure) places(ctx context.Context) (images, layers string, err error) {
	if p.config.Runtime == nil {
		return "", "", nil
	}
	p.mu.Lock()
	images, layers, asked := p.images, p.layers, p.asked
	p.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < askAgain {
		return images, layers, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	type both struct{ images, layers port.DiskUse }
	found, err := answer.Of(ctx, func(done func(both, error)) {
		p.config.Runtime.Disks(ctx, func(images, layers port.DiskUse, err error) { done(both{images, layers}, err) })
	})
	if err != nil { // what was known stays so
		return images, layers, fmt.Errorf("ask the runtime for its file systems: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.images, p.layers, p.asked = found.images.Mountpoint, found.layers.Mountpoint, time.Now()
	return p.images, p.layers, nil
}

// disk is what is left of the file system of path. While one hangs, it is not asked again.
func (p *Pressure) disk(ctx context.Context, path string) (eviction.Disk, error) {
	p.mu.Lock()
	hangs := p.looking[path]
	p.looking[path] = true
	p.mu.Unlock()
	if hangs {
		return eviction.Disk{}, hostcall.Failf(port.Unavailable,
			"statfs %s: the last call still hangs: check that disk", path)
	}
	ctx, cancel := context.WithTimeout(ctx, diskPatience)
	defer cancel()
	d, err := answer.Of(ctx, func(done func(eviction.Disk, error)) {
		rescue.Ask(ctx, func() (eviction.Disk, error) {
			defer func() {
				p.mu.Lock()
				delete(p.looking, path)
				p.mu.Unlock()
			}()
			return statfs(path)
		}, port.Panicked("statfs", path), done)
	})
	if err != nil {
		return eviction.Disk{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	return d, nil
}

func statfs(path string) (d eviction.Disk, err error) {
	var at unix.Stat_t
	var s unix.Statfs_t
	if err := errors.Join(unix.Stat(path, &at), unix.Statfs(path, &s)); err != nil {
		return d, err
	}
	d.Device = fmt.Sprintf("%d:%d", unix.Major(at.Dev), unix.Minor(at.Dev))
	block := uint64(s.Bsize)
	d.Bytes = eviction.Left{Available: s.Bavail * block, Capacity: s.Blocks * block, Known: s.Blocks > 0}
	// A file system that makes inodes as they are needed has 0 (btrfs).
	d.Inodes = eviction.Left{Available: s.Ffree, Capacity: s.Files, Known: s.Files > 0}
	return d, nil
}
