package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
)

// kernelSetting is a parameter of the kernel.
type kernelSetting struct {
	name string
	want int
}

// file is where the kernel shows it, below root.
func (s kernelSetting) file(root string) string {
	return filepath.Join(root, strings.ReplaceAll(s.name, ".", "/"))
}

// kernelSettings are the parameters that the kubelet wants of a kernel (sysctl(8)), because they make a machine
// survive, or come back: overcommitted memory is granted, and the OOM killer ends a process instead of the machine; a
// machine that panics restarts after ten seconds; and there are keys for many containers.
var kernelSettings = []kernelSetting{
	{"vm.overcommit_memory", 1},
	{"vm.panic_on_oom", 0},
	{"kernel.panic", 10},
	{"kernel.panic_on_oops", 1},
	{"kernel.keys.root_maxkeys", 1_000_000},
	{"kernel.keys.root_maxbytes", 25_000_000},
}

const sysctlRoot = "/proc/sys"

// protectKernel compares the kernel's parameters below root, sets those that differ, and returns what it has set, as
// "name: old -> new". With only, it sets none, and the error names all that differ (protectKernelDefaults).
func protectKernel(root string, only bool) (changed []string, err error) {
	var errs []error
	for _, s := range kernelSettings {
		file := s.file(root)
		text, err := os.ReadFile(file)
		got := strings.TrimSpace(string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
			continue
		}
		if want := strconv.Itoa(s.want); got != want && only {
			errs = append(errs, fmt.Errorf("%s is %s, want %s", s.name, got, want))
		} else if got != want {
			if err := os.WriteFile(file, []byte(want), 0); err != nil {
				errs = append(errs, fmt.Errorf("%s is %s, want %s: %w", s.name, got, want, err))
			} else {
				changed = append(changed, s.name+": "+got+" -> "+want)
			}
		}
	}
	if len(errs) == 0 {
		return changed, nil
	}
	all := strings.ReplaceAll(errors.Join(errs...).Error(), "\n", "; ")
	if only {
		return nil, fmt.Errorf("protectKernelDefaults: %s: set them with sysctl, or set protectKernelDefaults: false", all)
	}
	return changed, fmt.Errorf("cannot set kernel parameters: %s: set them with sysctl, or give the agent write "+
		"access to %s", all, root)
}

// cgroupsPeriod is how often processes are moved: new ones come.
const cgroupsPeriod = time.Minute

// claimCgroups moves this process into kubeletCgroups, and all processes that are in no cgroup into systemCgroups, but
// none with a /proc in which they have other numbers.
func (l *launch) claimCgroups() error {
	switch status, err := os.ReadFile("/proc/self/status"); {
	case err != nil:
		return err
	case cgroup.Nested(status):
		return errors.New("kubeletCgroups and systemCgroups have no effect: the agent is not in the PID namespace of " +
			"the host: start its container with that (hostPID)")
	}
	k := l.config.Kubelet()
	var errs []error
	if k.KubeletCgroups != "" {
		if err := cgroup.Join(k.KubeletCgroups, os.Getpid()); err != nil {
			errs = append(errs, fmt.Errorf("kubeletCgroups: %w", err))
		}
	}
	if k.SystemCgroups != "" {
		if err := cgroup.JoinAll("/", k.SystemCgroups); err != nil {
			errs = append(errs, fmt.Errorf("systemCgroups: %w", err))
		}
	}
	return errors.Join(errs...)
}

// keepCgroups claims them again and again until ctx ends. A failure is logged when it is another than the last.
func (l *launch) keepCgroups(ctx context.Context) error {
	tick := time.NewTicker(cgroupsPeriod)
	defer tick.Stop()
	last := ""
	for {
		text := ""
		if ctx.Err() == nil {
			if err := l.claimCgroups(); err != nil {
				text = err.Error()
			}
		}
		if text != "" && text != last {
			l.options.Log.Warn().Str("error", text).
				Msg("cannot move processes into cgroups of the configuration, which do not limit them yet; retrying every minute")
		}
		last = text
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// onRealMachine says whether containers are real: otherwise the kernel has nothing to do with them.
func (l *launch) onRealMachine() bool {
	_, simulated := l.runtime.Runtime.(*simcri.Runtime)
	return !simulated
}
