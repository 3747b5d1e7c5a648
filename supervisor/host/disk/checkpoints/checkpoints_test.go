package checkpoints_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestStates: state files have the names that a kubelet gives them.
func TestStates(t *testing.T) {
	dir := t.TempDir()
	c := checkpoints.NewStates(dir)
	if data, err := c.Read("cpu_manager_state"); data != nil || err != nil {
		t.Errorf("before: %q, %v", data, err)
	}
	done := make(chan error, 1)
	c.Save(t.Context(), "cpu_manager_state", []byte("x"), func(err error) { done <- err })
	check.Fatal(t, <-done)
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(dir, "cpu_manager_state")))(t)), "x", "it")
	check.Equal(t, string(check.Value(c.Read("cpu_manager_state"))(t)), "x", "it")
}

// TestTooLarge: what could not be read is not written.
func TestTooLarge(t *testing.T) {
	c := checkpoints.New(t.TempDir())
	done := make(chan error, 2)
	c.Save(t.Context(), "a", []byte("x"), func(err error) { done <- err })
	c.Save(t.Context(), "a", make([]byte, 64<<20+1), func(err error) { done <- err })
	if first, second := <-done, <-done; first != nil || second == nil {
		t.Errorf("%v, %v", first, second)
	}
	if data, err := c.Read("a"); err != nil || string(data) != "x" {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestCheckpointsInOrder: what was saved last is what there is, although nobody
// waited for what was saved before. That may have been left out.
func TestCheckpointsInOrder(t *testing.T) {
	dir := t.TempDir()
	c := checkpoints.New(dir)
	const saves = 50
	type answer struct {
		of  int
		err error
	}
	answers := make(chan answer, saves)
	for i := range saves {
		c.Save(t.Context(), "a", fmt.Append(nil, i), func(err error) { answers <- answer{i, err} })
	}
	for range saves {
		if a := <-answers; a.err != nil && (a.of == saves-1 || port.KindOf(a.err) != port.Canceled) {
			t.Errorf("save %d: %v", a.of, a.err)
		}
	}
	check.Equal(t, string(check.Value(os.ReadFile(filepath.Join(dir, "a.json")))(t)), fmt.Sprint(saves-1), "it")
}
