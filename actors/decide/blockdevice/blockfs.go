package blockdevice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// DefaultType is the type of a file system that names none.
const DefaultType = "ext4"

// Found is what blkid found on a device.
type Found struct {
	// Type is that of a file system or of another signature (TYPE), Table that of a partition table (PTTYPE). Empty:
	// there is none.
	Type, Table string
}

// ProbeCommand is the command that says what is on a device: for Probed.
func ProbeCommand(device string) []string {
	return []string{"blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device}
}

// Exit statuses of blkid.
const (
	blkidNothing   = 2
	blkidAmbiguous = 8
)

// Probed reads the output and the exit status of ProbeCommand.
func Probed(device string, status int, output string) (f Found, err error) {
	output = strings.TrimSpace(output)
	switch {
	case status == blkidNothing && output == "":
		return f, nil
	case status == blkidAmbiguous:
		return f, fmt.Errorf("device %s has signatures of several file systems: keep one of them with wipefs", device)
	case status != 0:
		return f, fmt.Errorf("blkid can't say what is on device %s (exit status %d): %s", device, status, line(output))
	}
	for l := range strings.Lines(output) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(l), "="); name {
		case "TYPE":
			f.Type = value
		case "PTTYPE":
			f.Table = value
		}
	}
	if f == (Found{}) {
		return f, fmt.Errorf("blkid found something on device %s, but not what: %s", device, line(output))
	}
	return f, nil
}

// Empty reports whether nothing was found.
func (f Found) Empty() bool { return f == Found{} }

// String is what was found, for people.
func (f Found) String() string {
	switch {
	case f.Empty():
		return "nothing"
	case f.Table == "":
		return f.Type
	case f.Type == "":
		return "a partition table (" + f.Table + ")"
	default:
		return f.Type + " and a partition table (" + f.Table + ")"
	}
}

// MountWant is how a device is to be mounted.
type MountWant struct {
	Device string
	// Type is that of the file system; empty: DefaultType.
	Type     string
	ReadOnly bool
	// Options are mount options (API PersistentVolume mountOptions). One of them may be ro.
	Options []string
}

// MountSteps are what has to be done for a mount, in this order. A nil command is left out.
type MountSteps struct {
	// Format is the command that makes a file system. It must not be made on a device that anything else has open.
	Format []string
	// Check is the command that repairs one: for Checked.
	Check []string
	// Type and Options are those of mount(8).
	Type    string
	Options []string
	// Doubt says why the mount may fail; empty: there is no reason.
	Doubt string
}

// PlanMount decides what has to be done for a mount.
func PlanMount(w *MountWant, f Found) (MountSteps, error) {
	s := MountSteps{Type: w.Type, Options: slices.Clone(w.Options)}
	if s.Type == "" {
		s.Type = DefaultType
	}
	if err := isType(s.Type); err != nil {
		return s, err
	}
	if w.ReadOnly && !slices.Contains(s.Options, "ro") {
		s.Options = append([]string{"ro"}, s.Options...)
	}
	readOnly := slices.Contains(s.Options, "ro")
	switch {
	case f.Empty() && readOnly:
		return s, fmt.Errorf("device %s has no file system, and is not formatted for a read-only mount: mount it "+
			"writable once, or format it", w.Device)
	case f.Empty():
		s.Format = format(s.Type, w.Device)
		return s, nil
	}
	if !readOnly && f.Table == "" && (f.Type == s.Type || isExt(f.Type) && isExt(s.Type)) {
		s.Check = []string{"fsck", "-a", w.Device}
	}
	if f.Type != s.Type || f.Table != "" {
		s.Doubt = fmt.Sprintf("device %s is wanted with %s, and has %s: give its type (fsType), or remove what is on it "+
			"with wipefs if it is not needed any more", w.Device, s.Type, f)
	}
	return s, nil
}

// isExt reports whether a type is one of those that are mounted for each other.
func isExt(fsType string) bool { return fsType == "ext2" || fsType == "ext3" || fsType == "ext4" }

// format is the command that makes a file system, with the options of a kubelet: all of the space for users, and no
// questions.
func format(fsType, device string) []string {
	program := "mkfs." + fsType
	switch fsType {
	case "ext3", "ext4":
		return []string{program, "-F", "-m0", device}
	case "xfs":
		return []string{program, "-f", device}
	default:
		return []string{program, device}
	}
}

// Growth is the command that grows the mounted file system of a device to the size of the device. It does nothing if
// the file system has that size already. point is where it is mounted.
func Growth(device string, f Found, point string) ([]string, error) {
	switch {
	case f.Table != "":
	case f.Type == "ext3" || f.Type == "ext4":
		return []string{"resize2fs", device}, nil
	case f.Type == "xfs":
		return []string{"xfs_growfs", "-d", point}, nil
	case f.Type == "btrfs":
		return []string{"btrfs", "filesystem", "resize", "max", point}, nil
	}
	return nil, fmt.Errorf("device %s has %s, which can't be grown while it is mounted: ext3, ext4, xfs and btrfs can",
		device, f)
}

// isType says what is wrong with the type of a file system, which becomes the name of a program.
func isType(s string) error {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-", r)) {
			return fmt.Errorf("fsType %q is not the name of a file system", s)
		}
	}
	return nil
}

// Exit status of fsck: errors were left uncorrected. A greater one says that it could not check, for example because
// the file system is mounted already, or that there is nothing that checks this type.
const fsckUncorrected = 4

// Checked says what an exit status of fsck and its output mean. A file system that could not be checked is mounted, as
// by a kubelet: the kernel refuses it if it is broken.
func Checked(device string, status int, output string) error {
	if status == fsckUncorrected {
		return fmt.Errorf("fsck found errors on device %s that it could not correct: run fsck by hand: %s", device,
			line(output))
	}
	return nil
}

// Missing is the error for a program that the machine does not have.
func Missing(program string) error {
	from := ""
	switch program {
	case "blkid", "fsck", "mount":
		from = " (package util-linux)"
	case "mkfs.ext3", "mkfs.ext4", "resize2fs":
		from = " (package e2fsprogs)"
	case "mkfs.xfs", "xfs_growfs":
		from = " (package xfsprogs)"
	case "mkfs.btrfs", "btrfs":
		from = " (package btrfs-progs)"
	}
	return errors.New(program + " is not installed on this node" + from + ": install it")
}

// line is output of a program in one line, its end if it is long.
func line(output string) string {
	const most = 500
	s := strings.Join(strings.Fields(output), " ")
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}
