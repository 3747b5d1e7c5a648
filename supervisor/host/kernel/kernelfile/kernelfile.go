// Package kernelfile reads the files of /proc and /sys that more than one subject needs.
package kernelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxFile bounds what is read of a file, in bytes.
const maxFile = 1 << 20

// Text is a file without the space around its text.
func Text(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(data)), nil
}

// Number is the number that a file has. An error names the file.
func Number(path string) (int64, error) {
	text, err := Text(path)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// Field is what follows name on the first line of a file that begins with it; false if there is none, or no such file.
func Field(path, name string) (value string, has bool) {
	text, _ := os.ReadFile(path) //nolint:errcheck // then it has none
	for line := range strings.Lines(string(text)) {
		if value, has = strings.CutPrefix(line, name); has {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// Memory are the lines of a file like /proc/meminfo (proc_meminfo(5)), by name.
type Memory struct {
	path  string
	lines map[string]string
}

// ReadMemory reads such a file. Of a NUMA node, each line begins with a prefix.
func ReadMemory(path, prefix string) (Memory, error) {
	text, err := Text(path)
	if err != nil {
		return Memory{}, err
	}
	m := Memory{path, map[string]string{}}
	for line := range strings.Lines(text) {
		if line, is := strings.CutPrefix(line, prefix); is {
			name, size, _ := strings.Cut(line, ":")
			m.lines[name] = strings.TrimSpace(size)
		}
	}
	return m, nil
}

// Bytes is the size of a name, 0 if the file does not have it. An error names file and line.
func (m Memory) Bytes(name string) (uint64, error) {
	text, has := m.lines[name]
	if !has {
		return 0, nil
	}
	kb, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(text, "kB")), 10, 64)
	if err != nil || kb > math.MaxInt64>>10 {
		return 0, fmt.Errorf("%s: %q: must be a size in kB", m.path, name+": "+text)
	}
	return kb << 10, nil
}

// Has says whether the file has a name.
func (m Memory) Has(name string) bool {
	_, has := m.lines[name]
	return has
}

// HugePages are the numbers of huge pages by their size in bytes, of a directory like /sys/kernel/mm/hugepages; nil if
// there is none.
func HugePages(dir string) (map[uint64]uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[uint64]uint64{}
	for _, e := range entries {
		size, ok := strings.CutPrefix(e.Name(), "hugepages-")
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		kb, err := strconv.ParseUint(strings.TrimSuffix(size, "kB"), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: size of huge pages: %w", path, err)
		}
		path = filepath.Join(path, "nr_hugepages")
		n, err := Number(path)
		if err == nil && n < 0 {
			err = fmt.Errorf("%s: %d is below 0", path, n)
		}
		if err != nil {
			return nil, err
		}
		out[kb<<10] = uint64(n)
	}
	return out, nil
}
