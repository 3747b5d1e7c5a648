package rootdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

func TestClaim(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	dir, err := Claim(path)
	if err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(path, LockName)
	want := fmt.Sprintf("%d\n", os.Getpid())
	check.Equal(t, string(check.Value(os.ReadFile(lock))(t)), want, "lock holds")

	before := listing(t, path)
	_, err = Claim(path)
	var inUse *InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || inUse.Path != path {
		t.Fatalf("second claim: %v", err)
	}
	message := fmt.Sprintf("root directory %s is in use by pid %d: stop it or choose another --root-dir", path, os.Getpid())
	check.Equal(t, err.Error(), message, "says %q", err)
	if after := listing(t, path); after != before {
		t.Errorf("a failed claim changed the directory:\n%s\n%s", before, after)
	}

	check.Fatal(t, dir.Close())
	again, err := Claim(path)
	if err != nil {
		t.Fatalf("after the first agent ended: %v", err)
	}
	check.Equal(t, again.Path(), path, "path")
	check.Fatal(t, again.Close())
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
	check.Fatal(t, os.WriteFile(file, nil, 0o600))
	linked := filepath.Join(dir, "linked")
	check.Fatal(t, errors.Join(os.Mkdir(linked, 0o700), os.Symlink(file, filepath.Join(linked, LockName))))
	for path, want := range map[string]string{
		"relative":               "must be an absolute path",
		file:                     "is not a directory",
		filepath.Join(file, "x"): "not a directory",
		linked:                   "too many levels of symbolic links",
	} {
		before := listing(t, dir)
		check.Says(t, check.Err(Claim(path)), want, "%s", path)
		check.Equal(t, listing(t, dir), before, "%s: a failed claim changed something", path)
	}
}
