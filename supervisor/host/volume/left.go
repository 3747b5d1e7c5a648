package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leftPatience is how long one device or disk may take that an earlier agent has left.
const leftPatience = 2 * time.Minute

// ReleaseLeft takes away what no pod has any more: devices of local volumes and disks of a network. A kubelet says that
// a pod is gone before it has unmounted and detached these, and the next agent finds nothing of the pod by which it
// would know of them. Pods may begin meanwhile.
func (h *Volumes) ReleaseLeft(ctx context.Context) error {
	return errors.Join(h.unmapLeft(ctx), h.releaseDisksLeft(ctx), h.releaseMountsLeft(ctx))
}

// unmapLeft takes away devices that pods have without a directory. Of a pod that begins, the directory is made first.
func (h *Volumes) unmapLeft(ctx context.Context) (failed error) {
	root := os.DirFS(h.root)
	for _, pattern := range deviceFiles {
		dirs, err := dirsOf(root, pattern)
		failed = errors.Join(failed, err)
		for _, dir := range dirs {
			files, err := fs.ReadDir(root, dir)
			if err != nil && !notThere(err) {
				failed = errors.Join(failed, err)
			}
			for _, f := range files {
				_, err := h.pods.Root.Lstat(f.Name())
				if strings.Contains(f.Name(), ".") || !errors.Is(err, fs.ErrNotExist) { // a note, or the pod is there
					continue
				}
				file := filepath.Join(h.root, dir, f.Name())
				failed = errors.Join(failed, bounded(ctx, leftPatience, func(ctx context.Context) error {
					return h.children.call(ctx, request{Op: opUnmap, Path: file})
				}))
			}
		}
	}
	return failed
}

// releaseDisksLeft unmounts and detaches disks that no pod has.
func (h *Volumes) releaseDisksLeft(ctx context.Context) error {
	if _, err := os.Lstat(h.disks.root); notThere(err) {
		return nil
	}
	a, err := h.disks.open()
	if err != nil {
		return err
	}
	left, failed := otherDirs(a, nil)
	for _, u := range left {
		failed = errors.Join(failed, bounded(ctx, leftPatience, func(ctx context.Context) error {
			return h.releaseDisk(ctx, &noted{Used: u}) // not if a pod has it
		}))
	}
	return failed
}

// releaseMountsLeft unmounts devices of local volumes that no pod has.
func (h *Volumes) releaseMountsLeft(ctx context.Context) error {
	left, failed := os.ReadDir(filepath.Join(h.root, localMounts))
	if notThere(failed) {
		return nil
	}
	for _, pv := range left {
		point := h.globalMount(pv.Name())
		used, is, err := h.usesOf(point)
		if err == nil && is && !used { // without a mount it may be that of a pod that begins
			err = bounded(ctx, leftPatience, func(ctx context.Context) error { return h.releaseGlobal(ctx, point) })
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
