package shortage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
)

// MiB is 1024² bytes.
const MiB = 1 << 20

// Of the pods' memory: all that they may have, and how little of it is left when pods are evicted, in bytes.
const (
	MemoryLimit     = 1536 * MiB
	MemoryThreshold = 500 * MiB
)

// Hog are the arguments of the work image that take memory until none is left: 150 MiB per second, so that the way
// from the threshold to the limit takes 3.3 s.
const Hog = "hog memory 4000 150"

// MemorySettings are the lines of KubeletConfiguration for such a node. reserved is what pods do not get of the
// machine's memory, a quantity.
func MemorySettings(reserved string) string {
	return fmt.Sprintf("evictionHard: {memory.available: %dMi}\nevictionPressureTransitionPeriod: 3s\n"+
		"systemReserved: {memory: %q}\n", MemoryThreshold/MiB, reserved)
}

// Reserved is what must be reserved of the machine's memory so that pods have [MemoryLimit], a quantity.
func Reserved() (string, error) {
	all, err := machineMemory()
	if err == nil && all <= MemoryLimit {
		err = fmt.Errorf("the machine has %d MiB of memory; pods are to have %d", all/MiB, MemoryLimit/MiB)
	}
	return strconv.FormatInt(all-MemoryLimit, 10), err
}

// machineMemory is how much there is, in bytes.
func machineMemory() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemTotal")
}

// memoryFile is a file of a cgroup's memory; v1 and v2 name some differently.
func memoryFile(cgroup, v1, v2 string) string {
	const mount = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(mount, "memory")); err == nil {
		return filepath.Join(mount, "memory", cgroup, v1)
	}
	return filepath.Join(mount, cgroup, v2)
}

// LimitMemory makes a cgroup whose memory is limited to [MemoryLimit].
func LimitMemory(cgroup string) error {
	file := memoryFile(cgroup, "memory.limit_in_bytes", "memory.max")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(MemoryLimit)), 0)
}

// Taken is how much of a cgroup's memory cannot be given up, in bytes.
func Taken(cgroup string) (_ int64, err error) {
	defer check.Return(&err)
	text := check.Must(os.ReadFile(memoryFile(cgroup, "memory.usage_in_bytes", "memory.current")))
	sum := check.Must(strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64))
	stat := check.Must(os.ReadFile(memoryFile(cgroup, "memory.stat", "memory.stat")))
	files, err := files(string(stat))
	return sum - files, err
}

// files is how much of a memory.stat is the content of files, of the cgroups below it too.
func files(stat string) (sum int64, err error) {
	total := "" // what those below are counted with
	if strings.Contains(stat, "\ntotal_") {
		total = "total_"
	}
	for line := range strings.Lines(stat) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == total+"inactive_file" || name == total+"active_file" {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory.stat: %w", err)
			}
			sum += n
		}
	}
	return sum, nil
}
