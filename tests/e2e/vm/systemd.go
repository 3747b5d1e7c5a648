package vm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// SystemdPath is systemd, in the guest. If it is there, it is process 1.
const SystemdPath = "/lib/systemd/systemd"

// MachineVariable tells the guest program in its environment, when it is to make the checks, which
// [Machine] it is in.
const MachineVariable = "GUEST_MACHINE"

// systemdRoot is where `go tool task systemd` has unpacked systemd and D-Bus.
func systemdRoot(repository string) (string, error) {
	root := filepath.Join(repository, ".run/systemd")
	if _, err := findBelow(root, SystemdPath); err != nil {
		return "", errors.New("no systemd in .run/systemd (run: go tool task systemd)")
	}
	return root, nil
}

// hasSystemd is what a test with systemd needs besides.
func hasSystemd(repository string) lab.Requirement {
	return lab.NewRequirement("systemd", func() error { _, err := systemdRoot(repository); return err })
}

// findBelow finds what a package has in /lib or, where that is a link, in /usr/lib.
func findBelow(root, name string) (string, error) {
	file := filepath.Join(root, name)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	file = filepath.Join(root, "usr", name)
	_, err := os.Stat(file)
	return file, err
}

// systemdPrograms are what a small system has of systemd and D-Bus.
var systemdPrograms = []string{
	SystemdPath, "/lib/systemd/systemd-logind", "/lib/systemd/systemd-shutdown", "/bin/systemctl", "/usr/bin/dbus-daemon",
}

// executor is what systemd starts services with, from release 255 on.
const executor = "/lib/systemd/systemd-executor"

// units are what it starts, and what that names. There is no journal and no udev: nobody needs them, and
// each program takes its time.
var units = []string{
	"basic.target", "sysinit.target", "local-fs.target", "local-fs-pre.target", "swap.target", "sockets.target", "timers.target",
	"paths.target", "slices.target", "multi-user.target", "shutdown.target", "umount.target", "final.target",
	"poweroff.target", "reboot.target", "systemd-poweroff.service", "systemd-reboot.service", "user.slice",
	"dbus.socket", "dbus.service", "systemd-logind.service",
}

const unitDir = "/lib/systemd/system"

// wants are the units that others start.
var wants = map[string][]string{
	"multi-user.target": {"dbus.service", "systemd-logind.service", guestUnit},
	"sockets.target":    {"dbus.socket"},
}

// busSettings are the settings of the bus, and who may say what to systemd and logind.
var busSettings = []string{
	"/usr/share/dbus-1/system.conf", "/usr/share/dbus-1/system.d/org.freedesktop.systemd1.conf",
	"/usr/share/dbus-1/system.d/org.freedesktop.login1.conf",
}

const guestUnit = "guest.service"

// guestService runs the checks. At a shutdown it is told, so that it can say how the shutdown began; all that
// it has started is killed only then.
func guestService(m Machine) string {
	return `[Unit]
Description=The checks of the guest
After=dbus.service systemd-logind.service

[Service]
ExecStart=` + guestPath + `
Environment=` + MachineVariable + `=` + string(m) + ` PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
KillMode=mixed
TimeoutStopSec=60
TasksMax=infinity
OOMPolicy=continue
`
}

// addSystemd adds systemd, logind and the system bus, all from the packages in root.
func (a *archive) addSystemd(m Machine, root string) error {
	const libraries = "lib/x86_64-linux-gnu"
	a.libraries = []string{
		filepath.Join(root, "usr", libraries, "systemd"), filepath.Join(root, "usr", libraries), filepath.Join(root, libraries),
	}
	programs := slices.Clone(systemdPrograms)
	if _, err := findBelow(root, executor); err == nil {
		programs = append(programs, executor)
	}
	for _, program := range programs {
		file, err := findBelow(root, program)
		if err == nil {
			err = a.addProgram(program, file)
		}
		if err != nil {
			return fmt.Errorf("add %s: %w", program, err)
		}
	}
	// Releases differ in which of the two names units have.
	a.link("/usr/lib/systemd", "/lib/systemd")
	a.link("/usr/bin/systemctl", "/bin/systemctl")
	for _, unit := range units {
		file, err := findBelow(root, path.Join(unitDir, unit))
		if err != nil {
			return fmt.Errorf("add unit %s: %w", unit, err)
		}
		a.file(path.Join(unitDir, unit), file, 0o644)
	}
	a.content(path.Join(unitDir, guestUnit), []byte(guestService(m)), 0o644)
	a.link(path.Join(unitDir, "default.target"), "multi-user.target")
	a.link(path.Join(unitDir, "dbus-org.freedesktop.login1.service"), "systemd-logind.service")
	for target, wanted := range wants {
		for _, unit := range wanted {
			a.link(path.Join(unitDir, target+".wants", unit), "../"+unit)
		}
	}
	for _, file := range busSettings {
		a.file(file, filepath.Join(root, file), 0o644)
	}
	for _, dir := range []string{"/var/tmp", "/home"} {
		a.directory(dir)
	}
	a.content("/etc/systemd/system.conf", []byte("[Manager]\nDefaultStandardOutput=kmsg\n"), 0o644)
	a.content("/etc/machine-id", []byte("0123456789abcdef0123456789abcdef\n"), 0o444)
	a.content("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nmessagebus:x:100:100::/:/bin/false\n"), 0o644)
	a.content("/etc/group", []byte("root:x:0:\nmessagebus:x:100:\n"), 0o644)
	return nil
}
