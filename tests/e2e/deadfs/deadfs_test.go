package deadfs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/deadfs"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestClose: those who hang in a dead file system get an error, nothing stays mounted, and what looks at the directory
// afterwards does not hang, also if a second mount of it is left.
//
//tier:all a test of the tests' own file system
func TestClose(t *testing.T) {
	hosttest.NeedFUSE(t)
	point := t.TempDir()
	s := check.Value(deadfs.Mount(point))(t)
	t.Cleanup(func() { s.Close() }) // whatever happens: the directory is removed then
	bound := t.TempDir()
	if out, err := exec.Command("mount", "--bind", point, bound).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", bound).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	s.Die()
	hangs := exec.Command("ls", filepath.Join(point, deadfs.Share, deadfs.Share))
	check.Fatal(t, hangs.Start())
	select {
	case <-s.Asked():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody asked the file system")
	}
	for range 2 {
		check.Fatal(t, s.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- hangs.Wait() }()
	select {
	case err := <-ended:
		check.Fails(t, err, "what hung in the file system was given something")
	case <-time.After(20 * time.Second):
		t.Fatal("what hangs in the file system still does")
	}
	mounts := check.Value(os.ReadFile("/proc/self/mounts"))(t)
	if strings.Contains(string(mounts), " "+point+" ") {
		t.Error("it is mounted still")
	}
	looked := make(chan error, 1)
	go func() {
		_, err := os.Stat(filepath.Join(bound, deadfs.Share))
		looked <- err
	}()
	select {
	case err := <-looked:
		check.Fails(t, err, "the other mount still works")
	case <-time.After(20 * time.Second):
		t.Fatal("who looks at the other mount hangs")
	}
}
