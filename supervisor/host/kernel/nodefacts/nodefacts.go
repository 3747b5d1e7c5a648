// Package nodefacts implements port.NodeFacts: what this machine is and has.
package nodefacts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/rescue"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/topology"
)

// Config is what of a node's facts the machine doesn't know.
type Config struct {
	// Disk is a path on the file system that pods' ephemeral storage is on. If it is empty, that storage is not
	// counted: the node has no resource ephemeral-storage.
	Disk string
	// MaxPods is how many pods may run here, with so many CPUs.
	MaxPods func(cpus int) int
	// Held is how much of a resource pods may not have: what is reserved, and what
	// must be left before pods are evicted. In the resource's own unit, thousandths
	// of a CPU for that. Nil for nothing.
	Held func(name v1.ResourceName, capacity int64) int64
	// Fixed are the resources that stay what they were at the first reading; nil for none.
	Fixed func(v1.ResourceName) bool
	// Addresses are asked for at each reading, as they may come and go; nil for none.
	Addresses func() []v1.NodeAddress
	// Version is the agent's (status.nodeInfo.kubeletVersion).
	Version string
	// Root is where /proc, /sys and /etc are found; / if empty.
	Root string
}

// Facts implements port.NodeFacts.
type Facts struct {
	config Config
	mu     sync.Mutex
	last   *port.Machine
	// begun is the capacity of the first reading, nil before it.
	begun v1.ResourceList
}

var _ port.NodeFacts = (*Facts)(nil)

// New makes the facts of this machine.
func New(c Config) (*Facts, error) {
	if c.Disk != "" && !filepath.IsAbs(c.Disk) {
		return nil, fmt.Errorf("facts: storage path of pods %q: must be an absolute path", c.Disk)
	}
	if n := c.MaxPods(1); n <= 0 {
		return nil, fmt.Errorf("facts: maximum of %d pods: must be above 0", n)
	}
	if c.Root == "" {
		c.Root = "/"
	}
	return &Facts{config: c}, nil
}

// Machine implements port.NodeFacts.
func (f *Facts) Machine(ctx context.Context, done func(*port.Machine, error)) {
	const verb, object = "read", "the facts of this machine"
	rescue.Ask(ctx, func() (*port.Machine, error) {
		m, err := f.read()
		if err != nil {
			return nil, &port.Error{Verb: verb, Object: object, Detail: err.Error()}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.last == nil || !apiequality.Semantic.DeepEqual(f.last, m) {
			f.last = m
		}
		return f.last, nil
	}, port.Panicked(verb, object), done)
}

// Last is what was read last, nil for nothing. It is never changed.
func (f *Facts) Last() *port.Machine {
	if f == nil {
		return nil // nobody has looked around
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *Facts) read() (*port.Machine, error) {
	online, err := topology.Online(f.config.Root)
	if err != nil {
		return nil, err
	}
	capacity := v1.ResourceList{
		v1.ResourceCPU: *resource.NewMilliQuantity(int64(online.Size())*1000, resource.DecimalSI),
	}
	memory, swap, err := f.memory()
	if err != nil {
		return nil, err
	}
	capacity[v1.ResourceMemory] = *resource.NewQuantity(memory, resource.BinarySI)
	if f.config.Disk != "" {
		var fs unix.Statfs_t
		if err := unix.Statfs(f.config.Disk, &fs); err != nil {
			return nil, fmt.Errorf("statfs %s: %w", f.config.Disk, err)
		}
		capacity[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*fs.Bsize, resource.BinarySI)
	}
	if err := f.hugePages(capacity); err != nil {
		return nil, err
	}
	f.fix(capacity)
	pods := f.config.MaxPods(int(capacity.Cpu().Value()))
	capacity[v1.ResourcePods] = *resource.NewQuantity(int64(pods), resource.DecimalSI)
	info, err := f.info()
	if err != nil {
		return nil, err
	}
	if swap > 0 {
		info.Swap = &v1.NodeSwapStatus{Capacity: &swap}
	}
	m := &port.Machine{Capacity: capacity, Allocatable: f.allocatable(capacity), Info: info}
	if f.config.Addresses != nil {
		m.Addresses = f.config.Addresses()
	}
	return m, nil
}

// fix keeps what is fixed.
func (f *Facts) fix(capacity v1.ResourceList) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun == nil {
		f.begun = maps.Clone(capacity)
	}
	fixed := f.config.Fixed
	if fixed == nil {
		return
	}
	maps.DeleteFunc(capacity, func(name v1.ResourceName, _ resource.Quantity) bool { return fixed(name) })
	for name, q := range f.begun { // order-free: by key
		if fixed(name) {
			capacity[name] = q
		}
	}
}

// allocatable is what pods may have. Huge pages are not available as other memory.
func (f *Facts) allocatable(capacity v1.ResourceList) v1.ResourceList {
	out := capacity.DeepCopy()
	if held := f.config.Held; held != nil {
		for name, q := range capacity { // order-free: each on its own
			if name == v1.ResourceCPU {
				out[name] = *resource.NewMilliQuantity(max(q.MilliValue()-held(name, q.MilliValue()), 0), q.Format)
			} else {
				out[name] = *resource.NewQuantity(max(q.Value()-held(name, q.Value()), 0), q.Format)
			}
		}
	}
	left := out[v1.ResourceMemory]
	for name, q := range out { // order-free: a sum
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			left.Sub(q)
		}
	}
	if left.Sign() < 0 {
		left = *resource.NewQuantity(0, resource.BinarySI)
	}
	out[v1.ResourceMemory] = left
	return out
}

// memory is all memory and all swap, in bytes.
func (f *Facts) memory() (total, swap int64, err error) {
	info, err := kernelfile.ReadMemory(f.path("proc/meminfo"), "")
	if err != nil {
		return 0, 0, err
	}
	all, err := info.Bytes("MemTotal")
	if err != nil {
		return 0, 0, err
	}
	if all == 0 {
		return 0, 0, errors.New("/proc/meminfo has no MemTotal")
	}
	other, err := info.Bytes("SwapTotal")
	return int64(all), int64(other), err //nolint:gosec // Bytes bounds them
}

// hugePages adds what is set aside in pages of each size.
func (f *Facts) hugePages(capacity v1.ResourceList) error {
	pages, err := kernelfile.HugePages(f.path("sys/kernel/mm/hugepages"))
	for bytes, n := range pages { // order-free: by key
		size := resource.NewQuantity(int64(bytes), resource.BinarySI) //nolint:gosec // a power of two of the machine
		capacity[v1.ResourceName(v1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(
			int64(n*bytes), resource.BinarySI) //nolint:gosec // not more than the memory
	}
	return err
}

// info is who the machine is. What it doesn't say stays empty.
func (f *Facts) info() (v1.NodeSystemInfo, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return v1.NodeSystemInfo{}, fmt.Errorf("uname: %w", err)
	}
	i := v1.NodeSystemInfo{
		MachineID: f.first("etc/machine-id", "var/lib/dbus/machine-id"), BootID: f.first("proc/sys/kernel/random/boot_id"),
		SystemUUID:    f.first("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid"),
		KernelVersion: unix.ByteSliceToString(u.Release[:]),
		OSImage:       f.osImage(), KubeletVersion: f.config.Version, OperatingSystem: runtime.GOOS,
		Architecture: runtime.GOARCH,
	}
	if i.SystemUUID == "" {
		i.SystemUUID = i.MachineID
	}
	return i, nil
}

// osImage is the name of the system for people (os-release(5)), in the kubelet's words if the system does not say it.
func (f *Facts) osImage() string {
	unnamed := "Unknown"
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		data, err := os.ReadFile(f.path(name))
		if err != nil {
			continue
		}
		unnamed = "Linux"
		for line := range strings.Lines(string(data)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return strings.Trim(v, `"'`)
			}
		}
	}
	return unnamed
}

// first is the first of some files that has anything in it.
func (f *Facts) first(names ...string) string {
	for _, name := range names {
		data, err := os.ReadFile(f.path(name))
		if s := strings.Trim(string(data), "\x00 \n"); err == nil && s != "" {
			return s
		}
	}
	return ""
}

func (f *Facts) path(name string) string { return filepath.Join(f.config.Root, name) }
