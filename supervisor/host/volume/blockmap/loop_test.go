package blockmap

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// TestAttachWithoutConfigure: a kernel that refuses LOOP_CONFIGURE, as one does that does not have it, is asked in two
// steps. If the second fails, nothing is left of the first.
func TestAttachWithoutConfigure(t *testing.T) {
	hosttest.NeedRoot(t)
	disk := hosttest.NewLoop(t, 16<<20)
	f, err := os.Open(disk.Device)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()   //nolint:errcheck // nothing was written
	const refused = 3 // no size of blocks, which LOOP_CONFIGURE looks at alone
	free := func(then func(loop string) error) (loop string, err error) {
		control := check.Value(os.OpenFile("/dev/loop-control", os.O_RDWR, 0))(t)
		defer control.Close() //nolint:errcheck // nothing was written
		for {
			n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
			if err != nil {
				t.Fatal(err)
			}
			loop = fmt.Sprintf("/dev/loop%d", n)
			if err = then(loop); !errors.Is(err, unix.EBUSY) { // busy: another program was faster
				return loop, err
			}
		}
	}
	loop, err := free(func(loop string) error {
		return attach(loop, f, unix.LoopConfig{Size: refused, Info: infoOf(disk.Device)})
	})
	if err != nil {
		t.Fatal(err)
	}
	held := false
	err = loops(func(device, file string) error { held = held || device == loop && file == disk.Device; return nil })
	if err != nil || !held {
		t.Errorf("%s holds it: %v, %v", loop, held, err)
	}
	check.Error(t, release(disk.Device, nil))

	bad := infoOf(disk.Device)
	bad.Encrypt_type = 1 << 16
	_, err = free(func(loop string) error {
		return attach(loop, f, unix.LoopConfig{Size: refused, Info: bad})
	})
	check.Fails(t, err, "a wrong status was taken")
	held = false
	if err := loops(func(device, file string) error { held = held || file == disk.Device; return nil }); err != nil || held {
		t.Errorf("a loop device is left: %v, %v", held, err)
	}
}
