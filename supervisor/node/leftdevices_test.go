package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/supervisor/host"
	must "github.com/troupe-dev/troupe/tests/check" // check is a function of this package
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) {
	host.RunChildIfAsked()
	os.Exit(m.Run())
}

// TestLeftDevices: an agent that starts unmounts the device of a local volume that no pod has.
func TestLeftDevices(t *testing.T) {
	hosttest.NeedRoot(t)
	conn, o := systemd(t), simulated(t)
	point := filepath.Join(o.Config.Options().RootDir, "plugins/kubernetes.io/local-volume/mounts/pv-1")
	must.Fatal(t, os.MkdirAll(point, 0o750))
	must.Fatal(t, unix.Mount("left", point, "tmpfs", 0, ""))
	t.Cleanup(func() { unix.Unmount(point, unix.MNT_DETACH) }) //nolint:errcheck // it is not there any more
	cancel, ended := isUp(t, conn, o)
	must.Until(t, "it is unmounted", func() bool {
		_, err := os.Stat(point)
		return errors.Is(err, fs.ErrNotExist)
	})
	cancel()
	must.Error(t, <-ended)
}
