package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// LosePower does to the runtime what a loss of power does: containerd, its shims and all containers end at once, and
// what is not on a disk is gone: cgroups, mounts, network interfaces and the directory of the runtime's state. The
// next [Lab.Start] is that of a machine that has booted. An agent must have been killed before.
func (l *Lab) LosePower(ctx context.Context) error {
	if err := l.Kill(ctx); err != nil {
		return err
	}
	ids, err := l.endByForce(ctx)
	err = errors.Join(err, l.removeCgroups(ctx, ids), Unmount(l.dir))
	if bridge := "lab" + l.id; err == nil && exists("/sys/class/net/"+bridge) {
		_, err = output(ctx, "", nil, "ip", "link", "delete", bridge)
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(l.dir, "state")))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
