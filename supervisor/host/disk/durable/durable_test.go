package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestWrite: all of a file is on the disk before it takes the place of the old one, and with Kept then its names. A
// disk that refuses it leaves the old one.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	root := check.Value(os.OpenRoot(dir))(t)
	defer root.Close() //nolint:errcheck // nothing was written
	check.Fatal(t, root.MkdirAll("a/b", 0o750))
	const name = "a/b/note"
	there := func() string {
		data, err := root.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return string(data)
	}
	var synced []string
	k := disk{func(f *os.File) error {
		at, err := filepath.Rel(dir, f.Name())
		if info, e := f.Stat(); e == nil && !info.IsDir() {
			data, e := os.ReadFile(f.Name())
			at, err = at+"="+string(data)+" beside "+there(), errors.Join(err, e)
		} else {
			at += " with " + there()
		}
		synced = append(synced, at)
		return err
	}}
	for _, c := range []struct {
		text string
		d    Durability
		want []string
	}{
		{"one", Whole, []string{"a/b/.note=one beside "}},
		{"two", Kept, []string{"a/b/.note=two beside one", "a/b with two", "a with two", ". with two"}},
	} {
		synced = nil
		if err := k.write(root, name, []byte(c.text), 0o640, c.d); err != nil || there() != c.text {
			t.Errorf("%s: %v, there is %q", c.text, err, there())
		}
		check.Same(t, synced, c.want, "%s: on the disk came", c.text)
	}
	full := disk{func(*os.File) error { return unix.ENOSPC }}
	if err := full.write(root, name, []byte("three"), 0o640, Whole); !errors.Is(err, unix.ENOSPC) || there() != "two" {
		t.Errorf("a full disk: %v, there is %q", err, there())
	}
	if _, err := root.Lstat(Temporary(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was not written is left: %v", err)
	}
	// A file system that has no such call for directories.
	files := disk{func(f *os.File) error {
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return errors.Join(err, unix.EINVAL)
		}
		return nil
	}}
	if err := files.write(root, name, []byte("four"), 0o640, Kept); err != nil || there() != "four" {
		t.Errorf("without names on the disk: %v, there is %q", err, there())
	}
}

// TestLeftByAKill: what an agent left that was killed does not reach what is written next.
func TestLeftByAKill(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	check.Fatal(t, errors.Join(os.WriteFile(other, []byte("theirs"), 0o600), os.Symlink("other", Temporary(path))))
	check.Fatal(t, WriteAt(path, []byte("mine"), 0o600, Whole))
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for file, want := range map[string]string{path: "mine", other: "theirs"} {
		if data, err := os.ReadFile(file); string(data) != want || err != nil {
			t.Errorf("%s: %q, %v", file, data, err)
		}
	}
	if err := WriteAt(filepath.Join(dir, "none/x"), nil, 0o600, Whole); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
}
