package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/supervisor/config"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
)

// Where the kernel shows the cgroups of this host and of this process.
const (
	cgroupRoot = "/sys/fs/cgroup"
	ownCgroup  = "/proc/self/cgroup"
)

// cgroupFacts are what this host's cgroups are and can do.
type cgroupFacts struct {
	// v2: all controllers are in the one hierarchy of cgroup v2. A hybrid host, whose v2
	// hierarchy has no controllers, counts as v1.
	v2 bool
	// swap: the memory controller can limit swap.
	swap bool
}

// lookAtCgroups reads the facts from the file system at root; own is the list of this process's
// cgroups (cgroups(7)).
func lookAtCgroups(root, own string) cgroupFacts {
	if !exists(filepath.Join(root, "cgroup.controllers")) {
		return cgroupFacts{swap: exists(filepath.Join(root, "memory/memory.memsw.limit_in_bytes"))}
	}
	// The root of v2 has no limits. What its children have is what all can have; an agent in a
	// container of its own may see only its own cgroup as the root, and has that of its children.
	found, err := filepath.Glob(filepath.Join(root, "*/memory.swap.max"))
	if err == nil && len(found) > 0 {
		return cgroupFacts{v2: true, swap: true}
	}
	path, _ := cgroup.In(own, cgroup.V2) // without one, the root is looked at
	return cgroupFacts{v2: true, swap: exists(filepath.Join(root, path, "memory.swap.max"))}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// allowedBy is nil if the configuration can be had with such cgroups.
func (f cgroupFacts) allowedBy(c config.Config) error {
	if f.v2 {
		return nil
	}
	if c.FailCgroupV1() {
		return fmt.Errorf("failCgroupV1: this host uses cgroup v1: boot it with v2, or set failCgroupV1: false")
	}
	if single := c.Kubelet().SingleProcessOOMKill; single != nil && !*single {
		return fmt.Errorf(
			"singleProcessOOMKill: this host uses cgroup v1, which cannot kill a container as a whole: boot it with v2, or " +
				"remove the field",
		)
	}
	return nil
}
