package isolation

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// IDUnit is the unit of a block's length: the IDs of POSIX's 16 bits.
const IDUnit = 65536

// IDRange is the range of IDs for pods.
type IDRange struct {
	// First is the first ID of the first block.
	First uint32
	// PerPod is the length of a block, Blocks their number.
	PerPod, Blocks uint32
}

// WholeIDRange are all blocks of IDs from perPod on; those below are the node's own. perPod is
// userNamespaces.idsPerPod of the KubeletConfiguration, IDUnit by default.
func WholeIDRange(perPod uint32) (IDRange, error) {
	if perPod == 0 {
		return NewIDRange(0, 0, 0)
	}
	return NewIDRange(perPod, (math.MaxUint32-perPod)/perPod*perPod, perPod)
}

// NewIDRange divides count IDs from first on into blocks of perPod. The blocks must not contain the
// node's own users, and must use all IDs.
func NewIDRange(first, count, perPod uint32) (IDRange, error) {
	switch {
	case perPod == 0 || perPod%IDUnit != 0:
		return IDRange{}, fmt.Errorf("%d user IDs per pod: must be a multiple of %d, and above 0", perPod, IDUnit)
	case first < perPod:
		return IDRange{}, fmt.Errorf("the first user ID of pods, %d, must not be below %d: lower IDs belong to the node",
			first, perPod)
	case first%perPod != 0:
		return IDRange{}, fmt.Errorf("the first user ID of pods, %d, is not a multiple of %d", first, perPod)
	case count == 0 || count%perPod != 0:
		return IDRange{}, fmt.Errorf("the number of user IDs of pods, %d, is not a multiple of %d", count, perPod)
	case uint64(first)+uint64(count) > math.MaxUint32:
		return IDRange{}, fmt.Errorf("user IDs %d to %d: the highest possible ID is %d", first, uint64(first)+uint64(count)-1,
			uint32(math.MaxUint32-1))
	}
	return IDRange{First: first, PerPod: perPod, Blocks: count / perPod}, nil
}

// Pick returns the first ID of the lowest free block.
func (r IDRange) Pick(taken []uint32) (uint32, error) {
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
func (r IDRange) Has(first uint32) bool {
	return first >= r.First && first%r.PerPod == 0 && (first-r.First)/r.PerPod < r.Blocks
}

// IDMapping is a pod's block: ID n of the pod is First+n on the node.
type IDMapping struct{ First, Length uint32 }

type storedMapping struct {
	UIDs []idEntry `json:"uidMappings"`
	GIDs []idEntry `json:"gidMappings"`
}

type idEntry struct {
	Host      uint32 `json:"hostId"`
	Container uint32 `json:"containerId"`
	Length    uint32 `json:"length"`
}

// EncodeIDMapping returns the content of the file that stores a pod's mapping.
func EncodeIDMapping(m IDMapping) []byte {
	one := []idEntry{{Host: m.First, Length: m.Length}}
	data, err := json.Marshal(storedMapping{UIDs: one, GIDs: one})
	if err != nil {
		panic(err) // numbers can be encoded
	}
	return data
}

// DecodeIDMapping reads what EncodeIDMapping wrote, and rejects everything else.
func DecodeIDMapping(data []byte) (IDMapping, error) {
	var s storedMapping
	if err := json.Unmarshal(data, &s); err != nil {
		return IDMapping{}, err
	}
	if len(s.UIDs) != 1 || len(s.GIDs) != 1 || s.UIDs[0] != s.GIDs[0] {
		return IDMapping{}, errors.New("it must have one mapping, the same for users and groups")
	}
	e := s.UIDs[0]
	if e.Container != 0 || e.Length == 0 || e.Host == 0 || uint64(e.Host)+uint64(e.Length) > 1<<32 {
		return IDMapping{}, fmt.Errorf("invalid mapping: %d IDs from %d, mapped to %d", e.Length,
			e.Container, e.Host)
	}
	return IDMapping{First: e.Host, Length: e.Length}, nil
}
