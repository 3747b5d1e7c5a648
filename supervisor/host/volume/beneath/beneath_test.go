package beneath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestOpenBeneath: a link leads nowhere outside, with a kernel that holds this and without.
func TestOpenBeneath(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "volume")
	hosttest.Write(t, filepath.Join(inside, "dir/file"), "x")
	hosttest.Write(t, filepath.Join(dir, "outside"), "secret")
	for link, to := range map[string]string{"up": "../outside", "away": "/etc", "dir/up": "../../outside"} {
		check.Fatal(t, os.Symlink(to, filepath.Join(inside, link)))
	}
	volume := check.Value(OpenVolume(inside))(t)
	defer volume.Close()
	for _, path := range []string{"up", "away", "away/passwd", "dir/up", "../outside", "dir/../../outside", ".."} {
		if f, err := Open(volume, path); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
		if fd, err := OpenWithoutLinks(volume, path); err == nil {
			t.Errorf("%s, without openat2: %d, %v", path, fd, err)
		}
		if f, where, err := openInVolume(volume, path); !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.ELOOP) {
			t.Errorf("%s: %v at %s, %v", path, f, where, err)
		}
	}
	f := check.Value(Open(volume, "dir/file"))(t)
	f.Close() //nolint:errcheck // nothing was written
}

// TestMakeIn: a directory that is made for a subPath has the mode of its volume, whatever the umask is.
func TestMakeIn(t *testing.T) {
	dir := t.TempDir()
	const mode = fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777
	check.Fatal(t, os.Chmod(dir, mode))
	volume := check.Value(OpenVolume(dir))(t)
	defer volume.Close()
	made := check.Value(OpenOrMake(volume, "a/b"))(t)
	defer made.Close()
	for _, name := range []string{"a", "a/b"} {
		check.Equal(t, check.Value(os.Stat(filepath.Join(dir, name)))(t).Mode(), mode, "%s", name)
	}
}

// TestMakeInWithoutChown: where the group of what is made can't be set, it is made all the same.
func TestMakeInWithoutChown(t *testing.T) {
	hosttest.NeedRoot(t)
	like := filepath.Join(t.TempDir(), "volume")
	check.Fatal(t, os.Mkdir(like, 0o700))
	check.Fatal(t, os.Chown(like, -1, 2000))
	check.Fatal(t, os.Chmod(like, 0o770|os.ModeSetgid))
	info := check.Value(os.Stat(like))(t)
	dir := check.Value(os.Open(filepath.Dir(like)))(t)
	check.Fatal(t, hosttest.WithoutChown(func() error { return makeIn(dir, "new", info) }))
	check.Fatal(t, dir.Close())
	hosttest.WantMode(t, filepath.Join(dir.Name(), "new"), 0o770|os.ModeDir|os.ModeSetgid)
}
