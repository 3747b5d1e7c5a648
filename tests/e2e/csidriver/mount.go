package csidriver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// mounted says whether a path is a mount.
func mounted(path string) (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true, nil
		}
	}
	return false, nil
}

// bind has to show what is at from, once: a second one changes nothing.
func bind(from, to string, readOnly bool) error {
	if is, err := mounted(to); err != nil || is {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return &os.PathError{Op: "bind " + from + " to", Path: to, Err: err}
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return errors.Join(&os.PathError{Op: "make read-only", Path: to, Err: err}, unmount(to))
	}
	return nil
}

// unmount takes all mounts of a path away.
func unmount(path string) error {
	for {
		if is, err := mounted(path); err != nil || !is {
			return err
		}
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW); err != nil {
			return &os.PathError{Op: "unmount", Path: path, Err: err}
		}
	}
}

// flush writes what is mounted at a path to its device.
func flush(path string) error {
	if is, err := mounted(path); err != nil || !is {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "sync", Path: path, Err: err}
	}
	return nil
}

// mountDevice mounts a device, on which it makes a file system if there is none, and lets that be as large as the device.
func mountDevice(device, path, kind string, flags []string) (err error) {
	defer check.Return(&err)
	if is, err := mounted(path); err != nil || is {
		return err
	}
	has, err := fileSystem(device)
	switch {
	case err != nil:
		return err
	case has == "":
		check.Must(run("mkfs."+kind, "-q", device))
	case has != kind:
		return fmt.Errorf("%s has the file system %s, not %s", device, has, kind)
	case kind == "ext4":
		// The device may be larger than what it was copied from. The kernel grows a mounted ext4 only for those that have
		// CAP_SYS_RESOURCE; nobody needs the kernel while it is not mounted, but a check before.
		check.Must(run("e2fsck", "-f", "-p", device))
		check.OK(growFileSystem(device, path))
	}
	options := "defaults"
	if kind == "xfs" {
		options = "nouuid" // a copy has the UUID of the original
	}
	check.Must(run("mount", "-t", kind, "-o", strings.Join(append([]string{options}, flags...), ","), device, path))
	if kind == "xfs" { // only while it is mounted
		return growFileSystem(device, path)
	}
	return nil
}

// fileSystem is what a device has, such as ext4, or nothing.
func fileSystem(device string) (string, error) {
	kind, err := run("blkid", "-p", "-o", "value", "-s", "TYPE", device)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 2 {
		return "", nil
	}
	return kind, err
}

// growFileSystem lets a file system be as large as its device.
func growFileSystem(device, path string) error {
	kind, err := fileSystem(device)
	if err != nil {
		return err
	}
	if kind == "xfs" {
		_, err = run("xfs_growfs", path)
	} else {
		_, err = run("resize2fs", device)
	}
	return err
}

// run runs a program. Its error has what it said.
func run(name string, args ...string) (string, error) {
	path, err := lab.LookPath(name)
	if err != nil {
		return "", err
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, err
}
