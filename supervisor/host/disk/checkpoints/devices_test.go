package checkpoints_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/supervisor/host/disk/checkpoints"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestDevices reads what a kubelet may have left, and changes none of it.
func TestDevices(t *testing.T) {
	whole := check.Value(os.ReadFile("../../../../actors/decide/devicestate/testdata/kubelet-1.36.json"))(t)
	for name, c := range map[string]struct {
		left func(t *testing.T, file string)
		// lost is how Lost begins, fails a part of the error.
		lost, fails string
		resources   int
	}{
		"no kubelet was here":    {func(*testing.T, string) {}, "none", "", 0},
		"a directory of plugins": {func(t *testing.T, file string) { mkdir(t, filepath.Dir(file)) }, "none", "", 0},
		"a killed first write":   {func(t *testing.T, file string) { write(t, filepath.Join(filepath.Dir(file), ".12"), "") }, "none", "", 0},
		"a kubelet that never had plugins": {
			func(t *testing.T, file string) { write(t, filepath.Join(filepath.Dir(file), "kubelet.sock"), "") }, "", "", 0,
		},
		"whole":        {func(t *testing.T, file string) { write(t, file, string(whole)) }, "", "", 4},
		"empty":        {func(t *testing.T, file string) { write(t, file, "") }, "damaged:00000000", "unexpected end of JSON input", 0},
		"changed":      {func(t *testing.T, file string) { write(t, file, string(whole[:99])) }, "damaged:", "kubelet_internal_checkpoint: ", 0},
		"a directory":  {func(t *testing.T, file string) { mkdir(t, file) }, "unreadable", "is not a regular file", 0},
		"below a file": {func(t *testing.T, file string) { write(t, filepath.Dir(file), "") }, "unreadable", "not a directory", 0},
		"a link to a loop": {func(t *testing.T, file string) {
			mkdir(t, filepath.Dir(file))
			check.Fatal(t, os.Symlink(file, file))
		}, "unreadable", "too many levels", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "device-plugins")
			file := checkpoints.DevicesIn(dir)
			c.left(t, file)
			s, err := checkpoints.Devices(dir)
			if s == nil || !strings.HasPrefix(s.Lost(), c.lost) || c.lost == "" && s.Lost() != "" || len(s.Resources()) != c.resources {
				t.Errorf("got %+v", s)
			}
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("error %v, want %s", err, c.fails)
			}
			if name == "whole" {
				check.Equal(t, string(check.Value(os.ReadFile(file))(t)), string(whole), "it was changed:")
			}
		})
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	check.Fatal(t, os.MkdirAll(dir, 0o755))
}

func write(t *testing.T, file, text string) {
	t.Helper()
	mkdir(t, filepath.Dir(file))
	check.Fatal(t, os.WriteFile(file, []byte(text), 0o600))
}
