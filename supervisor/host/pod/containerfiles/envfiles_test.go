package containerfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/containerplan"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestReadEnvFiles: whatever a container put there, nothing of the node is read,
// and nobody waits.
func TestReadEnvFiles(t *testing.T) {
	l := newLab(t)
	volume := filepath.Join(t.TempDir(), "v")
	check.Fatal(t, os.MkdirAll(filepath.Join(volume, "dir"), 0o755))
	check.Fatal(t, os.WriteFile(filepath.Join(volume, "dir", "x.env"), []byte("K='v'"), 0o600))
	check.Fatal(t, os.WriteFile(filepath.Join(volume, "empty"), nil, 0o600))
	check.Fatal(t, os.WriteFile(filepath.Join(volume, "big"), make([]byte, containerplan.MaxEnvFile+1), 0o600))
	check.Fatal(t, os.Symlink("/etc/passwd", filepath.Join(volume, "passwd")))
	check.Fatal(t, os.Symlink("dir/x.env", filepath.Join(volume, "link")))
	check.Fatal(t, os.Symlink("/etc", filepath.Join(volume, "etc")))
	check.Fatal(t, unix.Mkfifo(filepath.Join(volume, "fifo"), 0o600))
	for _, c := range []struct{ path, want, err string }{
		{"dir/x.env", "v", ""},
		{"link", "v", ""},
		{"empty", "", ""},
		{"none", "not there", ""},
		{"none/x", "not there", ""},
		{"passwd", "", "points outside the volume"},
		{"etc/passwd", "", "points outside the volume"},
		{"../v/empty", "", "points outside the volume"},
		{"fifo", "", "not a regular file"},
		{"dir", "", "not a regular file"},
		{"big", "", "it is longer than"},
	} {
		type result struct {
			read []*containerplan.EnvFileValues
			err  error
		}
		got := make(chan result, 1)
		l.ReadEnvFiles(t.Context(), port.ReadEnvFiles{Pod: newPod(), Container: "app", Files: []containerplan.EnvFile{{Volume: "v", Root: volume, Path: c.path, Keys: []string{"K"}}}},
			func(read []*containerplan.EnvFileValues, err error) { got <- result{read, err} })
		r := <-got
		if c.err != "" {
			if r.err == nil || !strings.Contains(r.err.Error(), c.err) || port.KindOf(r.err) != port.InvalidConfig {
				t.Errorf("%s: %v, want %q", c.path, r.err, c.err)
			}
			continue
		}
		text := "not there"
		if r.err == nil && r.read[0] != nil {
			text = check.Value(valueOf(r.read[0]))(t)
		}
		if r.err != nil || text != c.want {
			t.Errorf("%s: %q, %v", c.path, text, r.err)
		}
	}
}

func valueOf(f *containerplan.EnvFileValues) (string, error) {
	v, _, err := f.Value("K")
	return v, err
}
