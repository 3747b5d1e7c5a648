package hosttest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// Loop is a block device whose content is a file.
type Loop struct {
	Device, File string
	t            *testing.T
}

// NewLoop makes one of a size in bytes, empty, and removes it when the test ends.
func NewLoop(t *testing.T, size int64) *Loop {
	t.Helper()
	l := &Loop{File: filepath.Join(t.TempDir(), "disk"), t: t}
	check.Fatal(t, os.WriteFile(l.File, nil, 0o600))
	l.Truncate(size)
	l.Device = strings.TrimSpace(Run(t, "losetup", "--find", "--show", l.File))
	t.Cleanup(func() { Run(t, "losetup", "--detach", l.Device) })
	return l
}

// Truncate gives the file another size. What is not in the file any more, the device can't read.
func (l *Loop) Truncate(size int64) {
	l.t.Helper()
	check.Fatal(l.t, os.Truncate(l.File, size))
}

// Grow gives the device another, greater size.
func (l *Loop) Grow(size int64) {
	l.t.Helper()
	l.Truncate(size)
	Run(l.t, "losetup", "--set-capacity", l.Device)
}

// Run runs a program that has to succeed, and gives its output.
func Run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
