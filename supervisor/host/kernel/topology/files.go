package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/utils/cpuset"

	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
)

// maxNumber bounds what is read. The kernel's own limits are lower: 8192 CPUs and 1024 nodes on the largest
// architectures.
const maxNumber = 1<<16 - 1

// The distances of nodes that do not tell them (ACPI, System Locality Information Table).
const (
	local  = 10
	remote = 20
)

type reader struct{ root string }

func (r reader) path(name string) string { return filepath.Join(r.root, name) }

func (r reader) exists(name string) bool {
	_, err := os.Stat(r.path(name))
	return err == nil
}

// escape makes a path a pattern of [filepath.Match] that matches only itself.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func (r reader) text(name string) (string, error) { return kernelfile.Text(r.path(name)) }

func (r reader) number(name string) (int, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.path(name), err)
	}
	return int(n), nil
}

// list reads a list of numbers in the kernel's format, such as 0-3,8 (cpuset(7)). It may be empty.
func (r reader) list(name string) (cpuset.CPUSet, error) {
	text, err := r.text(name)
	if err != nil {
		return cpuset.New(), err
	}
	if err := ascending(text); err != nil {
		return cpuset.New(), fmt.Errorf("%s: %w", r.path(name), err)
	}
	set, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.New(), fmt.Errorf("%s: %w", r.path(name), err)
	}
	return set, nil
}

// ascending limits a list before it takes memory: the kernel's are in order, and have no number twice.
func ascending(list string) error {
	last := -1
	for field := range strings.FieldsFuncSeq(list, func(c rune) bool { return c == ',' || c == '-' }) {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return err
		}
		if n > maxNumber || int(n) <= last {
			return fmt.Errorf("list of numbers: %d is above %d, or not above the one before", n, maxNumber)
		}
		last = int(n)
	}
	return nil
}

// memory is all memory in a file; 0 if there is no such file.
func (r reader) memory(name, prefix string) (uint64, error) {
	const all = "MemTotal"
	m, err := kernelfile.ReadMemory(r.path(name), prefix)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err == nil && !m.Has(all) {
		err = fmt.Errorf("%s: has no %s", r.path(name), prefix+all+":")
	}
	if err != nil {
		return 0, err
	}
	return m.Bytes(all)
}

// distances are those of the node at an index of all nodes.
func (r reader) distances(name string, index, nodes int) ([]int, error) {
	text, err := r.text(name)
	out := make([]int, 0, nodes)
	if errors.Is(err, fs.ErrNotExist) {
		for i := range nodes {
			if i == index {
				out = append(out, local)
			} else {
				out = append(out, remote)
			}
		}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(field, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path(name), err)
		}
		out = append(out, int(n))
	}
	if len(out) != nodes {
		return nil, fmt.Errorf("%s: has %d distances for %d nodes", r.path(name), len(out), nodes)
	}
	return out, nil
}
