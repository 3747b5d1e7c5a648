package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/vm"
)

const cgroups = "/sys/fs/cgroup"

// initialize makes of the bare kernel what containerd expects of a host, in the way that systemd
// does where it matters: cgroup v2 at the usual place, all controllers on, and the system's own
// processes in a cgroup of theirs.
func initialize() (err error) {
	defer check.Return(&err)
	if err := moveRoot(); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	for _, m := range []struct{ what, where, options string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"devpts", "/dev/pts", "ptmxmode=0666"},
		{"tmpfs", "/dev/shm", ""},
		{"mqueue", "/dev/mqueue", ""},
		{"tmpfs", "/run", ""},
		{"cgroup2", cgroups, "nsdelegate,memory_recursiveprot"},
	} {
		check.OK(os.MkdirAll(m.where, 0o755))
		if err := unix.Mount(m.what, m.where, m.what, 0, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.where, err)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	for name, value := range map[string]string{
		"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/tmp",
	} {
		check.OK(os.Setenv(name, value))
	}
	check.OK(unix.Sethostname([]byte("guest")))
	return errors.Join(enableControllers(), loadModules(), loopbackUp(), networkUp())
}

// moveRoot puts the initramfs on top of itself: no container can pivot away from the kernel's very
// first mount, but from a mount on it.
func moveRoot() (err error) {
	defer check.Return(&err)
	const above = "/above"
	check.OK(os.Mkdir(above, 0o755))
	check.OK(unix.Mount("/", above, "", unix.MS_BIND, ""))
	check.OK(os.Chdir(above))
	check.OK(unix.Mount(".", "/", "", unix.MS_MOVE, ""))
	check.OK(unix.Chroot("."))
	return errors.Join(os.Chdir("/"), os.Remove(above))
}

// enableControllers gives every cgroup below the root all controllers, and moves this process, and
// so all that will come of it, out of the root.
func enableControllers() (err error) {
	defer check.Return(&err)
	text := check.Must(os.ReadFile(filepath.Join(cgroups, "cgroup.controllers")))
	for _, controller := range strings.Fields(string(text)) {
		if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("enable cgroup controller %s: %w", controller, err)
		}
	}
	own := filepath.Join(cgroups, "init.scope")
	check.OK(os.Mkdir(own, 0o755))
	return os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte("0"), 0)
}

// loadModules loads what the host has put there, in the order of the names.
func loadModules() error {
	files, err := os.ReadDir(vm.ModulesDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // all is built in
	}
	for _, file := range files {
		if e := loadModule(filepath.Join(vm.ModulesDir, file.Name())); e != nil && !errors.Is(e, unix.EEXIST) {
			err = errors.Join(err, fmt.Errorf("load module %s: %w", file.Name(), e))
		}
	}
	return err
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// loopbackUp sets lo up. The registry listens there.
func loopbackUp() (err error) {
	defer check.Return(&err)
	socket := check.Must(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(socket)
	lo := check.Must(unix.NewIfreq("lo"))
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
