// Package cgroup implements port.Cgroups on the cgroups of this machine.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/opencontainers/cgroups"
	cgroupmanager "github.com/opencontainers/cgroups/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// Cgroups implements port.Cgroups on this machine, with cgroup v1 or v2, in the
// file system or through systemd (github.com/opencontainers/cgroups).
type Cgroups struct {
	settings *podcgroup.Settings
	// v2: there is one hierarchy, at root. With v1 there is one for each
	// controller, at root/<controller>.
	v2   bool
	root string
	// hugetlb: the kernel limits huge pages.
	hugetlb bool
}

var _ port.Cgroups = (*Cgroups)(nil)

// cgroupRoot is where hierarchies are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// MissingError says that this host lacks a controller which the cgroups of pods need. A Raspberry Pi boots without the
// memory controller.
type MissingError struct{ Where, Controller string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s has no controller %s: boot the kernel with cgroup_enable=%[2]s and without "+
		"cgroup_disable=%[2]s, or have it delegated to the container that the agent runs in", e.Where, e.Controller)
}

// New finds out what this host has.
func New(s *podcgroup.Settings) (*Cgroups, error) {
	c := &Cgroups{settings: s, v2: cgroups.IsCgroup2UnifiedMode(), root: cgroupRoot}
	if c.v2 {
		have, err := cgroups.GetAllSubsystems()
		if err != nil {
			return nil, fmt.Errorf("controllers of cgroup v2: %w", err)
		}
		for _, need := range []string{"cpu", "memory", "pids"} {
			if !slices.Contains(have, need) {
				return nil, &MissingError{Where: c.root + "/cgroup.controllers", Controller: need}
			}
		}
		c.hugetlb = slices.Contains(have, "hugetlb")
		return c, nil
	}
	for _, need := range []string{"cpu", "memory", "pids"} {
		if !cgroups.PathExists(filepath.Join(c.root, need)) {
			return nil, &MissingError{Where: c.root, Controller: need}
		}
	}
	c.hugetlb = cgroups.PathExists(filepath.Join(c.root, "hugetlb"))
	return c, nil
}

// Set implements port.Cgroups.
func (c *Cgroups) Set(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	path := name.Path(c.settings.Driver)
	hostcall.Do(ctx, "SetCgroup", path, func(context.Context) error {
		m, err := c.open(name, v)
		if err != nil {
			return err
		}
		// With no process to put into it, this makes it.
		if err := m.Apply(-1); err != nil {
			return fmt.Errorf("make cgroup: %w", err)
		}
		// systemd was given the limits with that; what it has no property for, and
		// what it was told before, is set here.
		if err := m.Set(c.resources(v)); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
		return nil
	}, done)
}

// open gives what makes, changes and removes a cgroup.
func (c *Cgroups) open(name podcgroup.Name, v podcgroup.Values) (cgroups.Manager, error) {
	config := &cgroups.Cgroup{Resources: c.resources(v)}
	path := name.Path(c.settings.Driver)
	if c.settings.Driver == podcgroup.Cgroupfs {
		config.Path = path
		return cgroupmanager.New(config)
	}
	config.Systemd = true
	config.Name = filepath.Base(path)
	if config.Parent = filepath.Base(filepath.Dir(path)); config.Parent == "/" {
		config.Parent = "-.slice"
	}
	return cgroupmanager.New(config)
}

// resources are limits as the library has them.
func (c *Cgroups) resources(v podcgroup.Values) *cgroups.Resources {
	r := &cgroups.Resources{
		SkipDevices: true, SkipFreezeOnSet: true,
		CpuQuota: v.CPUQuota, CpuPeriod: v.CPUPeriod, Memory: v.Memory,
	}
	if v.CPUShares > 0 {
		if c.v2 {
			r.CpuWeight = podcgroup.Weight(v.CPUShares)
		} else {
			r.CpuShares = v.CPUShares
		}
	}
	if c.v2 {
		r.Unified = protection(v)
	}
	if v.PIDs > 0 {
		r.PidsLimit = &v.PIDs
	}
	if c.hugetlb {
		for _, h := range v.HugePages {
			r.HugetlbLimit = append(r.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: h.Size, Limit: h.Limit})
		}
	}
	return r
}

// protection are the files of cgroup v2 that the library has no field for.
func protection(v podcgroup.Values) map[string]string {
	files := map[string]string{}
	for name, n := range map[string]int64{"memory.min": v.MemoryMin, "memory.low": v.MemoryLow} {
		if n != 0 {
			files[name] = strconv.FormatInt(max(n, 0), 10)
		}
	}
	return files
}

// RemovePod implements port.Cgroups.
func (c *Cgroups) RemovePod(ctx context.Context, uid types.UID, done func(error)) {
	hostcall.Do(ctx, "RemovePodCgroup", string(uid), func(ctx context.Context) error {
		var errs []error
		for _, class := range podcgroup.Classes {
			name, err := c.settings.PodIn(class, uid)
			if err != nil {
				return nil //nolint:nilerr // none can have been made
			}
			errs = append(errs, c.remove(ctx, name))
		}
		return errors.Join(errs...)
	}, done)
}

func (c *Cgroups) remove(ctx context.Context, name podcgroup.Name) error {
	dirs := c.dirs(name.Path(c.settings.Driver))
	if !slices.ContainsFunc(dirs, cgroups.PathExists) {
		return nil
	}
	m, err := c.open(name, podcgroup.Values{})
	if err != nil {
		return err
	}
	if err := EndAll(ctx, dirs); err != nil {
		return err
	}
	if err := m.Destroy(); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	// Hierarchies that the library knows nothing of have it too: the runtime made
	// it there.
	for _, dir := range dirs {
		if err := cgroups.RemovePath(dir); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

// dirs are the directories of a cgroup, one in each hierarchy.
func (c *Cgroups) dirs(path string) []string {
	if c.v2 {
		return []string{filepath.Join(c.root, path)}
	}
	hierarchies, err := os.ReadDir(c.root)
	if err != nil {
		return nil
	}
	var out []string
	for _, h := range hierarchies {
		if h.IsDir() { // not the links beside them, such as cpuacct to cpu,cpuacct
			out = append(out, filepath.Join(c.root, h.Name(), path))
		}
	}
	return out
}

// Pods implements port.Cgroups.
func (c *Cgroups) Pods(ctx context.Context, done func([]types.UID, error)) {
	hostcall.Get(ctx, "PodCgroups", "", func(context.Context) ([]types.UID, error) {
		found := map[types.UID]bool{}
		for _, class := range podcgroup.Classes {
			if err := c.podsIn(class, found); err != nil {
				return nil, err
			}
		}
		return slices.Sorted(maps.Keys(found)), nil
	}, done)
}

func (c *Cgroups) podsIn(class v1.PodQOSClass, found map[types.UID]bool) error {
	for _, dir := range c.dirs(c.settings.Class(class).Path(c.settings.Driver)) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if uid, is := podcgroup.UIDOf(e.Name(), c.settings.Driver); is && e.IsDir() {
				found[uid] = true
			}
		}
	}
	return nil
}

// SetExisting gives limits to a cgroup that others made.
func (c *Cgroups) SetExisting(ctx context.Context, name podcgroup.Name, v podcgroup.Values, done func(error)) {
	path := name.Path(c.settings.Driver)
	hostcall.Do(ctx, "SetCgroup", path, func(context.Context) error {
		if !slices.ContainsFunc(c.dirs(path), cgroups.PathExists) {
			return hostcall.Failf(port.NotFound, "there is no cgroup %s", path)
		}
		m, err := c.open(name, v)
		if err != nil {
			return err
		}
		return m.Set(c.resources(v))
	}, done)
}
