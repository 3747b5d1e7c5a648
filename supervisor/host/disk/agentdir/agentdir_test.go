package agentdir

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"in/b/x", "in/a/x", "in/file"} {
		hosttest.Write(t, filepath.Join(dir, name), "")
	}
	d := check.Value(Open(dir, Mode))(t)
	t.Cleanup(func() { check.Error(t, d.Root.Close()) })
	for _, c := range []struct {
		dir, want string
		is        func(fs.DirEntry) bool
	}{
		{"in", "a b file", nil}, {"in", "a b", fs.DirEntry.IsDir}, {".", "in", nil}, {"in/none", "", nil},
	} {
		check.Equal(t, strings.Join(check.Value(d.Names(c.dir, c.is))(t), " "), c.want, "in %s", c.dir)
	}
	check.Fails(t, check.Err(d.Names("in/file", nil)), "a file has names")
}
