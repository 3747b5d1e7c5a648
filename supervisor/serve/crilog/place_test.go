package crilog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestLinks: what a pod that can write to the directory of all logs may put there to read the log of another by its own.
func TestLinks(t *testing.T) {
	const id = "0123456789abcdef"
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir, log string)
		want string // of the log, or of the error
	}{
		{"none", func(t *testing.T, _, log string) { write(t, log, entry(1, "stdout", "F", "mine")) }, "mine\n"},
		{"the file", func(t *testing.T, dir, log string) {
			check.Fatal(t, os.Symlink(filepath.Join(dir, "logs/other/app/0.log"), log))
		}, "symbolic link, which is not followed"},
		{"an older file", func(t *testing.T, dir, log string) {
			write(t, log, entry(1, "stdout", "F", "mine"))
			check.Fatal(t, os.Symlink(filepath.Join(dir, "logs/other/app/0.log"), log+".20261121-100500"))
		}, "symbolic link, which is not followed"},
		{"the directory", func(t *testing.T, dir, log string) {
			check.Fatal(t, os.Remove(filepath.Dir(log)))
			check.Fatal(t, os.Symlink(filepath.Join(dir, "logs/other/app"), filepath.Dir(log)))
		}, "symbolic link, which is not followed"},
		{"the pod's directory", func(t *testing.T, dir, log string) {
			check.Fatal(t, os.RemoveAll(filepath.Dir(filepath.Dir(log))))
			check.Fatal(t, os.Symlink("other", filepath.Dir(filepath.Dir(log))))
		}, "symbolic link, which is not followed"},
		{"one that the runtime made", func(t *testing.T, dir, log string) {
			elsewhere := filepath.Join(dir, "runtime", id, id+"-log")
			check.Fatal(t, os.MkdirAll(filepath.Dir(elsewhere), 0o755))
			write(t, elsewhere, entry(1, "stdout", "F", "kept elsewhere"))
			check.Fatal(t, os.Symlink(elsewhere, log))
		}, "kept elsewhere\n"},
		{"one that leads on from there", func(t *testing.T, dir, log string) {
			elsewhere := filepath.Join(dir, "runtime", id)
			check.Fatal(t, os.MkdirAll(filepath.Dir(elsewhere), 0o755))
			check.Fatal(t, os.Symlink(filepath.Join(dir, "logs/other/app/0.log"), elsewhere))
			check.Fatal(t, os.Symlink(elsewhere, log))
		}, "symbolic link, which is not followed"},
		{"nothing", func(*testing.T, string, string) {}, "no such file"},
		{"a link to nothing", func(t *testing.T, dir, log string) {
			check.Fatal(t, os.Symlink(filepath.Join(dir, id), log))
		}, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := check.Value(filepath.EvalSymlinks(t.TempDir()))(t)
			// The directory of all logs may be a link: the node's.
			for _, d := range []string{"disk/logs/mine/app", "disk/logs/other/app"} {
				check.Fatal(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
			}
			check.Fatal(t, os.Symlink("disk/logs", filepath.Join(dir, "logs")))
			write(t, filepath.Join(dir, "logs/other/app/0.log"), entry(1, "stdout", "F", "a secret"))
			log := filepath.Join(dir, "logs/mine/app/0.log")
			c.make(t, dir, log)
			var got strings.Builder
			err := Read(t.Context(), Options{Path: log, Container: id, Stdout: true}, &got)
			if strings.HasSuffix(c.want, "\n") {
				check.Fatal(t, err)
				check.Equal(t, got.String(), c.want, "the log")
				return
			}
			check.Says(t, err, c.want, "the log")
			check.Equal(t, got.String(), "", "the log")
		})
	}
}

// TestStep: the way that is gone where the kernel can't be told to follow no link.
func TestStep(t *testing.T) {
	dir := t.TempDir()
	check.Fatal(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o755))
	check.Fatal(t, os.Symlink("a", filepath.Join(dir, "link")))
	at := check.Value(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(at) //nolint:errcheck // nothing was written
	for path, want := range map[string]bool{"a/b": true, "a": true, "link/b": false, "a/none": false} {
		fd, err := step(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
		check.Equal(t, err == nil, want, "%s is opened", path)
		if err == nil {
			check.Fatal(t, unix.Close(fd))
		}
	}
}
