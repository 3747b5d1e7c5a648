package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/tests/check"
)

// TestReadCgroup reads the files of both versions as the kernel writes them.
func TestReadCgroup(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		v2    bool
		want  observed.Resources
		used  int64
	}{
		"v2": {map[string]string{"cpu.max": "50000 100000\n", "memory.max": "67108864\n", "memory.current": "4096\n"}, true,
			observed.Resources{CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 64 << 20}, 4096},
		"v2, no limits": {map[string]string{"cpu.max": "max 100000\n", "memory.max": "max\n", "memory.current": "0\n"}, true,
			observed.Resources{CPUPeriod: 100_000}, 0},
		"v1": {map[string]string{"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n", "memory.limit_in_bytes": "67108864\n", "memory.usage_in_bytes": "4096\n"}, false,
			observed.Resources{CPUQuota: 50_000, CPUPeriod: 100_000, Memory: 64 << 20}, 4096},
		"v1, no limits": {map[string]string{"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n", "memory.limit_in_bytes": "9223372036854771712\n", "memory.usage_in_bytes": "1\n"}, false,
			observed.Resources{CPUPeriod: 100_000}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				check.Fatal(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			read := func() (observed.Resources, int64, error) { return readV1(dir, dir) }
			if c.v2 {
				read = func() (observed.Resources, int64, error) { return readV2(dir) }
			}
			got, used, err := read()
			if err != nil || got != c.want || used != c.used {
				t.Errorf("%+v, %d in use, %v", got, used, err)
			}
			for file := range c.files {
				check.Fatal(t, os.Remove(filepath.Join(dir, file)))
			}
			if _, _, err := read(); !os.IsNotExist(err) {
				t.Errorf("of none: %v", err)
			}
		})
	}
}
