// Package netdisks attaches and detaches disks that come over a network, with the programs and the kernel of this
// machine: iscsiadm of open-iscsi, multipath, and sysfs. What is done next is decided by decide/blockdevice.
//
// All of it may hang with a target: it is for a child process of the agent, which is killed at a deadline together with
// the programs that it runs. What there is then, is found by the next call in sysfs and in the mount table.
package netdisks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
)

// Machine is where disks are. Tests have directories that play it.
type Machine struct {
	// Sys and Dev are /sys and /dev.
	Sys, Dev string
	// Records are the directories that open-iscsi may have its records in, by how it was built.
	Records []string
	// Busy is how long a device that was unmounted may stay in use: a program that starts a container has for a moment a
	// copy of all mounts.
	Busy time.Duration
}

// pause is how long to wait before looking again.
const pause = 100 * time.Millisecond

// This is the machine that the process runs on.
func This() Machine {
	const busy = 5 * time.Second
	return Machine{Sys: "/sys", Dev: "/dev", Records: []string{"/etc/iscsi", "/var/lib/iscsi"}, Busy: busy}
}

// text is the content of a file in sysfs, empty if it is not there: things come and go.
func text(elements ...string) string {
	b, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// names are the names in a directory that begin with a prefix, sorted; none if it is not there.
func names(prefix string, elements ...string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(elements...))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// multipath is the device that multipathd has made a disk a part of, empty for none.
func (m Machine) multipath(disk string) string {
	holders, err := names("dm-", m.Sys, "block", disk, "holders")
	if err != nil {
		return ""
	}
	i := slices.IndexFunc(holders, func(dm string) bool {
		return strings.HasPrefix(text(m.Sys, "block", dm, "dm/uuid"), "mpath-")
	})
	if i < 0 {
		return ""
	}
	return holders[i]
}

// release takes disks away from the kernel, and first what multipathd has made of them. left are the devices that stay,
// because something else uses them.
//
//	flock(2) held ──► an error: mkfs or fsck of a volume is at work
//	map ── used ──► it stays, with its paths
//	 └──► multipath -f ──► path ── used ──► it stays
//	                         └──► delete
func (m Machine) release(ctx context.Context, disks []blockdevice.Disk) (left []string, err error) {
	var maps []string
	for _, d := range disks {
		if d.Multipath != "" && !slices.Contains(maps, d.Multipath) {
			maps = append(maps, d.Multipath)
		}
	}
	for _, name := range slices.Concat(maps, diskNames(disks)) {
		if err := m.idle(name); err != nil {
			return nil, err
		}
	}
	for _, dm := range maps {
		if stays, err := m.stays(ctx, dm); err != nil {
			return nil, err
		} else if stays {
			left = append(left, dm)
			continue
		}
		if _, _, err := run(ctx, "multipath", "-f", filepath.Join(m.Dev, dm)); err != nil {
			return nil, err
		}
	}
	for _, d := range disks {
		if slices.Contains(left, d.Multipath) {
			continue
		}
		if stays, err := m.stays(ctx, d.Name); err != nil {
			return nil, err
		} else if stays {
			left = append(left, d.Name)
			continue
		}
		file := filepath.Join(m.Sys, "block", d.Name, "device/delete")
		if err := os.WriteFile(file, []byte("1"), 0); err != nil && !gone(err) {
			return nil, fmt.Errorf("remove disk %s: %w", d.Name, err)
		}
	}
	return left, nil
}

// stays reports whether something goes on to use a device.
func (m Machine) stays(ctx context.Context, name string) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, m.Busy)
	defer cancel()
	for {
		if used, err := m.used(name); !used || err != nil {
			return false, err
		}
		if wait(limited) != nil {
			return true, nil
		}
	}
}

// used reports whether something uses a device: has it open exclusively, as a mount, LVM, md and multipathd have, or is
// a pod that it is mapped into (volumeMode Block). They hold no lock of flock(2). The use of a partition counts too.
func (m Machine) used(name string) (bool, error) {
	path := filepath.Join(m.Dev, name)
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_EXCL|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = f.Close() // nothing was written
	}
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	point, err := blockmap.MappedAt(path)
	return point != "", err
}

// gone reports whether a write to sysfs failed because the device is not there any more.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

func diskNames(disks []blockdevice.Disk) (out []string) {
	for _, d := range disks {
		out = append(out, d.Name)
	}
	return out
}

// idle fails while a program formats or checks the device: such a program is not ended with the agent, and keeps the
// device locked.
func (m Machine) idle(name string) error {
	f, err := os.OpenFile(filepath.Join(m.Dev, name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // a device without its target can't be opened, and is not in use
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
		return hostcall.Failf(port.StateConflict, "device %s is locked by a program, which may be formatting or checking "+
			"it: it is not removed before that ends", f.Name())
	}
	return nil
}

// commandWait is how long one program may take. Without it a portal that does not answer would hold up the others for
// two minutes.
const commandWait = 20 * time.Second

// run runs a program, and gives its output and its exit status. A status other than 0 is an error too.
func run(ctx context.Context, name string, args ...string) (out string, status int, err error) {
	if _, err := exec.LookPath(name); err != nil {
		return "", 0, missing(name)
	}
	limited, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	b, err := exec.CommandContext(limited, name, args...).CombinedOutput()
	out = string(b)
	switch e, is := errors.AsType[*exec.ExitError](err); {
	case err == nil:
		return out, 0, nil
	case limited.Err() != nil:
		return out, -1, fmt.Errorf("%s %s: no answer within %s: %s", name, what(args), commandWait, line(out))
	case is:
		return out, e.ExitCode(), fmt.Errorf("%s %s failed (exit status %d): %s", name, what(args), e.ExitCode(), line(out))
	default:
		return out, -1, fmt.Errorf("%s: %w", name, err)
	}
}

// what is what a call of iscsiadm does, for people.
func what(args []string) string {
	var short []string
	for i, a := range args {
		if i > 0 && (args[i-1] == "-m" || args[i-1] == "-o") || strings.HasPrefix(a, "--") {
			short = append(short, a)
		}
	}
	if len(short) == 0 {
		return strings.Join(args, " ")
	}
	return strings.Join(short, " ")
}

// line is the output of a program in one line.
func line(out string) string {
	const most = 500
	s := strings.Join(strings.Fields(out), " ")
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}

// missing says which package has a program.
func missing(name string) error {
	from := ""
	switch name {
	case "iscsiadm":
		from = ": iSCSI volumes need it: install open-iscsi (Debian, Ubuntu, SUSE) or iscsi-initiator-utils (Fedora, " +
			"Red Hat), and start iscsid"
	case "multipath":
		from = ": install multipath-tools (Debian, Ubuntu, SUSE) or device-mapper-multipath (Fedora, Red Hat)"
	}
	return hostcall.Failf(port.InvalidConfig, "%s is not installed on this node%s", name, from)
}

// scan has the kernel look for disks at a SCSI host.
func (m Machine) scan(host, address string) error {
	file := filepath.Join(m.Sys, "class/scsi_host", host, "scan")
	if err := os.WriteFile(file, []byte(address), 0); err != nil && !gone(err) {
		return fmt.Errorf("scan SCSI %s: %w", host, err)
	}
	return nil
}
