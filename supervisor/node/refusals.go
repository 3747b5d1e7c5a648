package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/actors/checkpoint"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/admin"
	"github.com/troupe-dev/troupe/supervisor/agent"
	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
)

// validate finds what is wrong with the configuration, before anything is reached or changed.
func (d *nodeDaemon) validate(context.Context) error {
	var texts []string
	for _, err := range d.refusals() {
		texts = append(texts, err.Error())
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

// refusals are why this machine can't be a node with the configuration. It only reads.
func (d *nodeDaemon) refusals() (why []error) {
	c := d.Config
	add := func(err error) {
		if err != nil {
			why = append(why, err)
		}
	}
	var err error
	d.apiserver, err = credential(c)
	add(err)
	add(serverFiles(c))
	hostname, err := os.Hostname()
	add(err)
	if err == nil {
		d.name, err = c.NodeName(hostname)
		add(err)
	}
	d.machine, err = detectMachine(c, d.name)
	add(err)
	if err == nil {
		why = append(why, d.machine.refusals(c)...)
	}
	if len(admin.SocketIn(c.Options().RootDir)) > socketPathLimit {
		add(fmt.Errorf("--root-dir %s: this path is too long for a unix socket in it: choose a shorter path",
			c.Options().RootDir))
	}
	why = append(why, newerStates(filepath.Join(c.Options().RootDir, checkpointsDir))...)
	d.settings = agent.Of(c)
	if why == nil {
		d.counters, err = counters(&d.machine, d.name)
		add(err)
	}
	return why
}

// newerStates are the checkpoints in a directory that a newer release has written. An agent that went on without them
// would forget what the pods rely on, and a kubelet that can't read such a file does not start either. What else is
// wrong with a checkpoint its actor finds, which goes on without it.
func newerStates(dir string) (why []error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil // there is none, or the one that can't be read is told where it is needed
	}
	store := checkpoints.New(dir)
	for _, f := range files {
		name, is := strings.CutSuffix(f.Name(), ".json")
		if !is || strings.HasPrefix(name, ".") { // an unfinished write
			continue
		}
		if data, err := store.Read(name); err == nil {
			if newer := checkpoint.Newer(data); newer != nil {
				why = append(why, fmt.Errorf("%s: %w: start that release again, or move the file away to go on without what "+
					"is in it", filepath.Join(dir, f.Name()), newer))
			}
		}
	}
	return why
}

// refusals are why this machine can't be a node with that configuration.
func (m machine) refusals(c config.Config) (why []error) {
	if c.FailSwapOn() {
		if device := swapOn(); device != "" {
			why = append(why, fmt.Errorf("failSwapOn: swap is on (%s): turn it off, or set failSwapOn: false", device))
		}
	}
	if err := m.cgroups.allowedBy(c); err != nil {
		why = append(why, err)
	}
	if err := m.overReserved(held(c)); err != nil {
		why = append(why, err)
	}
	if c.Kubelet().ProtectKernelDefaults {
		if _, err := protectKernel(sysctlRoot, true); err != nil {
			why = append(why, err)
		}
	}
	return why
}

// overReserved says which resources the machine has less of than is kept from pods: they would all be refused.
func (m machine) overReserved(held func(v1.ResourceName, int64) int64) error {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(m.capacity)) {
		q, amount := m.capacity[name], func(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
		has := q.Value()
		if name == v1.ResourceCPU {
			has = q.MilliValue()
			amount = func(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }
		}
		if kept := held(name, has); kept > has {
			texts = append(texts, fmt.Sprintf("%s: %s are reserved and the machine has %s", name, amount(kept), amount(has)))
		}
	}
	if texts == nil {
		return nil
	}
	return fmt.Errorf("invalid Node Allocatable configuration: %s: lower systemReserved, kubeReserved or evictionHard",
		strings.Join(texts, "; "))
}

// nodeEvents are what programs look for in events of the Node: their reasons are a kubelet's. swap names a device, and
// memoryStays says whether the kernel keeps volumes in memory from being swapped to it.
func (m machine) nodeEvents(swap string, memoryStays func() bool) (out []port.Event) {
	if !m.cgroups.v2 {
		out = append(out, port.Event{Reason: "CgroupV1", Message: oldCgroups})
	}
	if swap != "" && !memoryStays() {
		out = append(out, port.Event{
			Reason: "PossibleMemoryBackedVolumesOnDisk",
			Message: "swap is on (" + swap + "), and the kernel's tmpfs has no option noswap: Secrets and other volumes in " +
				"memory may be written to a disk",
		})
	}
	return out
}

// oldCgroups is said of a host with cgroup v1.
const oldCgroups = "this host uses cgroup v1, which is deprecated in Kubernetes: plan to boot it with cgroup v2"

// warnings are what the operator should know of this machine as a node with that configuration.
func (m machine) warnings(c config.Config) []string {
	out := append(m.memoryWarnings(c), nodeIPWarnings(c.NodeIPs(), ofInterface)...)
	if m.noResolver != nil {
		out = append(out, "resolvConf: "+m.noResolver.Error()+": new pods that need it wait until it can be read")
	}
	if m.noLabels != nil {
		out = append(out, m.noLabels.Error())
	}
	if !m.cgroups.v2 {
		out = append(out, oldCgroups)
	}
	return out
}
