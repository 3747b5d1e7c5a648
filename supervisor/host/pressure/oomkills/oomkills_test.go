package oomkills

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/oom"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func watch(ctx context.Context, k *Kills) ([]oom.Kill, error) {
	return answer.Of(ctx, func(done func([]oom.Kill, error)) { k.Watch(ctx, done) })
}

// log gives records one by one, as /dev/kmsg does, and cannot seek: it is put in its place.
func log(t *testing.T) (*Kills, func(record string)) {
	t.Helper()
	pair := check.Value(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
	k := &Kills{config: Config{Meter: resourceuse.New()}, log: os.NewFile(uintptr(pair[0]), "log"), turn: make(chan struct{}, 1)}
	t.Cleanup(func() { check.Error(t, errors.Join(k.Close(), unix.Close(pair[1]))) })
	return k, func(record string) {
		check.Value(unix.Write(pair[1], []byte(record)))(t)
	}
}

func TestWatch(t *testing.T) {
	k, write := log(t)
	const killed = "3,1,1,-;Out of memory: Killed process "
	write("6,1,1,-;a invoked oom-killer: x")
	for i := range 3 {
		write(killed + strconv.Itoa(i+1) + " (a) total-vm:1kB")
	}
	got, err := watch(t.Context(), k)
	if err != nil || len(got) != 3 || got[0].PID != 1 || got[2].PID != 3 || !got[0].System {
		t.Fatalf("%v %+v", err, got)
	}
	// A call that is given up loses nothing, and the next one is not disturbed by it.
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		k.Watch(ctx, func(_ []oom.Kill, err error) { ended <- err })
		cancel()
		if err := <-ended; port.KindOf(err) != port.Canceled {
			t.Fatal(err)
		}
	}
	write(killed + "9 (a) total-vm:1kB")
	if got, err := watch(t.Context(), k); err != nil || len(got) != 1 || got[0].PID != 9 {
		t.Fatalf("%v %+v", err, got)
	}
	ended := make(chan error, 1)
	k.Watch(t.Context(), func(_ []oom.Kill, err error) { ended <- err })
	check.Error(t, k.Close())
	check.Fails(t, <-ended, "a closed log is read")
}

func TestNoLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "regular")
	hosttest.Write(t, file, "x")
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), file} {
		k, err := New(Config{Meter: resourceuse.New(), Log: path})
		if err != nil {
			t.Fatal(err)
		}
		_, err = watch(t.Context(), k)
		hosttest.WantError(t, err, port.Unsupported, "WatchOOM "+path)
	}
}

// limited is a cgroup v1 that may have 16 MiB, with one of a pod and a container below it.
func limited(t *testing.T) (root, container string) {
	t.Helper()
	hosttest.NeedRoot(t)
	root = "/troupe-oom-" + strconv.Itoa(os.Getpid())
	dir := filepath.Join("/sys/fs/cgroup/memory", root)
	hosttest.Need(t, "cgroup v1 with memory", os.Mkdir(dir, 0o755))
	container = root + "/kubepods/besteffort/podu1/c1"
	t.Cleanup(func() {
		for path := container; path != "/"; path = filepath.Dir(path) {
			check.Error(t, os.Remove(filepath.Join("/sys/fs/cgroup/memory", path)))
		}
	})
	err := os.MkdirAll(filepath.Join("/sys/fs/cgroup/memory", container), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte("16777216"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root, container
}

// TestKernel: this machine's kernel kills a process for its memory, and says so.
func TestKernel(t *testing.T) {
	root, container := limited(t)
	k, err := New(Config{Meter: resourceuse.New(), Cgroups: &podcgroup.Settings{Root: root}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() }) //nolint:errcheck // it was only read
	hosttest.Need(t, "the kernel's log", k.why)
	pod := &v1.Pod{}
	pod.UID, pod.Status.ContainerStatuses = "u1", []v1.ContainerStatus{{
		Name: "app", ContainerID: "x://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}
	count := func() oom.Counts {
		n, err := answer.Of(t.Context(), func(done func(oom.Counts, error)) { k.Count(t.Context(), []*v1.Pod{pod}, done) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	var out bytes.Buffer
	c := exec.Command("sh", "-c", "echo $$ > /sys/fs/cgroup/memory"+container+"/cgroup.procs && exec dd if=/dev/zero of=/dev/null bs=64M")
	c.Stderr = &out
	check.Fatal(t, c.Start())
	pid := c.Process.Pid
	err = c.Wait()
	if s, is := errors.AsType[*exec.ExitError](err); !is || s.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("not killed: %v %s", err, out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for found := false; !found; { // others may be killed meanwhile
		got := check.Value(watch(ctx, k))(t)
		for _, kill := range got {
			if kill.PID == pid {
				found = true
				// An agent in a container has a cgroup above that.
				if kill.Process != "dd" || kill.System || !strings.HasSuffix(kill.Cgroup, container) || !strings.HasSuffix(kill.Limit, root) {
					t.Errorf("%+v", kill)
				}
			}
		}
	}
	after := count()
	if after.All <= before.All || before.Containers["c1"] != 0 || after.Containers["c1"] != 1 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
