package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestCheckpointsInOrder: what was saved last is what there is, although nobody
// waited for what was saved before.
func TestCheckpointsInOrder(t *testing.T) {
	c := &checkpoints{dir: t.TempDir()}
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
	if data, err := os.ReadFile(filepath.Join(c.dir, "a.json")); err != nil || string(data) != fmt.Sprint(saves-1) {
		t.Errorf("%q %v", data, err)
	}
}
