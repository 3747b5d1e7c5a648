package blockmount_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-dev/troupe/actors/decide/blockdevice"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/supervisor/host/internal/hostcall"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/mounts"
	"github.com/troupe-dev/troupe/supervisor/host/volume/blockmap"
	"github.com/troupe-dev/troupe/supervisor/host/volume/internal/blockmount"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

// asked has what a child process of the tests mounts, and where. With grows set it grows its file system.
const (
	asked = "BLOCKMOUNT_ASKED"
	grows = "BLOCKMOUNT_GROWS"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(asked); text != "" {
		var w blockdevice.MountWant
		point, _, _ := strings.Cut(text, " ")
		if err := json.Unmarshal([]byte(text[len(point):]), &w); err != nil {
			panic(err)
		}
		if os.Getenv(grows) != "" {
			fmt.Println(blockmount.Grow(w.Device, point))
			return
		}
		fmt.Println(blockmount.Mount(&w, point))
		return
	}
	os.Exit(m.Run())
}

const mib = 1 << 20

// size is enough for each type.
func size(fsType string) int64 {
	if fsType == "xfs" {
		return 320 * mib
	}
	return 16 * mib
}

// newPoint is a directory to mount at.
func newPoint(t *testing.T) string {
	t.Helper()
	point := filepath.Join(t.TempDir(), "point")
	check.Fatal(t, os.Mkdir(point, 0o755))
	t.Cleanup(func() { unix.Unmount(point, unix.MNT_DETACH) }) //nolint:errcheck // it may not be mounted
	return point
}

func mount(t *testing.T, w *blockdevice.MountWant, point string) {
	t.Helper()
	check.Fatal(t, blockmount.Mount(w, point))
}

// unmount unmounts a device, and waits until nobody has it mounted: a process that was started meanwhile in a mount
// namespace of its own has a copy of the mount for a moment, also one of the tests of another package.
func unmount(t *testing.T, point string) {
	t.Helper()
	var s unix.Stat_t
	check.Fatal(t, unix.Stat(point, &s))
	name := check.Value(os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))))(t)
	check.Fatal(t, unix.Unmount(point, 0))
	check.Until(t, "nobody has it mounted", func() bool {
		f, err := os.OpenFile(filepath.Join("/dev", filepath.Base(name)), os.O_RDONLY|unix.O_EXCL, 0)
		if err == nil {
			f.Close() //nolint:errcheck // nothing was written
		}
		return !errors.Is(err, unix.EBUSY)
	})
}

func uuid(t *testing.T, device string) string {
	t.Helper()
	return hosttest.Run(t, "blkid", "-p", "-s", "UUID", "-o", "value", device)
}

// TestMount: an empty device is formatted once, and what is written there stays.
func TestMount(t *testing.T) {
	hosttest.NeedRoot(t)
	for _, fsType := range []string{"", "ext3", "ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			l, point := hosttest.NewLoop(t, size(fsType)), newPoint(t)
			w := &blockdevice.MountWant{Device: l.Device, Type: fsType, Options: []string{"noatime"}}
			mount(t, w, point)
			hosttest.Write(t, filepath.Join(point, "file"), "text")
			mount(t, w, point)
			check.Count(t, strings.Count(readMounts(t), " "+point+" "), 1, "%d mounts")
			check.Has(t, readMounts(t), "noatime", "without its options")
			unmount(t, point)
			w.ReadOnly = true
			mount(t, w, point)
			if text, err := os.ReadFile(filepath.Join(point, "file")); string(text) != "text" {
				t.Errorf("%q, %v", text, err)
			}
			check.Fails(t, os.WriteFile(filepath.Join(point, "more"), nil, 0o600), "a read-only mount can be written")
			unmount(t, point)
		})
	}
}

func readMounts(t *testing.T) string {
	t.Helper()
	return string(check.Value(os.ReadFile("/proc/self/mountinfo"))(t))
}

// room is the size in MiB of the file system at a place.
func room(t *testing.T, point string) int64 {
	t.Helper()
	var s unix.Statfs_t
	check.Fatal(t, unix.Statfs(point, &s))
	return int64(s.Blocks) * s.Bsize / mib
}

// mayGrowExt: the kernel lets this process grow the file systems of resize2fs.
func mayGrowExt(t *testing.T) bool {
	t.Helper()
	var data [2]unix.CapUserData
	check.Fatal(t, unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]))
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// TestGrow: a file system in use grows to the size of its device, once, and what is in it stays.
func TestGrow(t *testing.T) {
	hosttest.NeedRoot(t)
	for _, fsType := range []string{"ext3", "ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			l, point := hosttest.NewLoop(t, size(fsType)), newPoint(t)
			mount(t, &blockdevice.MountWant{Device: l.Device, Type: fsType}, point)
			hosttest.Write(t, filepath.Join(point, "file"), "text")
			before := room(t, point)
			l.Grow(2 * size(fsType))
			if strings.HasPrefix(fsType, "ext") && !mayGrowExt(t) {
				err := portError(t, func() error { return blockmount.Grow(l.Device, point) })
				hosttest.WantError(t, err, port.Other, "resize2fs of device "+l.Device, "exit status 1")
				unmount(t, point)
				return
			}
			for range 2 {
				check.Fatal(t, blockmount.Grow(l.Device, point))
				if now := room(t, point); now < before*3/2 {
					t.Errorf("it has %d MiB, and had %d", now, before)
				}
			}
			if text, err := os.ReadFile(filepath.Join(point, "file")); string(text) != "text" {
				t.Errorf("%q, %v", text, err)
			}
			unmount(t, point)
		})
	}
}

// TestNotGrown: a device that is not mounted where it should be, or is worked on, is not touched; what a program says is told.
func TestNotGrown(t *testing.T) {
	hosttest.NeedRoot(t)
	l, point := hosttest.NewLoop(t, size("")), newPoint(t)
	grow := func() error { return portError(t, func() error { return blockmount.Grow(l.Device, point) }) }
	hosttest.WantError(t, grow(), port.StateConflict, "is not mounted at "+point)
	mount(t, &blockdevice.MountWant{Device: l.Device}, point)
	stand(t, "resize2fs", "echo it is full; exit 1")
	hosttest.WantError(t, grow(), port.Other, "resize2fs of device", "exit status 1", "it is full")
	held := hold(t, l.Device, os.O_RDONLY)
	check.Fatal(t, unix.Flock(int(held.Fd()), unix.LOCK_SH))
	hosttest.WantError(t, grow(), port.StateConflict, "locked by another program")
	check.Fatal(t, unix.Flock(int(held.Fd()), unix.LOCK_UN))
	unmount(t, point)
	hosttest.Run(t, "wipefs", "-a", l.Device)
	hosttest.Run(t, "mkfs.ext2", "-q", l.Device)
	check.Until(t, "it is mounted", func() bool { return unix.Mount(l.Device, point, "ext4", 0, "") == nil })
	hosttest.WantError(t, grow(), port.InvalidConfig, "has ext2, which can't be grown")
	unmount(t, point)
}

// TestKilledInGrow: the process that grows a file system is killed. The program of the machine goes on, nothing else is done
// on the device until it has ended, and then it is found grown.
func TestKilledInGrow(t *testing.T) {
	hosttest.NeedRoot(t)
	l, point := hosttest.NewLoop(t, size("xfs")), newPoint(t)
	w := &blockdevice.MountWant{Device: l.Device, Type: "xfs"}
	mount(t, w, point)
	before := room(t, point)
	l.Grow(2 * size("xfs"))
	gate := newGate(t, "xfs_growfs")
	t.Setenv(grows, "yes")
	kill := start(t, w, point)
	check.Until(t, "it runs", func() bool { return gate.runs() == 1 })
	kill()
	again := func() error { return portError(t, func() error { return blockmount.Grow(l.Device, point) }) }
	hosttest.WantError(t, again(), port.StateConflict, "locked by another program")
	gate.open()
	check.Until(t, "it is grown", func() bool { return again() == nil })
	if now := room(t, point); now < before*3/2 {
		t.Errorf("it has %d MiB, and had %d", now, before)
	}
	unmount(t, point)
}

// TestNotFormatted: a device that has anything on it, or may have, stays as it is.
func TestNotFormatted(t *testing.T) {
	hosttest.NeedRoot(t)
	table := make([]byte, 512)
	copy(table[446:], []byte{0, 0, 2, 0, 0x83, 0, 2, 0, 1, 0, 0, 0, 0, 64, 0, 0})
	copy(table[510:], []byte{0x55, 0xaa})
	for _, c := range []struct {
		name string
		// write puts something on the device.
		write func(t *testing.T, l *hosttest.Loop)
		want  func(*blockdevice.MountWant)
		kind  port.ErrorKind
		text  string
	}{
		{
			name: "swap", kind: port.Other, text: "has swap",
			write: func(t *testing.T, l *hosttest.Loop) { hosttest.Run(t, "mkswap", l.Device) },
		},
		{
			name: "partitions", kind: port.Other, text: "has a partition table (dos)",
			write: func(t *testing.T, l *hosttest.Loop) { writeDevice(t, l.Device, table) },
		},
		{
			name: "another file system", kind: port.Other, text: "has ext4", want: func(w *blockdevice.MountWant) { w.Type = "xfs" },
			write: func(t *testing.T, l *hosttest.Loop) { hosttest.Run(t, "mkfs.ext4", "-q", l.Device) },
		},
		{name: "read-only", kind: port.InvalidConfig, text: "not formatted", want: func(w *blockdevice.MountWant) { w.ReadOnly = true }},
		{
			name: "unreadable", kind: port.Other, text: "can't be read",
			write: func(_ *testing.T, l *hosttest.Loop) { l.Truncate(mib) },
		},
		{
			name: "used by something else", kind: port.StateConflict, text: "something else uses it",
			write: func(t *testing.T, l *hosttest.Loop) { hold(t, l.Device, os.O_RDONLY|unix.O_EXCL) },
		},
		{
			name: "a device of a pod", kind: port.StateConflict, text: "it is mapped into a pod as a device",
			write: func(t *testing.T, l *hosttest.Loop) {
				writeDevice(t, l.Device, []byte("what blkid does not know"))
				mapped(t, l.Device)
			},
		},
		{
			name: "a device of a pod with a file system", kind: port.StateConflict, text: "neither formatted nor checked",
			write: func(t *testing.T, l *hosttest.Loop) {
				hosttest.Run(t, "mkfs.ext4", "-q", l.Device)
				mapped(t, l.Device)
			},
		},
		{
			name: "locked", kind: port.StateConflict, text: "locked by another program",
			write: func(t *testing.T, l *hosttest.Loop) {
				check.Fatal(t, unix.Flock(int(hold(t, l.Device, os.O_RDONLY).Fd()), unix.LOCK_SH))
			},
		},
		{name: "no program", kind: port.InvalidConfig, text: "mkfs.none is not installed", want: func(w *blockdevice.MountWant) { w.Type = "none" }},
		{name: "no type", kind: port.InvalidConfig, text: "fsType", want: func(w *blockdevice.MountWant) { w.Type = "../x" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, point := hosttest.NewLoop(t, size("")), newPoint(t)
			if c.write != nil {
				c.write(t, l)
			}
			want := &blockdevice.MountWant{Device: l.Device}
			if c.want != nil {
				c.want(want)
			}
			before := read(t, l.File)
			hosttest.WantError(t, portError(t, func() error { return blockmount.Mount(want, point) }), c.kind, c.text)
			if !bytes.Equal(before, read(t, l.File)) {
				t.Error("the device was written")
			}
			if strings.Contains(readMounts(t), point) {
				t.Error("it was mounted")
			}
		})
	}
}

func portError(t *testing.T, f func() error) error {
	t.Helper()
	return hosttest.Wait(func(done func(error)) {
		hostcall.Do(t.Context(), "Mount", "it", func(context.Context) error { return f() }, done)
	})
}

func writeDevice(t *testing.T, device string, data []byte) {
	t.Helper()
	f := hold(t, device, os.O_WRONLY)
	check.Value(f.Write(data))(t)
	check.Fatal(t, f.Sync())
}

// hold has a file open until the test ends.
func hold(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f := check.Value(os.OpenFile(path, flags, 0))(t)
	t.Cleanup(func() { f.Close() }) //nolint:errcheck // nothing more is done with it
	return f
}

// mapped gives a device to a pod, as it is, until the test ends.
func mapped(t *testing.T, device string) {
	t.Helper()
	dir := t.TempDir()
	m := blockmap.Map{File: filepath.Join(dir, "plugins/x/volumeDevices/pv-1/u1"), Link: filepath.Join(dir, "pods/u1/volumeDevices/x/pv-1")}
	check.Fatal(t, m.Set(device))
	t.Cleanup(func() {
		all, err := mounts.Now()
		check.Error(t, errors.Join(err, blockmap.Clear(all, m.File)))
	})
}

// read reads the file of a device.
func read(t *testing.T, path string) []byte {
	t.Helper()
	return check.Value(os.ReadFile(path))(t)
}

// TestOtherMount: what is mounted at the place already stays, and is named.
func TestOtherMount(t *testing.T) {
	hosttest.NeedRoot(t)
	a, b, point := hosttest.NewLoop(t, size("")), hosttest.NewLoop(t, size("")), newPoint(t)
	mount(t, &blockdevice.MountWant{Device: a.Device}, point)
	err := portError(t, func() error { return blockmount.Mount(&blockdevice.MountWant{Device: b.Device}, point) })
	hosttest.WantError(t, err, port.StateConflict, point, a.Device)
	unmount(t, point)
}

// TestNoDevice: a path that is none is refused.
func TestNoDevice(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	hosttest.Write(t, file, "text")
	for path, kind := range map[string]port.ErrorKind{file: port.InvalidConfig, file + "x": port.NotFound} {
		hosttest.WantError(t, portError(t, func() error {
			return blockmount.Mount(&blockdevice.MountWant{Device: path}, t.TempDir())
		}), kind, path)
	}
}

// stand puts a program of a name before those of the machine.
func stand(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	check.Fatal(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestComesBack: a device that could not be read while blkid looked, and has a file system, is not formatted.
func TestComesBack(t *testing.T) {
	hosttest.NeedRoot(t)
	l, point := hosttest.NewLoop(t, size("")), newPoint(t)
	w := &blockdevice.MountWant{Device: l.Device}
	mount(t, w, point)
	unmount(t, point)
	before := uuid(t, l.Device)
	real := check.Value(exec.LookPath("blkid"))(t)
	once := filepath.Join(t.TempDir(), "once")
	stand(t, "blkid", "if mkdir "+once+" 2>/dev/null; then exit 2; fi; exec "+real+` "$@"`)
	hosttest.WantError(t, portError(t, func() error { return blockmount.Mount(w, point) }), port.StateConflict, "was not formatted")
	if now := uuid(t, l.Device); now != before {
		t.Errorf("the file system is %s, it was %s", now, before)
	}
	mount(t, w, point)
	unmount(t, point)
}

// TestCheck: a file system with errors that stay is not mounted; one that can't be checked is.
func TestCheck(t *testing.T) {
	hosttest.NeedRoot(t)
	l, point := hosttest.NewLoop(t, size("")), newPoint(t)
	w := &blockdevice.MountWant{Device: l.Device}
	mount(t, w, point)
	unmount(t, point)
	stand(t, "fsck", "echo it is broken; exit 4")
	hosttest.WantError(t, portError(t, func() error { return blockmount.Mount(w, point) }), port.Other, "it is broken")
	stand(t, "fsck", "kill -9 $$")
	hosttest.WantError(t, portError(t, func() error { return blockmount.Mount(w, point) }), port.Other, "killed")
	stand(t, "fsck", "exit 8")
	mount(t, w, point)
	unmount(t, point)
}

// TestKilled: the process that mounts is killed while a program of the machine runs. mkfs and fsck go on, and nothing
// else is done on the device until they have ended. Then the mount goes on where it was.
func TestKilled(t *testing.T) {
	hosttest.NeedRoot(t)
	for _, c := range []struct {
		program string
		// formatted: there is a file system before. goesOn: the program is not killed.
		formatted, goesOn bool
	}{
		{program: "blkid"},
		{program: "mkfs.ext4", goesOn: true},
		{program: "mount", formatted: true},
		{program: "fsck", formatted: true, goesOn: true},
	} {
		t.Run(c.program, func(t *testing.T) {
			l, point := hosttest.NewLoop(t, size("")), newPoint(t)
			w := &blockdevice.MountWant{Device: l.Device}
			if c.program == "fsck" {
				mount(t, w, point)
				unmount(t, point)
			}
			gate := newGate(t, c.program)
			kill := start(t, w, point)
			check.Until(t, "it runs", func() bool { return gate.runs() == 1 })
			before := ""
			if c.formatted {
				before = uuid(t, l.Device)
			}
			kill()
			again := func() error { return portError(t, func() error { return blockmount.Mount(w, point) }) }
			if c.goesOn {
				hosttest.WantError(t, again(), port.StateConflict, "locked by another program")
			}
			gate.open()
			check.Until(t, "it is mounted", func() bool { return again() == nil })
			if now := uuid(t, l.Device); before != "" && now != before {
				t.Errorf("it was formatted again: %s, before %s", now, before)
			}
			if c.program == "mkfs.ext4" && gate.runs() != 1 {
				t.Errorf("it was formatted %d times", gate.runs())
			}
			unmount(t, point)
		})
	}
}

// gate holds up a program of the machine until it is opened.
type gate struct {
	t   *testing.T
	dir string
}

func newGate(t *testing.T, program string) *gate {
	t.Helper()
	g := &gate{t: t, dir: t.TempDir()}
	real := check.Value(exec.LookPath(program))(t)
	stand(t, program, fmt.Sprintf(`cd %s; echo >> runs; until [ -e open ]; do sleep 0.01; done; exec %s "$@"`, g.dir, real))
	t.Cleanup(g.open)
	return g
}

func (g *gate) runs() int {
	b, err := os.ReadFile(filepath.Join(g.dir, "runs"))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return len(b)
}

func (g *gate) open() { hosttest.Write(g.t, filepath.Join(g.dir, "open"), "") }

// start mounts in a child process. kill kills it with its process group, and waits for its end.
func start(t *testing.T, w *blockdevice.MountWant, point string) (kill func()) {
	t.Helper()
	text := check.Value(json.Marshal(w))(t)
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asked+"="+point+" "+string(text))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.Fatal(t, c.Start())
	return func() {
		t.Helper()
		check.Error(t, syscall.Kill(-c.Process.Pid, syscall.SIGKILL))
		check.Fails(t, c.Wait(), "it had ended by itself")
	}
}
