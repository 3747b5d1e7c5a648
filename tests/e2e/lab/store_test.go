package lab

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestStrayStores: what a killed process left in memory goes, and what another has in use stays.
//
//tier:unit
func TestStrayStores(t *testing.T) {
	memory := t.TempDir()
	stray, used, foreign := filepath.Join(memory, storeName+"1"), filepath.Join(memory, storeName+"2"), filepath.Join(memory, "x")
	for _, dir := range []string{stray, used, foreign} {
		check.Fatal(t, os.Mkdir(dir, 0o700))
	}
	lock := check.Value(lockStore(used))(t)
	defer lock.Close()
	left := func() (names []string) {
		entries := check.Value(os.ReadDir(memory))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	removeStrayStores(memory, time.Now().Add(-time.Minute))
	if got := left(); len(got) != 3 {
		t.Errorf("left is %v; want all, which are too young", got)
	}
	removeStrayStores(memory, time.Now().Add(time.Minute))
	if got := left(); len(got) != 2 || filepath.Join(memory, got[0]) != used {
		t.Errorf("left is %v; want the one in use and the one of others", got)
	}
}
