package cpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/cpuset"
)

// FileName is that of the file.
const FileName = "cpu_manager_state"

// File is what the file has.
type File struct {
	// Policy is the name of the policy that wrote it (cpuManagerPolicy).
	Policy string
	// Shared are the CPUs of all containers without their own. Empty: nothing was assigned yet.
	Shared cpuset.CPUSet
	Own    State
}

type file struct {
	Policy   string                       `json:"policyName"`
	Shared   string                       `json:"defaultCpuSet"`
	Entries  map[string]map[string]string `json:"entries,omitempty"`
	Pods     map[string]json.RawMessage   `json:"podEntries,omitempty"`
	Checksum uint64                       `json:"checksum"`
}

// Parse reads a file. The checksum must be right, or missing as in files of old kubelets.
func Parse(data []byte) (*File, error) {
	f := file{Entries: map[string]map[string]string{}} // a file without entries counts as one with an empty list
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if len(f.Pods) > 0 {
		return nil, errors.New("it has CPUs of whole pods (podEntries, feature gate PodLevelResourceManagers), which " +
			"are not supported")
	}
	if sum := f.checksum(); f.Checksum != 0 && f.Checksum != sum {
		return nil, fmt.Errorf("its checksum is %d, and should be %d", f.Checksum, sum)
	}
	if f.Policy == "" {
		return nil, errors.New("it does not name a policy")
	}
	s := &File{Policy: f.Policy, Own: State{}}
	var err error
	if s.Shared, err = parse(f.Shared); err != nil {
		return nil, fmt.Errorf("defaultCpuSet %q: %w", f.Shared, err)
	}
	for uid, containers := range f.Entries { // order-free: a map again, and any error will do
		own := make(map[string]cpuset.CPUSet, len(containers))
		for name, text := range containers { // order-free: as above
			set, err := parse(text)
			if err == nil && set.IsEmpty() {
				err = errors.New("no CPUs")
			}
			if err != nil {
				return nil, fmt.Errorf("entries[%s][%s] %q: %w", uid, name, text, err)
			}
			own[name] = set
		}
		s.Own[types.UID(uid)] = own
	}
	return s, nil
}

// maxDigits is for numbers of CPUs: Linux supports 8192 at most. Larger ranges take long to parse.
const maxDigits = 4

func parse(text string) (cpuset.CPUSet, error) {
	for _, n := range strings.FieldsFunc(text, func(c rune) bool { return c == '-' || c == ',' }) {
		if len(n) > maxDigits {
			return cpuset.New(), fmt.Errorf("no machine has a CPU %s", n)
		}
	}
	return cpuset.Parse(text)
}

// Format writes a file. Pods without exclusive CPUs are left out.
func (s *File) Format() []byte {
	f := file{Policy: s.Policy, Shared: s.Shared.String(), Entries: map[string]map[string]string{}}
	for uid, own := range s.Own { // order-free: a map again
		if len(own) == 0 {
			continue
		}
		entry := make(map[string]string, len(own))
		for name, set := range own { // order-free: a map again
			entry[name] = set.String()
		}
		f.Entries[string(uid)] = entry
	}
	f.Checksum = f.checksum()
	data, err := json.Marshal(f)
	if err != nil {
		panic(err) // there are only strings in it
	}
	return data
}

// checksum is the kubelet's: FNV-1a of 32 bits over the content as text. The text names the kubelet's own Go types, has
// map keys in order, and does not quote strings. So it is a part of the format.
func (f *file) checksum() uint64 {
	h := fnv.New32a()
	put := func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) } // it never fails
	put("(*state.CPUManagerCheckpoint){PolicyName:(string)%s DefaultCPUSet:(string)%s ", f.Policy, f.Shared)
	put("Entries:(map[string]map[string]string)")
	if f.Entries == nil {
		put("<nil>")
	} else {
		put("map[")
		for i, uid := range slices.Sorted(maps.Keys(f.Entries)) {
			if i > 0 {
				put(" ")
			}
			put("%s:", uid)
			list := f.Entries[uid]
			if list == nil {
				put("<nil>")
				continue
			}
			put("map[")
			for j, name := range slices.Sorted(maps.Keys(list)) {
				if j > 0 {
					put(" ")
				}
				put("%s:%s", name, list[name])
			}
			put("]")
		}
		put("]")
	}
	put(" Checksum:(checksum.Checksum)0}")
	return uint64(h.Sum32())
}
