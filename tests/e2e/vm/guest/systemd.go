package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

func hasSystemd() bool {
	_, err := os.Stat(vm.SystemdPath)
	return err == nil
}

// becomeSystemd does what others do on a host before or beside systemd: load modules, set the network up.
func becomeSystemd() error {
	if err := errors.Join(moveRoot(), loadModules(), networkUp()); err != nil {
		return err
	}
	return unix.Exec(vm.SystemdPath, []string{vm.SystemdPath}, os.Environ())
}

// growRun makes room in /run, which systemd makes a fifth of the memory, for containerd.
func growRun() error {
	if err := unix.Mount("", "/run", "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, "size=75%,mode=755"); err != nil {
		return fmt.Errorf("grow /run: %w", err)
	}
	return nil
}

// withSystemd asks systemd.
func withSystemd(ctx context.Context, do func(*dbus.Conn) error) error {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer conn.Close()
	return do(conn)
}

// podUnits are the units of pods and their containers that systemd knows, also those that failed.
func podUnits(ctx context.Context) (found []string, err error) {
	err = withSystemd(ctx, func(conn *dbus.Conn) error {
		units, err := conn.ListUnitsByPatternsContext(ctx, nil, []string{"kubepods*pod*.slice", "cri-containerd-*"})
		for i := range units {
			// Those of all pods and of the classes stay.
			if u := &units[i]; strings.Contains(strings.TrimPrefix(u.Name, "kubepods"), "pod") || strings.HasSuffix(u.Name, ".scope") {
				found = append(found, fmt.Sprintf("unit %s (%s)", u.Name, u.ActiveState))
			}
		}
		return err
	})
	return found, err
}

// unitsLeft are those, in a machine with systemd.
func (h *host) unitsLeft(ctx context.Context) ([]string, error) {
	if h.machine != vm.Systemd {
		return nil, nil
	}
	return podUnits(ctx)
}

// units looks at what systemd was told.
func (h *host) units(ctx context.Context) error {
	const none = uint64(math.MaxUint64)
	err := withSystemd(ctx, func(conn *dbus.Conn) error {
		var wrong error
		for dir, want := range map[string]map[string]uint64{
			h.classDir("burstable"):                 {"CPUWeight": 4},
			h.classDir("besteffort"):                {"CPUWeight": 1},
			h.podDir("burstable", h.uids["limits"]): {"CPUWeight": 4, "CPUQuotaPerSecUSec": none, "MemoryMax": none, "TasksMax": 500},
			h.podDir("besteffort", h.uids["crash"]): {"CPUWeight": 1, "CPUQuotaPerSecUSec": none, "MemoryMax": none, "TasksMax": 500},
			h.podDir("", h.uids["guaranteed"]):      {"CPUWeight": 8, "CPUQuotaPerSecUSec": 200_000, "MemoryMax": 32 << 20, "TasksMax": 500},
		} {
			unit := filepath.Base(dir)
			have, err := conn.GetUnitTypePropertiesContext(ctx, unit, "Slice")
			if err != nil {
				return fmt.Errorf("ask for %s: %w", unit, err)
			}
			for property, value := range want {
				if have[property] != value {
					wrong = errors.Join(wrong, fmt.Errorf("%s of %s is %v, want %d", property, unit, have[property], value))
				}
			}
			if have["ControlGroup"] != strings.TrimPrefix(dir, cgroups) {
				wrong = errors.Join(wrong, fmt.Errorf("%s is at %v, want %s", unit, have["ControlGroup"], dir))
			}
		}
		return wrong
	})
	return errors.Join(err, h.reload(ctx))
}

// reload has systemd read all units anew, as the installation of many a package does, and compares what the
// kernel was told before and after: systemd applies what it knows.
func (h *host) reload(ctx context.Context) error {
	before, err := h.allLimits()
	if err != nil {
		return err
	}
	if err := withSystemd(ctx, func(conn *dbus.Conn) error { return conn.ReloadContext(ctx) }); err != nil {
		return fmt.Errorf("reload systemd: %w", err)
	}
	after, err := h.allLimits()
	for file, was := range before { // some are gone: those of pods that have ended
		if is, there := after[file]; there && is != was {
			err = errors.Join(err, fmt.Errorf("after a daemon-reload %s is %q, and was %q", file, is, was))
		}
	}
	return err
}

// allLimits are the limits in the cgroups of pods and below, by file, but for the containers of the pod that crashes.
func (h *host) allLimits() (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(h.classDir(""), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // they come and go
		}
		if err != nil || d.IsDir() {
			return err
		}
		if strings.HasPrefix(path, h.podDir("besteffort", h.uids["crash"])+"/cri-containerd-") {
			return nil // it may be about to be made
		}
		switch d.Name() {
		// Not memory.oom.group: until systemd 253 a scope has no property for it (OOMPolicy), and a reload sets it back.
		case "cpu.max", "cpu.weight", "memory.max", "memory.swap.max", "pids.max", "cgroup.subtree_control",
			"memory.min", "memory.low", "memory.high":
			text, err := os.ReadFile(path)
			if err == nil {
				found[path] = strings.TrimSpace(string(text))
			}
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("no cgroup of a pod has limits")
	}
	return found, err
}

// killed kills a container past everybody.
func (h *host) killed(ctx context.Context) (err error) {
	defer check.Return(&err)
	world := check.Must(node.Look(ctx, h.lab))
	running := world.Of("guaranteed").Running()
	if len(running) != 1 {
		return fmt.Errorf("pod guaranteed has %d running containers; want 1", len(running))
	}
	id := running[0].Id
	pid := check.Must(node.ContainerPID(ctx, h.lab, id))
	check.OK(syscall.Kill(pid, syscall.SIGKILL))
	check.Must(h.awaitPod(ctx, "guaranteed", "runs again", func(p node.Pod) error {
		c := p.Container("main")
		return check.That(c.Restarts == 1 && c.State == "running", "it does not")
	}))
	return await(ctx, "the scope of the killed container is gone", func() error {
		units, err := podUnits(ctx)
		for _, unit := range units {
			if strings.Contains(unit, id) {
				err = errors.Join(err, errors.New(unit))
			}
		}
		return err
	})
}
