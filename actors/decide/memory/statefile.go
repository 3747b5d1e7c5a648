package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/dump"

	"github.com/troupe-dev/troupe/actors/decide/memory/state"
	"github.com/troupe-dev/troupe/actors/decide/topology"
)

// FileName is that of the file.
const FileName = "memory_manager_state"

// File is what the file has.
type File struct {
	// Policy is the name of the policy that wrote it (memoryManagerPolicy).
	Policy string
	Own    State
}

type file struct {
	state.MemoryManagerCheckpoint
	Pods     map[string]json.RawMessage `json:"podEntries,omitempty"`
	Checksum uint64                     `json:"checksum"`
}

// Parse reads a file. The checksum must be right, or missing.
func Parse(data []byte) (*File, error) {
	var f file
	f.MachineState, f.Entries = state.NUMANodeMap{}, state.ContainerMemoryAssignments{} // as a kubelet: none is as empty
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if len(f.Pods) > 0 {
		return nil, errors.New("it has memory of whole pods (podEntries, feature gate PodLevelResourceManagers), which " +
			"is not supported")
	}
	if sum := checksum(&f.MemoryManagerCheckpoint); f.Checksum != 0 && f.Checksum != sum {
		return nil, fmt.Errorf("its checksum is %d, and should be %d", f.Checksum, sum)
	}
	if f.PolicyName == "" {
		return nil, errors.New("it does not name a policy")
	}
	s := &File{Policy: f.PolicyName, Own: State{}}
	for uid, containers := range f.Entries { // order-free: a map again, and any error will do
		own := make(map[string][]Block, len(containers))
		for name, blocks := range containers { // order-free: as above
			for i, b := range blocks {
				got, err := block(b)
				if err != nil {
					return nil, fmt.Errorf("entries[%s][%s][%d]: %w", uid, name, i, err)
				}
				own[name] = append(own[name], got)
			}
		}
		s.Own[types.UID(uid)] = own
	}
	return s, nil
}

func block(b state.Block) (Block, error) {
	set := topology.Possible(b.NUMAAffinity)
	switch {
	case set.Size() == 0 || set.Size() != len(b.NUMAAffinity):
		return Block{}, fmt.Errorf("numaAffinity: must be different NUMA nodes from 0 to 63: %d", b.NUMAAffinity)
	case !Is(b.Type):
		return Block{}, fmt.Errorf("type: must be memory or hugepages-SIZE: %q", b.Type)
	case b.Size > math.MaxInt64:
		return Block{}, fmt.Errorf("size: must be below 2^63: %d", b.Size)
	}
	return Block{Nodes: set, Type: b.Type, Size: b.Size}, nil
}

// Format writes the file of what containers have. The state must fit the machine (see [Rules.Count]). The name
// of the policy is Static with all policies of this agent, as all of them have what Static may have given.
func Format(r *Rules, own State) ([]byte, error) {
	used, err := r.Count(own)
	if err != nil {
		return nil, err
	}
	f := file{}
	f.PolicyName, f.MachineState = kubelet.StaticMemoryManagerPolicy, state.NUMANodeMap{}
	f.Entries = state.ContainerMemoryAssignments{}
	for id, banks := range r.Banks() { // order-free: a map again
		n := &state.NUMANodeState{
			NumberOfAssignments: used[id].Assignments, Cells: used[id].Group.List(),
			MemoryMap: map[v1.ResourceName]*state.MemoryTable{},
		}
		for name, b := range banks { // order-free: a map again
			reserved := used[id].Reserved[name]
			n.MemoryMap[name] = &state.MemoryTable{
				TotalMemSize: b.Total, SystemReserved: b.System, Allocatable: b.Allocatable,
				Reserved: reserved, Free: b.Allocatable - reserved,
			}
		}
		f.MachineState[id] = n
	}
	for uid, containers := range own { // order-free: a map again
		if len(containers) == 0 {
			continue
		}
		entry := make(map[string][]state.Block, len(containers))
		for name, blocks := range containers { // order-free: a map again
			for _, b := range blocks {
				entry[name] = append(entry[name], state.Block{NUMAAffinity: b.Nodes.List(), Type: b.Type, Size: b.Size})
			}
		}
		f.Entries[string(uid)] = entry
	}
	f.Checksum = checksum(&f.MemoryManagerCheckpoint)
	return json.Marshal(f)
}

// FormatNone is the file of memoryManagerPolicy None.
func FormatNone() ([]byte, error) {
	f := file{}
	f.PolicyName, f.MachineState = kubelet.NoneMemoryManagerPolicy, state.NUMANodeMap{}
	f.Entries = state.ContainerMemoryAssignments{}
	f.Checksum = checksum(&f.MemoryManagerCheckpoint)
	return json.Marshal(f)
}

// checksum is the kubelet's: FNV-1a of 32 bits over the content as text.
func checksum(c *state.MemoryManagerCheckpoint) uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.TrimSuffix(dump.ForHash(c), "}") + " Checksum:(checksum.Checksum)0}")) // it never fails
	return uint64(h.Sum32())
}
