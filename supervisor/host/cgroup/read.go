package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
)

// noLimitV1 is from where on cgroup v1 means no limit of memory: it writes the
// highest number of bytes that is a whole number of pages, whatever their size.
const noLimitV1 = int64(1) << 62

// Get implements port.Cgroups.
func (c *Cgroups) Get(ctx context.Context, name podcgroup.Name, done func(observed.Resources, int64, error)) {
	path := name.Path(c.settings.Driver)
	type found struct {
		limits observed.Resources
		memory int64
	}
	hostcall.Get(ctx, "GetCgroup", path, func(context.Context) (f found, err error) {
		if c.v2 {
			f.limits, f.memory, err = readV2(filepath.Join(c.root, path))
		} else {
			f.limits, f.memory, err = readV1(filepath.Join(c.root, "cpu", path), filepath.Join(c.root, "memory", path))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = hostcall.Failf(port.NotFound, "there is no cgroup %s", path)
		}
		if f.limits.CPUQuota == 0 {
			f.limits.CPUPeriod = 0
		}
		return f, err
	}, func(f found, err error) { done(f.limits, f.memory, err) })
}

// readV2 reads cpu.max, memory.max and memory.current (cgroup-v2.rst).
func readV2(dir string) (r observed.Resources, memory int64, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if err != nil {
		return r, 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return r, 0, fmt.Errorf("%s/cpu.max is %q", dir, text)
	}
	if r.CPUQuota, err = bound(fields[0]); err != nil {
		return r, 0, err
	}
	if r.CPUPeriod, err = bound(fields[1]); err != nil {
		return r, 0, err
	}
	if r.Memory, err = readNumber(dir, "memory.max"); err != nil {
		return r, 0, err
	}
	memory, err = readNumber(dir, "memory.current")
	return r, memory, err
}

// readV1 reads the same of two hierarchies (sched-bwc.rst, cgroup-v1/memory.rst).
func readV1(cpu, mem string) (r observed.Resources, memory int64, err error) {
	for _, f := range []struct {
		dir, file string
		to        *int64
	}{
		{cpu, "cpu.cfs_quota_us", &r.CPUQuota}, {cpu, "cpu.cfs_period_us", &r.CPUPeriod},
		{mem, "memory.limit_in_bytes", &r.Memory}, {mem, "memory.usage_in_bytes", &memory},
	} {
		if *f.to, err = readNumber(f.dir, f.file); err != nil {
			return r, 0, err
		}
	}
	if r.Memory >= noLimitV1 {
		r.Memory = 0
	}
	return r, memory, nil
}

func readNumber(dir, file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return bound(strings.TrimSpace(string(text)))
}

// bound is a limit as the kernel writes it; 0 for none.
func bound(text string) (int64, error) {
	if text == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return max(n, 0), err
}
