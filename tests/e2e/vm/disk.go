package vm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// Disk is one of the machine's, with a file system that has project quotas.
type Disk struct {
	// Kind of file system, and Options to mount it with.
	Kind, Options string
	// Device in the guest.
	Device string
	make   []string
	size   string
}

// Disks are all there are. The kernel names them in this order.
var Disks = []Disk{
	// Inodes of 256 bytes have room for a project.
	{Kind: "ext4", Device: "/dev/vda", make: []string{"-q", "-I", "256", "-O", "quota,project", "-E", "quotatype=prjquota"}, size: "512M"},
	{Kind: "xfs", Options: "prjquota", Device: "/dev/vdb", make: []string{"-q"}, size: "320M"}, // mkfs.xfs refuses less than 300M
}

// hasMkfs is what a test here needs to make them.
var hasMkfs = lab.NewRequirement("mkfs.ext4 and mkfs.xfs", func() error {
	for _, d := range Disks {
		if _, err := lab.LookPath("mkfs." + d.Kind); err != nil {
			return fmt.Errorf("%w (Debian packages: e2fsprogs, xfsprogs)", err)
		}
	}
	return nil
})

// makeDisks makes a sparse file for each disk in dir, and returns the emulator's arguments for them.
func makeDisks(ctx context.Context, dir string) (args []string, err error) {
	for _, d := range Disks {
		mkfs, err := lab.LookPath("mkfs." + d.Kind)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, d.Kind)
		for _, step := range [][]string{{"truncate", "-s", d.size, file}, slices.Concat([]string{mkfs}, d.make, []string{file})} {
			if out, err := exec.CommandContext(ctx, step[0], step[1:]...).CombinedOutput(); err != nil {
				return nil, fmt.Errorf("make a disk: %v: %w: %s", step, err, out)
			}
		}
		args = append(args, drive(file)...)
	}
	swap := filepath.Join(dir, "swap")
	if err := os.WriteFile(swap, swapHeader(swapSize), 0o600); err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	if err := os.Truncate(swap, swapSize); err != nil {
		return nil, fmt.Errorf("make a disk: %w", err)
	}
	return append(args, drive(swap)...), nil
}

func drive(file string) []string { return []string{"-drive", "if=virtio,format=raw,file=" + file} }

// SwapDevice is a disk to swap to, after all [Disks].
const SwapDevice = "/dev/vdc"

const swapSize = 128 << 20

// swapHeader is the first page of a disk to swap to (union swap_header in the kernel's linux/swap.h): a version, the
// number of the last page, and how many are bad.
func swapHeader(size uint32) []byte {
	const page, bootBits = 4096, 1024
	header := make([]byte, page)
	for i, n := range []uint32{1, size/page - 1, 0} {
		binary.LittleEndian.PutUint32(header[bootBits+4*i:], n)
	}
	const signature = "SWAPSPACE2"
	copy(header[page-len(signature):], signature)
	return header
}
