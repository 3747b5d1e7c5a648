package accounts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/tests/check"
)

// TestRangeOfTheKubelet: the user kubelet may be in a directory that only getent knows.
func TestRangeOfTheKubelet(t *testing.T) {
	for name, c := range map[string]struct {
		getent string
		first  uint32
	}{
		"known to getent":   {"[ \"$1 $2\" = 'passwd kubelet' ]", 131072},
		"unknown to getent": {"exit 2", 65536},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir)
			for program, text := range map[string]string{"getent": c.getent, "getsubids": "echo 0: kubelet 131072 2147483648"} { // order-free: two files
				check.Fatal(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
			}
			r := check.Value(Range(t.Context(), 65536, 10))(t)
			check.Equal(t, r.First, c.first, "the first ID of pods")
		})
	}
}
