package rootdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	dir, err := Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(path, LockName)
	want := fmt.Sprintf("%d\n", os.Getpid())
	if b, err := os.ReadFile(lock); err != nil || string(b) != want {
		t.Errorf("lock holds %q, %v", b, err)
	}

	before := listing(t, path)
	_, err = Claim(path)
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.Path != path {
		t.Fatalf("second claim: %v", err)
	}
	message := fmt.Sprintf("root directory %s is in use by pid %d: stop it or choose another --root-dir", path, os.Getpid())
	if err.Error() != message {
		t.Errorf("says %q", err)
	}
	if after := listing(t, path); after != before {
		t.Errorf("a failed claim changed the directory:\n%s\n%s", before, after)
	}

	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Claim(path)
	if err != nil {
		t.Fatalf("after the first agent ended: %v", err)
	}
	if again.Path() != path {
		t.Errorf("path %s", again.Path())
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, path string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(path, func(name string, info os.FileInfo, err error) error {
		if err == nil {
			fmt.Fprintln(&b, name, info.Mode(), info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestClaimRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(dir, "linked")
	if err := errors.Join(os.Mkdir(linked, 0o700), os.Symlink(file, filepath.Join(linked, LockName))); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"relative":               "must be an absolute path",
		file:                     "is not a directory",
		filepath.Join(file, "x"): "not a directory",
		linked:                   "too many levels of symbolic links",
	} {
		before := listing(t, dir)
		if _, err := Claim(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if after := listing(t, dir); after != before {
			t.Errorf("%s: a failed claim changed something", path)
		}
	}
}
