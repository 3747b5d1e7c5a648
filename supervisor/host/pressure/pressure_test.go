package pressure

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/imagecache"
	"github.com/troupe-dev/troupe/actors/decide/podcgroup"
	"github.com/troupe-dev/troupe/actors/decide/usage"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/supervisor/host/kernel/resourceuse"
	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runtime has file systems and layers. It does not say where the layers are, as containerd.
type runtime struct {
	asked int
	at    string
	err   error
	// hangs, if set, is called in place of an answer.
	hangs func()
}

func (r *runtime) ContainerUsage(_ context.Context, done func([]usage.Container, error)) {
	if r.hangs != nil {
		r.hangs()
		return
	}
	layer := uint64(4096)
	done([]usage.Container{{RuntimeID: "c1", Rootfs: &usage.Disk{Used: &layer}}}, r.err)
}

func (r *runtime) Disks(_ context.Context, done func(images, layers port.DiskUse, err error)) {
	r.asked++
	done(port.DiskUse{Mountpoint: r.at}, port.DiskUse{}, r.err)
}

func newPressure(t *testing.T, change func(*Config)) *Pressure {
	t.Helper()
	c := Config{
		Meter: resourceuse.New(), Root: t.TempDir(), Logs: t.TempDir(),
		Ephemeral: func(_ context.Context, pods []*v1.Pod, _ bool) ([]eviction.Use, error) {
			return make([]eviction.Use, len(pods)), nil
		},
	}
	change(&c)
	return check.Value(New(c))(t)
}

func left(t *testing.T, p *Pressure) (eviction.Reading, error) {
	return answer.Of(t.Context(), func(done func(eviction.Reading, error)) { p.Left(t.Context(), done) })
}

func TestLeft(t *testing.T) {
	rt := &runtime{at: "/dev/shm"}
	p := newPressure(t, func(c *Config) { c.Runtime = rt })
	for range 2 {
		r := check.Value(left(t, p))(t)
		for name, l := range map[string]eviction.Left{
			"memory": r.Memory, "processes": r.PID, "nodefs": r.NodeFS.Bytes, "inodes": r.NodeFS.Inodes, "imagefs": r.ImageFS.Bytes,
		} {
			if !l.Known || l.Capacity == 0 || l.Available > l.Capacity {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if r.Allocatable.Known || r.NodeFS.Device == "" || r.ImageFS.Device == "" || r.ContainerFS.Device != "" {
			t.Errorf("%+v", r)
		}
	}
	check.Equal(t, rt.asked, 1, "the runtime was asked %d times", rt.asked)
	failing := newPressure(t, func(c *Config) { c.Runtime = &runtime{err: errors.New("not now")} })
	r, err := left(t, failing)
	if err == nil || !strings.Contains(err.Error(), "not now") || !r.Memory.Known || !r.NodeFS.Bytes.Known || r.ImageFS.Bytes.Known {
		t.Errorf("%v %+v", err, r)
	}
	failing.looking[failing.config.Root] = true
	if r, err = left(t, failing); err == nil || r.NodeFS.Bytes.Known || !r.Memory.Known {
		t.Errorf("a disk that hangs: %v %+v", err, r)
	}
}

// TestDiskWithoutSize: a file system without blocks meets no threshold, and image garbage collection knows it.
func TestDiskWithoutSize(t *testing.T) {
	p := newPressure(t, func(c *Config) { c.Runtime = &runtime{at: "/proc"} })
	r, err := left(t, p)
	if err != nil || r.ImageFS.Bytes.Known || !(imagecache.GCPolicy{High: 85, Low: 80}).NoSize(r.ImageFS) {
		t.Errorf("%v %+v", err, r.ImageFS)
	}
}

func TestUse(t *testing.T) {
	rt := &runtime{}
	var soon bool
	p := newPressure(t, func(c *Config) {
		c.Runtime = rt
		c.Ephemeral = func(_ context.Context, _ []*v1.Pod, s bool) ([]eviction.Use, error) {
			soon = s
			return []eviction.Use{{Age: time.Minute}}, nil
		}
	})
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app"}, {Name: "idle"}}}}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u1"
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "app", ContainerID: "containerd://c1", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
	}}
	hosttest.Write(t, filepath.Join(p.config.Logs, "default_web_u1/idle/0.log"), strings.Repeat("x", 5000))
	got, err := answer.Of(t.Context(), func(done func([]eviction.Use, error)) {
		p.Use(t.Context(), []*v1.Pod{pod}, port.PodUse{Disk: true, Soon: true}, done)
	})
	if err != nil || len(got) != 1 || !soon || got[0].Age != time.Minute || got[0].UID != "u1" || len(got[0].Containers) != 2 {
		t.Fatalf("%v %+v", err, got)
	}
	if app, idle := got[0].Containers[0], got[0].Containers[1]; app.Layer.Bytes != 4096 || idle.Logs.Bytes < 5000 || idle.Logs.Inodes != 1 {
		t.Errorf("%+v %+v", app, idle)
	}
	ctx, cancel := context.WithCancel(t.Context())
	rt.hangs = cancel // its own time would be 5 s
	found, err := p.use(ctx, []*v1.Pod{pod}, port.PodUse{Disk: true})
	if err == nil || found[0].Containers[0].Layer.Bytes != 4096 || found[0].Containers[1].Logs.Bytes < 5000 {
		t.Errorf("the runtime hangs: %v %+v; want what it said before, and the logs", err, found)
	}
}

// TestFilesCount: what the agent has written to memory for a pod counts as the pod's, if that is known at all.
func TestFilesCount(t *testing.T) {
	p := newPressure(t, func(c *Config) { c.Files = func(*v1.Pod) uint64 { return 100 } })
	for _, c := range []struct {
		of   *usage.Memory
		want uint64
	}{{&usage.Memory{WorkingSet: 5}, 105}, {nil, 0}} {
		var to eviction.Use
		p.containers(&v1.Pod{}, &usage.Pod{Cgroup: usage.Cgroup{Memory: c.of}}, port.PodUse{Memory: true}, &to)
		check.Equal(t, to.Memory, c.want, "the memory of a pod with %+v", c.of)
	}
}

// limited is a cgroup v1 with a memory limit, and pods below it.
func limited(t *testing.T, bytes int) (*Pressure, string) {
	t.Helper()
	hosttest.NeedRoot(t)
	name := "troupe-pressure-" + strconv.Itoa(os.Getpid())
	dir := filepath.Join("/sys/fs/cgroup/memory", name)
	hosttest.Need(t, "cgroup v1 with memory", os.Mkdir(dir, 0o755))
	t.Cleanup(func() { check.Error(t, os.Remove(dir)) })
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.Itoa(bytes)), 0))
	return newPressure(t, func(c *Config) { c.Cgroups = &podcgroup.Settings{Root: "/" + name} }), dir
}

func TestALimitAbovePodsIsTheNodes(t *testing.T) {
	p, _ := limited(t, 64<<20)
	r, err := left(t, p)
	if err != nil || r.Memory.Capacity != 64<<20 || r.Memory.Available > 64<<20 || r.Memory.Available < 60<<20 {
		t.Errorf("%v %+v", err, r.Memory)
	}
}

func TestWatchMemory(t *testing.T) {
	p, dir := limited(t, 64<<20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := make(chan error, 1)
	p.WatchMemory(ctx, 100<<20, func(err error) { got <- err })
	if err := <-got; err != nil {
		t.Errorf("under the threshold already: %v", err)
	}
	p.psi = "/nowhere" // the machine's own trouble is not this test's
	p.WatchMemory(ctx, 32<<20, func(err error) { got <- err })
	hold := hog(t, dir, 48)
	select {
	case err := <-got:
		t.Logf("told %v after the allocation began: %v", time.Since(hold), err)
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the kernel did not tell")
	}
}

// TestWatchMemoryOfAllPods: the limit of all pods may be short although the machine is not.
func TestWatchMemoryOfAllPods(t *testing.T) {
	p, dir := limited(t, 64<<20)
	all := filepath.Join(dir, "kubepods")
	check.Fatal(t, os.Mkdir(all, 0o755))
	t.Cleanup(func() { check.Error(t, os.Remove(all)) })
	check.Fatal(t, os.WriteFile(filepath.Join(all, "memory.limit_in_bytes"), []byte(strconv.Itoa(16<<20)), 0))
	p.psi = "/nowhere"
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := answer.Of(ctx, func(done func(struct{}, error)) {
		p.WatchMemory(ctx, 32<<20, func(err error) { done(struct{}{}, err) })
	}); err != nil {
		t.Errorf("under the threshold already: %v", err)
	}
	check.Fatal(t, os.WriteFile(filepath.Join(all, "memory.limit_in_bytes"), []byte(strconv.Itoa(48<<20)), 0))
	told := make(chan error, 1)
	p.WatchMemory(ctx, 24<<20, func(err error) { told <- err })
	begun := hog(t, all, 32)
	check.Error(t, <-told)
	t.Logf("told %v after the allocation began", time.Since(begun))
}

func TestWatchMemoryEndsWithItsContext(t *testing.T) {
	p := newPressure(t, func(*Config) {})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		p.WatchMemory(ctx, 1, func(err error) { got <- err })
		cancel()
		if err := <-got; port.KindOf(err) != port.Canceled && port.KindOf(err) != port.Unsupported {
			t.Error(err)
		}
	}
}
