package checkpoints

import (
	"os"
	"path/filepath"
	"testing"
)

// TestFlush: the whole of a checkpoint is on the disk before it takes the place of the last one, and a disk that
// refuses it leaves the last one.
func TestFlush(t *testing.T) {
	c := New(t.TempDir())
	if err := c.write("pods", []byte("old")); err != nil {
		t.Fatal(err)
	}
	var flushed string
	c.flush = func(f *os.File) error {
		data, err := os.ReadFile(f.Name())
		flushed = string(data)
		if now, err := c.Read("pods"); err != nil || string(now) != "old" {
			t.Errorf("before the flush the checkpoint is %q, %v", now, err)
		}
		return err
	}
	if err := c.write("pods", []byte("new")); err != nil {
		t.Fatal(err)
	}
	if now, err := c.Read("pods"); err != nil || string(now) != "new" || flushed != "new" {
		t.Errorf("%q was flushed, and the checkpoint is %q, %v", flushed, now, err)
	}
	c.flush = func(*os.File) error { return os.ErrDeadlineExceeded }
	if err := c.write("pods", []byte("newer")); err == nil {
		t.Error("a checkpoint that was not flushed counts as written")
	}
	if now, err := c.Read("pods"); err != nil || string(now) != "new" {
		t.Errorf("after a failed flush: %q, %v", now, err)
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
