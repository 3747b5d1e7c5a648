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

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/troupe-dev/troupe/cri/simcri"
	"github.com/troupe-dev/troupe/supervisor/host/cgroup"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/kernelfile"
)

// kernelSetting is a parameter of the kernel.
type kernelSetting struct {
	name string
	want int
}

// read gives the file where the kernel shows it, below root, its value, and whether that is another than is wanted.
func (s kernelSetting) read(root string) (file, got string, differs bool, err error) {
	file = filepath.Join(root, strings.ReplaceAll(s.name, ".", "/"))
	got, err = kernelfile.Text(file)
	return file, got, got != strconv.Itoa(s.want), err
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
		file, got, differs, err := s.read(root)
		want := strconv.Itoa(s.want)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		case differs && only:
			errs = append(errs, fmt.Errorf("%s is %s, want %s", s.name, got, want))
		case differs:
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
func (d *nodeDaemon) claimCgroups() error {
	switch status, err := os.ReadFile("/proc/self/status"); {
	case err != nil:
		return err
	case cgroup.Nested(status):
		return errors.New("kubeletCgroups and systemCgroups have no effect: the agent is not in the PID namespace of " +
			"the host: start its container with that (hostPID)")
	}
	k := d.Config.Kubelet()
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
func (d *nodeDaemon) keepCgroups(ctx context.Context) error {
	last := ""
	wait.UntilWithContext(ctx, func(context.Context) {
		text := ""
		if err := d.claimCgroups(); err != nil {
			text = err.Error()
		}
		if text != "" && text != last {
			d.Log.Warn().Str("error", text).
				Msg("cannot move processes into cgroups of the configuration, which do not limit them yet; retrying every minute")
		}
		last = text
	}, cgroupsPeriod)
	return nil
}

// onRealMachine says whether containers are real: otherwise the kernel has nothing to do with them.
func (d *nodeDaemon) onRealMachine() bool {
	_, simulated := d.runtime.Runtime.(*simcri.Runtime)
	return !simulated
}
