package invariants

import (
	"bytes"
	"fmt"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/actors/decide/cpus"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/sim/machine"
)

// Held compares, at any instant, the CPUs that containers run on alone with those that the state file says are theirs.
// A container may have more there than it runs on, and never less: what is not there may be given to another. So no CPU
// is taken from a container that runs on it, but by a resize, after which it has left the CPU first.
type Held struct {
	// Fixed: no pod is resized, so a container that runs on CPUs alone never runs on others.
	Fixed bool

	data []byte
	file *cpus.File
	// own are CPUs that containers run on alone, by the container's ID.
	own map[string]cpuset.CPUSet
}

// Wrong says what is wrong now, empty for nothing.
func (h *Held) Wrong(rt *simcri.Runtime, disk *machine.Checkpoints) string {
	data := disk.Get(cpus.FileName)
	if data == nil {
		return ""
	}
	if h.file == nil || !bytes.Equal(data, h.data) {
		file, err := cpus.Parse(data)
		if err != nil {
			return fmt.Sprintf("%s: %v", cpus.FileName, err)
		}
		h.data, h.file = data, file
	}
	before := h.own
	h.own = map[string]cpuset.CPUSet{}
	for _, p := range rt.Truth().Runtime.Pods {
		for i := range p.Containers {
			c := &p.Containers[i]
			if c.State != observed.ContainerRunning {
				continue
			}
			at, err := cpuset.Parse(rt.Placement(c.ID).CPUs)
			if err != nil {
				return fmt.Sprintf("%s/%s runs on %v", p.Ref.Name, c.Name, err)
			}
			theirs, had := h.file.Own[p.Ref.UID][c.Name], before[c.ID]
			switch {
			case h.Fixed && !had.IsEmpty() && !had.Equals(at):
				return fmt.Sprintf("%s/%s runs on CPUs %s, and had %s alone", p.Ref.Name, c.Name, at, had)
			case !at.IsEmpty() && at.IsSubsetOf(theirs):
				h.own[c.ID] = at
			case !had.IsEmpty() && had.Equals(at):
				return fmt.Sprintf("%s/%s runs on CPUs %s, and of its own in %s are %q", p.Ref.Name, c.Name, at, cpus.FileName,
					theirs)
			}
		}
	}
	return ""
}
