package kernelfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	hosttest.Write(t, path, "Node 0 MemTotal:  2 kB\nNode 0 MemFree: many kB\nNode 0 Huge: 18446744073709551615 kB\nother: 1 kB\n")
	m := check.Value(ReadMemory(path, "Node 0 "))(t)
	check.Equal(t, check.Value(m.Bytes("MemTotal"))(t), 2048, "MemTotal")
	check.Equal(t, check.Value(m.Bytes("SwapTotal"))(t), 0, "what is not there")
	if m.Has("SwapTotal") || m.Has("other") || !m.Has("MemFree") {
		t.Errorf("%+v", m)
	}
	for _, name := range []string{"MemFree", "Huge"} {
		if _, err := m.Bytes(name); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadMemory(path+".none", ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	hosttest.Write(t, filepath.Join(dir, "hugepages-2048kB/nr_hugepages"), "8\n")
	hosttest.Write(t, filepath.Join(dir, "other"), "")
	check.Deep(t, check.Value(HugePages(dir))(t), map[uint64]uint64{2 << 20: 8}, "it")
	check.Equal(t, len(check.Value(HugePages(dir+"/none"))(t)), 0, "sizes without a directory")
	hosttest.Write(t, filepath.Join(dir, "hugepages-4kB/nr_hugepages"), "-1\n")
	check.Fails(t, check.Err(HugePages(dir)), "less than none")
}

func TestField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stat")
	hosttest.Write(t, path, "cpu  1 2\nbtime 123 \nbtime 4\n")
	for name, want := range map[string]string{"btime ": "123", "cpu ": "1 2", "ctxt ": ""} {
		got, has := Field(path, name)
		check.Equal(t, got, want, "%s", name)
		check.Equal(t, has, want != "", "there is %s", name)
	}
	if got, has := Field(path+".none", "btime "); has || got != "" {
		t.Errorf("no file: %q", got)
	}
}
