package blockdevice_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/tests/check"
)

const device = "/dev/sdx"

// TestProbed: blkid says "nothing" also of a device that it can't open. Then it says why.
func TestProbed(t *testing.T) {
	for _, c := range []struct {
		name, output string
		status       int
		want         blockdevice.Found
		err          string
	}{
		{name: "nothing", status: 2},
		{name: "a file system", output: "DEVNAME=/dev/sdx\nTYPE=ext4\n", want: blockdevice.Found{Type: "ext4"}},
		{name: "partitions", output: "DEVNAME=/dev/sdx\nPTTYPE=gpt\n", want: blockdevice.Found{Table: "gpt"}},
		{
			name: "both", output: "DEVNAME=/dev/sdx\nTYPE=vfat\nPTTYPE=dos\n",
			want: blockdevice.Found{Type: "vfat", Table: "dos"},
		},
		{name: "can't be opened", status: 2, output: "blkid: error: /dev/sdx: No such device", err: "No such device"},
		{name: "several", status: 8, output: "ambivalent", err: "several file systems"},
		{name: "usage", status: 4, output: "bad usage", err: "exit status 4): bad usage"},
		{name: "of no use", output: "DEVNAME=/dev/sdx\n", err: "not what"},
		{name: "silent", err: "not what"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := blockdevice.Probed(device, c.status, c.output)
			wantError(t, err, c.err)
			check.Equal(t, got, c.want, "it")
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want one with %q", err, want)
	}
}

// TestPlan: what is done for an empty device that is to be mounted as ext4, and for each change of that.
func TestPlan(t *testing.T) {
	check := []string{"fsck", "-a", device}
	for _, c := range []struct {
		name  string
		want  func(*blockdevice.MountWant)
		found blockdevice.Found
		steps blockdevice.MountSteps
		err   string
	}{
		{name: "empty", steps: blockdevice.MountSteps{Format: []string{"mkfs.ext4", "-F", "-m0", device}, Type: "ext4"}},
		{
			name: "ext3", want: func(w *blockdevice.MountWant) { w.Type = "ext3" },
			steps: blockdevice.MountSteps{Format: []string{"mkfs.ext3", "-F", "-m0", device}, Type: "ext3"},
		},
		{
			name: "xfs", want: func(w *blockdevice.MountWant) { w.Type = "xfs" },
			steps: blockdevice.MountSteps{Format: []string{"mkfs.xfs", "-f", device}, Type: "xfs"},
		},
		{
			name: "another type", want: func(w *blockdevice.MountWant) { w.Type = "btrfs" },
			steps: blockdevice.MountSteps{Format: []string{"mkfs.btrfs", device}, Type: "btrfs"},
		},
		{
			name: "options", want: func(w *blockdevice.MountWant) { w.Options = []string{"noatime", "discard"} },
			steps: blockdevice.MountSteps{
				Format: []string{"mkfs.ext4", "-F", "-m0", device}, Type: "ext4", Options: []string{"noatime", "discard"},
			},
		},
		{name: "empty, read-only", want: func(w *blockdevice.MountWant) { w.ReadOnly = true }, err: "is not formatted"},
		{
			name: "empty, read-only by an option", want: func(w *blockdevice.MountWant) { w.Options = []string{"ro"} },
			err: "is not formatted",
		},
		{name: "formatted", found: blockdevice.Found{Type: "ext4"}, steps: blockdevice.MountSteps{Check: check, Type: "ext4"}},
		{
			name: "formatted, read-only", found: blockdevice.Found{Type: "ext4"},
			want:  func(w *blockdevice.MountWant) { w.ReadOnly, w.Options = true, []string{"noatime"} },
			steps: blockdevice.MountSteps{Type: "ext4", Options: []string{"ro", "noatime"}},
		},
		{
			name: "read-only twice", found: blockdevice.Found{Type: "ext4"},
			want:  func(w *blockdevice.MountWant) { w.ReadOnly, w.Options = true, []string{"noatime", "ro"} },
			steps: blockdevice.MountSteps{Type: "ext4", Options: []string{"noatime", "ro"}},
		},
		{
			name: "another file system", found: blockdevice.Found{Type: "xfs"},
			steps: blockdevice.MountSteps{Type: "ext4", Doubt: "has xfs"},
		},
		{
			name: "an older ext", found: blockdevice.Found{Type: "ext3"},
			steps: blockdevice.MountSteps{Check: check, Type: "ext4", Doubt: "has ext3"},
		},
		{
			name: "a part of a volume group", found: blockdevice.Found{Type: "LVM2_member"},
			steps: blockdevice.MountSteps{Type: "ext4", Doubt: "has LVM2_member"},
		},
		{
			name: "partitions", found: blockdevice.Found{Table: "gpt"},
			steps: blockdevice.MountSteps{Type: "ext4", Doubt: "has a partition table (gpt)"},
		},
		{
			name: "both", found: blockdevice.Found{Type: "ext4", Table: "dos"},
			steps: blockdevice.MountSteps{Type: "ext4", Doubt: "has ext4 and a partition table (dos)"},
		},
		{name: "a path as type", want: func(w *blockdevice.MountWant) { w.Type = "../../tmp/x" }, err: "not the name of a file system"},
		{name: "an option as type", want: func(w *blockdevice.MountWant) { w.Type = "-V" }, err: "not the name of a file system"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := blockdevice.MountWant{Device: device}
			if c.want != nil {
				c.want(&w)
			}
			got, err := blockdevice.PlanMount(&w, c.found)
			wantError(t, err, c.err)
			if err != nil {
				return
			}
			if !strings.Contains(got.Doubt, c.steps.Doubt) || (got.Doubt == "") != (c.steps.Doubt == "") {
				t.Errorf("doubt %q, want %q", got.Doubt, c.steps.Doubt)
			}
			got.Doubt = c.steps.Doubt
			if !reflect.DeepEqual(got, c.steps) {
				t.Errorf("%+v, want %+v", got, c.steps)
			}
		})
	}
}

// TestNeverFormatted: nothing that is found lets a device be formatted.
func TestNeverFormatted(t *testing.T) {
	for _, fsType := range []string{"", "ext4", "xfs", "LVM2_member", "crypto_LUKS", "linux_raid_member", "swap", "x"} {
		for _, table := range []string{"", "dos", "gpt"} {
			f := blockdevice.Found{Type: fsType, Table: table}
			if s, err := blockdevice.PlanMount(&blockdevice.MountWant{Device: device}, f); err != nil || (s.Format != nil) != f.Empty() {
				t.Errorf("%s: %+v, %v", f, s, err)
			}
		}
	}
}

// TestChecked: only errors that fsck could not correct keep a device from being mounted.
func TestChecked(t *testing.T) {
	for status := range 256 {
		err := blockdevice.Checked(device, status, "UNEXPECTED INCONSISTENCY;\n\tRUN fsck MANUALLY.")
		check.Equal(t, err != nil, status == 4, "status %d: %v", status, err)
		if err != nil && !strings.Contains(err.Error(), "UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.") {
			t.Error(err)
		}
	}
	if err := blockdevice.Checked(device, 4, strings.Repeat("x", 1000)); len(err.Error()) > 700 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// TestGrowth: the program is that of the file system that was found, and what is not known is not touched.
func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		found     blockdevice.Found
		want, err string
	}{
		"ext3":       {found: blockdevice.Found{Type: "ext3"}, want: "resize2fs /dev/sdx"},
		"ext4":       {found: blockdevice.Found{Type: "ext4"}, want: "resize2fs /dev/sdx"},
		"xfs":        {found: blockdevice.Found{Type: "xfs"}, want: "xfs_growfs -d /mnt"},
		"btrfs":      {found: blockdevice.Found{Type: "btrfs"}, want: "btrfs filesystem resize max /mnt"},
		"vfat":       {found: blockdevice.Found{Type: "vfat"}, err: "has vfat, which can't be grown"},
		"ext2":       {found: blockdevice.Found{Type: "ext2"}, err: "has ext2"},
		"partitions": {found: blockdevice.Found{Type: "ext4", Table: "dos"}, err: "has ext4 and a partition table (dos)"},
		"nothing":    {err: "has nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := blockdevice.Growth(device, c.found, "/mnt")
			wantError(t, err, c.err)
			check.Equal(t, strings.Join(got, " "), c.want, "%q", got)
		})
	}
}

// TestMissing: a program is named with the package that has it, if that is known.
func TestMissing(t *testing.T) {
	for program, want := range map[string]string{
		"blkid": "util-linux", "mkfs.ext4": "e2fsprogs", "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs",
		"resize2fs": "e2fsprogs", "xfs_growfs": "xfsprogs", "btrfs": "btrfs-progs",
		"mkfs.zfs": "mkfs.zfs is not installed on this node: install it",
	} {
		wantError(t, blockdevice.Missing(program), want)
	}
}
