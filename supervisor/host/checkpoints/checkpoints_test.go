package checkpoints_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/host/checkpoints"
)

// TestCheckpointsInOrder: what was saved last is what there is, although nobody
// waited for what was saved before.
func TestCheckpointsInOrder(t *testing.T) {
	dir := t.TempDir()
	c := checkpoints.New(dir)
	const saves = 50
	done := make(chan error, saves)
	for i := range saves {
		c.Save(t.Context(), "a", fmt.Append(nil, i), func(err error) { done <- err })
	}
	for range saves {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a.json")); err != nil || string(data) != fmt.Sprint(saves-1) {
		t.Errorf("%q %v", data, err)
	}
}
