package csidrivers_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	decide "github.com/troupe-dev/troupe/actors/decide/csi"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// asKubelet has a kubelet hold a device: $1 is where it is published, $2 is where the kubelet puts it.
const asKubelet = `mkdir -p "$(dirname "$2")" && touch "$2" && mount --bind "$1" "$2" && losetup --find "$2"`

// TestKubeletDevice: a kubelet, in the mount namespace of the agent or in one of its own, has put a loop device on a
// published device, once or twice. All of that goes, when the pod is taken over and when it ends. The loop devices of
// others stay, on the same device too.
func TestKubeletDevice(t *testing.T) {
	hosttest.NeedRoot(t)
	beside := []string{"sh", "-c", asKubelet, "sh"}
	apart := append([]string{"unshare", "--mount", "--propagation", "private"}, beside...)
	for name, kubelets := range map[string][][]string{
		"beside": {beside}, "apart": {apart}, "twice": {apart, apart}, "both": {apart, beside},
	} {
		for _, call := range []string{"publish", "unpublish"} {
			t.Run(name+" "+call, func(t *testing.T) {
				r := newRig(t, nil)
				d := r.next()
				s, p := stage, publish
				s.Block, p.Block = true, true
				check.Fatal(t, r.stage(d, s))
				home := filepath.Join(r.root, "plugins/kubernetes.io/csi/volumeDevices")
				r.driver.mount(filepath.Join(home, "staging/pv"), false)
				path, err := r.publish(d, p)
				if err != nil {
					t.Fatal(err)
				}
				disk := hosttest.NewLoop(t, 1<<20)
				other := filepath.Join(t.TempDir(), "other")
				hosttest.Write(t, other, "")
				check.Fatal(t, os.Remove(path))
				hosttest.Write(t, path, "")
				hosttest.Bind(t, disk.Device, other)
				unmount := hosttest.Bind(t, disk.Device, path)
				for _, k := range kubelets {
					hosttest.Run(t, k[0], append(k[1:], path, filepath.Join(home, "pv/dev/u1"))...)
				}
				foreign := strings.TrimSpace(hosttest.Run(t, "losetup", "--find", "--show", other))
				t.Cleanup(func() { hosttest.Run(t, "losetup", "--detach", foreign) })
				below := []string{r.root, other}
				if n := len(loopsOn(t, disk.Device, below)); n != len(kubelets)+1 {
					t.Fatalf("%d loop devices", n)
				}
				if call == "publish" {
					_, err = r.publish(d, p)
				} else if err = r.undo(r.UnpublishVolume, d, decide.Found{Key: volume, Target: target, Block: true}); err != nil &&
					strings.Contains(err.Error(), "left its device") {
					err = nil // this driver does not unmount
				}
				if err != nil {
					t.Error(err)
				}
				check.Until(t, "on the device is only "+foreign, func() bool { // others may have it open for a moment
					return slices.Equal(loopsOn(t, disk.Device, below), []string{foreign})
				})
				hosttest.WantGone(t, filepath.Join(home, "pv/dev/u1"))
				unmount()
			})
		}
	}
}

// loopsOn are the loop devices whose file is a device, if the path of that file is below one of these, or nowhere any more.
// Loop devices of others are not opened: the kernel would not let them go meanwhile.
func loopsOn(t *testing.T, device string, below []string) (all []string) {
	t.Helper()
	var s unix.Stat_t
	check.Fatal(t, unix.Stat(device, &s))
	files := check.Value(filepath.Glob("/sys/block/loop*/loop/backing_file"))(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		path := strings.TrimSpace(string(text))
		if err != nil || path != "/" && !slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(path, dir) }) {
			continue
		}
		name := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file)))
		f := check.Value(os.Open(name))(t)
		if l, err := unix.IoctlLoopGetStatus64(int(f.Fd())); err == nil && l.Rdevice == s.Rdev {
			all = append(all, name)
		}
		f.Close()
	}
	return all
}
