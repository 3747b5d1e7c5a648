package regularfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host/disk/regularfile"
	"github.com/troupe-dev/troupe/tests/check"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"empty": "", "fits": "12345", "long": "123456"} {
		check.Fatal(t, os.WriteFile(path(name), []byte(text), 0o600))
	}
	for _, err := range []error{os.Mkdir(path("dir"), 0o700), unix.Mkfifo(path("pipe"), 0o600), os.Symlink("fits", path("link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"empty": "", "fits": "12345", "link": "12345"} {
		if got, err := regularfile.Read(path(name), 5); string(got) != want || err != nil || got == nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"long": "/long has 6 bytes, more than 5", "dir": "/dir is not a regular file", "pipe": "/pipe is not a regular file",
		// Its size is always shown as 0.
		"/proc/self/status": "/proc/self/status has more than 5 bytes",
	} {
		at := name
		if !filepath.IsAbs(name) {
			at = path(name)
		}
		if got, err := regularfile.Read(at, 5); got != nil || err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := regularfile.Read(path("absent"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestIn: no link leads out of the directory.
func TestIn(t *testing.T) {
	dir := t.TempDir()
	root := check.Value(os.OpenRoot(dir))(t)
	t.Cleanup(func() { check.Error(t, root.Close()) })
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600))
	for name, to := range map[string]string{"link": "file", "out": "/proc/version"} {
		check.Fatal(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for _, name := range []string{"file", "link"} {
		check.Equal(t, string(check.Value(regularfile.In(root, name, 5))(t)), "12345", "%s", name)
	}
	check.Says(t, check.Err(regularfile.In(root, "file", 4)), "/file has 5 bytes, more than 4", "a long one")
	check.Fails(t, check.Err(regularfile.In(root, "out", 1<<20)), "a link led out of the directory")
}
