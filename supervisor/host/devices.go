package host

import (
	"context"

	"github.com/troupe-dev/troupe/actors/decide/blockfs"
)

// mountDevice mounts a block device at a directory, and formats it first if it is empty, in a child process: see
// package blockmount. It is idempotent.
func (h *Host) mountDevice(ctx context.Context, w *blockfs.Want, point string) error {
	return h.children.call(ctx, request{Op: opDevice, Path: point, Device: w})
}
