// Package userns decides which user IDs of the node a pod with its own user namespace gets (core/v1
// PodSpec.hostUsers: false, KEP-127).
//
// The node's IDs for pods are divided into blocks of equal length. A pod has one block, from the
// start of its sandbox until its directory is removed. The block is recorded in that directory, in
// the kubelet's form, so that either agent finds the blocks of the other.
//
// The highest number, 2³²-1, is no ID: the kernel maps none to it (user_namespaces(7)), so it is in no block.
//
//	0 … PerPod │ block 0 │ block 1 │ … │ block Blocks-1 │ … 2³²-2
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Unit is the unit of a block's length: the IDs of POSIX's 16 bits.
const Unit = 65536

// Range is the range of IDs for pods.
type Range struct {
	// First is the first ID of the first block.
	First uint32
	// PerPod is the length of a block, Blocks their number.
	PerPod, Blocks uint32
}

// Whole are all blocks of IDs from perPod on; those below are the node's own. perPod is
// userNamespaces.idsPerPod of the KubeletConfiguration, Unit by default.
func Whole(perPod uint32) (Range, error) {
	if perPod == 0 {
		return NewRange(0, 0, 0)
	}
	return NewRange(perPod, (math.MaxUint32-perPod)/perPod*perPod, perPod)
}

// NewRange divides count IDs from first on into blocks of perPod. The blocks must not contain the
// node's own users, and must use all IDs.
func NewRange(first, count, perPod uint32) (Range, error) {
	switch {
	case perPod == 0 || perPod%Unit != 0:
		return Range{}, fmt.Errorf("%d user IDs per pod: must be a multiple of %d, and above 0", perPod, Unit)
	case first < perPod:
		return Range{}, fmt.Errorf("the first user ID of pods, %d, must not be below %d: lower IDs belong to the node", first,
			perPod)
	case first%perPod != 0:
		return Range{}, fmt.Errorf("the first user ID of pods, %d, is not a multiple of %d", first, perPod)
	case count == 0 || count%perPod != 0:
		return Range{}, fmt.Errorf("the number of user IDs of pods, %d, is not a multiple of %d", count, perPod)
	case uint64(first)+uint64(count) > math.MaxUint32:
		return Range{}, fmt.Errorf("user IDs %d to %d: the highest possible ID is %d", first, uint64(first)+uint64(count)-1,
			uint32(math.MaxUint32-1))
	}
	return Range{First: first, PerPod: perPod, Blocks: count / perPod}, nil
}

// Pick returns the first ID of the lowest free block.
func (r Range) Pick(taken []uint32) (uint32, error) {
	used := make(map[uint32]bool, len(taken))
	for _, first := range taken {
		used[first] = true
	}
	for i := range r.Blocks {
		if first := r.First + i*r.PerPod; !used[first] {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no free user IDs for a pod with hostUsers: false: all %d blocks of the node are used", r.Blocks)
}

// Has says whether a block starts at first.
func (r Range) Has(first uint32) bool {
	return first >= r.First && first%r.PerPod == 0 && (first-r.First)/r.PerPod < r.Blocks
}

// Mapping is a pod's block: ID n of the pod is First+n on the node.
type Mapping struct{ First, Length uint32 }

type stored struct {
	UIDs []entry `json:"uidMappings"`
	GIDs []entry `json:"gidMappings"`
}

type entry struct {
	Host      uint32 `json:"hostId"`
	Container uint32 `json:"containerId"`
	Length    uint32 `json:"length"`
}

// Encode returns the content of the file that stores a pod's mapping.
func Encode(m Mapping) []byte {
	one := []entry{{Host: m.First, Length: m.Length}}
	data, err := json.Marshal(stored{UIDs: one, GIDs: one})
	if err != nil {
		panic(err) // numbers can be encoded
	}
	return data
}

// Decode reads what Encode wrote, and rejects everything else.
func Decode(data []byte) (Mapping, error) {
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return Mapping{}, err
	}
	if len(s.UIDs) != 1 || len(s.GIDs) != 1 || s.UIDs[0] != s.GIDs[0] {
		return Mapping{}, errors.New("it must have one mapping, the same for users and groups")
	}
	e := s.UIDs[0]
	if e.Container != 0 || e.Length == 0 || e.Host == 0 || uint64(e.Host)+uint64(e.Length) > 1<<32 {
		return Mapping{}, fmt.Errorf("invalid mapping: %d IDs from %d, mapped to %d", e.Length,
			e.Container, e.Host)
	}
	return Mapping{First: e.Host, Length: e.Length}, nil
}
