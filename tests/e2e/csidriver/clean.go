package csidriver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Needs is what the driver needs of the machine.
func Needs() []lab.Requirement {
	tools := []string{"mkfs.ext4", "e2fsck", "resize2fs", "mkfs.xfs", "xfs_growfs", "blkid"}
	return []lab.Requirement{lab.Root, lab.NewRequirement("loop devices and file systems", func() error {
		_, err := os.Stat("/dev/loop-control")
		for _, name := range tools {
			_, missing := lab.LookPath(name)
			err = errors.Join(err, missing)
		}
		return err
	})}
}

// Clean takes away all that a driver that has ended has mounted and attached. Its directory stays.
func (c Config) Clean() error {
	k, err := store{c.Dir + "/known"}.read()
	if err != nil {
		return err
	}
	d := Driver{config: c}
	for _, v := range k.Volumes {
		for path := range v.Published {
			err = errors.Join(err, unmount(path))
		}
		for path := range v.Staged {
			err = errors.Join(err, unmount(path))
		}
		if v.Image {
			err = errors.Join(err, detachLoop(d.volumeData(v.ID)))
		}
	}
	return err
}

// Left is what is there still of volumes: those that the driver knows, and what is mounted or attached of them. A test that
// has deleted all wants nothing.
func (c Config) Left() (left []string, err error) {
	defer check.Return(&err)
	k := check.Must(store{c.Dir + "/known"}.read())
	for _, v := range k.Volumes {
		left = append(left, fmt.Sprintf("volume %s (%s), attached to %v, staged at %v, published at %v", v.ID, v.Name, v.Attached, v.Staged, v.Published))
	}
	for _, s := range k.Snapshots {
		left = append(left, "snapshot "+s.ID)
	}
	mounts := check.Must(os.ReadFile("/proc/self/mountinfo"))
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, c.Dir+"/volumes/") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	// A device that somebody else has open stays when its file has gone.
	loops := check.Must(filepath.Glob("/sys/block/loop*/loop/backing_file"))
	for _, file := range loops {
		if text, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(text), c.Dir+"/volumes/") {
			left = append(left, strings.Split(file, "/")[3]+" of "+strings.TrimSpace(string(text)))
		}
	}
	entries, err := os.ReadDir(c.Dir + "/volumes")
	for _, e := range entries {
		left = append(left, "the data of volume "+e.Name())
	}
	return left, err
}
