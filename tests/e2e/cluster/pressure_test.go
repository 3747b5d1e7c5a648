package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/troupe-dev/troupe/tests/e2e/node"
)

const mib = 1 << 20

// Of the pods' memory, and of what a hog takes of it.
const (
	memoryLimit     = 1536 * mib
	memoryThreshold = 500 * mib
	hogRate         = 150 // MiB per second: from the threshold to the limit, it needs 3.3 s
)

// memoryFile reads a file of a cgroup's memory; v1 and v2 name some differently.
func memoryFile(cgroup, v1, v2 string) string {
	if dir := filepath.Join("/sys/fs/cgroup/memory", cgroup); v2 == "" || exists(dir) {
		return filepath.Join(dir, v1)
	}
	return filepath.Join("/sys/fs/cgroup", cgroup, v2)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// taken is how much of a cgroup's memory cannot be given up, in bytes.
func taken(cgroup string) (int64, error) {
	text, err := os.ReadFile(memoryFile(cgroup, "memory.usage_in_bytes", "memory.current"))
	if err != nil {
		return 0, err
	}
	sum, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(memoryFile(cgroup, "memory.stat", "memory.stat"))
	if err != nil {
		return 0, err
	}
	v1 := strings.Contains(string(stat), "\ntotal_")
	for line := range strings.Lines(string(stat)) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v1 {
			name, _ = strings.CutPrefix(name, "total_")
			if !strings.HasPrefix(line, "total_") {
				continue
			}
		}
		if name == "inactive_file" || name == "active_file" {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return 0, err
			}
			sum -= n
		}
	}
	return sum, nil
}

// watched is what was seen of a number that grows until something stops it.
type watched struct {
	mu sync.Mutex
	// crossed is when it was first above a level, peaked when it was highest, relieved when it was below the level
	// again.
	crossed, peaked, relieved time.Time
	peak                      int64
}

// sample reads a number every 20 ms until the test ends.
func sample(t *testing.T, level int64, read func() (int64, error)) *watched {
	w := &watched{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			n, err := read()
			if err != nil {
				continue // it comes and goes
			}
			now := time.Now()
			w.mu.Lock()
			if n > level && w.crossed.IsZero() {
				w.crossed = now
			}
			if n > w.peak {
				w.peak, w.peaked = n, now
			}
			if n < level && !w.crossed.IsZero() && w.relieved.IsZero() {
				w.relieved = now
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// now is what was seen so far.
func (w *watched) now() (crossed, peaked, relieved time.Time, peak int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crossed, w.peaked, w.relieved, w.peak
}

// evictedAt waits for the agent's event of an eviction, and returns when it was there.
func (b *bed) evictedAt(t *testing.T, name string) time.Time {
	t.Helper()
	b.await(t, "pod "+name+" is being evicted", func() error {
		events, err := b.EventsOf(t.Context(), b.name+"/"+name)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Reason == "Evicted" {
				return nil
			}
		}
		return fmt.Errorf("events: %v", events)
	})
	return time.Now()
}

// awaitEvicted waits until the apiserver shows that a pod was evicted, and why.
func (b *bed) awaitEvicted(t *testing.T, name, message string) *v1.Pod {
	t.Helper()
	p := b.awaitPod(t, name, "has failed", phase(v1.PodFailed))
	if p.Status.Reason != "Evicted" || !strings.HasPrefix(p.Status.Message, message) {
		t.Errorf("pod %s: reason %q, message %q; want Evicted, %q", name, p.Status.Reason, p.Status.Message, message)
	}
	return p
}

// bystanders are pods that have nothing to do with a shortage: what the returned function finds must be as it was.
func (b *bed) bystanders(t *testing.T, n int) (undisturbed func()) {
	t.Helper()
	name := func(i int) string { return "calm-" + strconv.Itoa(i) }
	for i := range n {
		b.create(t, b.pod(name(i), work("sleep")))
	}
	ids := map[string]string{}
	for i := range n {
		p := b.awaitPod(t, name(i), "is ready", ready)
		ids[p.Name] = p.Status.ContainerStatuses[0].ContainerID
	}
	return func() {
		t.Helper()
		for i := range n {
			p := b.get(t, name(i))
			if err := ready(p); err != nil || p.Status.Phase != v1.PodRunning {
				t.Errorf("pod %s: %v, %s %s %s", p.Name, err, p.Status.Phase, p.Status.Reason, p.Status.Message)
				continue
			}
			if s := p.Status.ContainerStatuses[0]; s.RestartCount != 0 || s.ContainerID != ids[p.Name] {
				t.Errorf("pod %s: %d restarts, container %s; want 0, %s", p.Name, s.RestartCount, s.ContainerID, ids[p.Name])
			}
		}
	}
}

// pressed is nil if a condition of the node has a status.
func pressed(kind v1.NodeConditionType, want v1.ConditionStatus) func(*v1.Node) error {
	return func(n *v1.Node) error {
		if c := condition(n, kind); c.Status != want {
			return fmt.Errorf("%s is %s: %s", kind, c.Status, c.Message)
		}
		return nil
	}
}

// inVolume gives the first container a volume in memory, or on disk, at /v.
func inVolume(v v1.EmptyDirVolumeSource) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		s.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v}}}
		s.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

func changes(list ...func(*v1.PodSpec)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		for _, c := range list {
			c(s)
		}
	}
}

// TestMemoryHog: of twenty-one pods on a node, one takes all memory. It is evicted before the kernel's OOM killer
// chooses anybody, and the others do not notice.
func TestMemoryHog(t *testing.T) {
	t.Parallel()
	const quick = 5 * time.Second // much more than it takes: see what is logged
	anonymous := work(fmt.Sprintf("hog memory 4000 %d", hogRate))
	shared := changes(work(fmt.Sprintf("fill /v/f %d", hogRate)), inVolume(v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}))
	for _, c := range []struct {
		name string
		hog  func(*v1.PodSpec)
		// settings are more of the node's.
		settings string
		// reserved: the node has less memory for pods as the rest is reserved, not as its own cgroup is limited.
		reserved bool
	}{
		{"noticed", anonymous, "", false},
		{"measured", anonymous, "kernelMemcgNotification: false\n", false},
		{"volume", shared, "", false},
		{"reserved", anonymous, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reserved := "100Mi"
			if c.reserved {
				reserved = strconv.FormatInt(machineMemory(t)-memoryLimit, 10)
			}
			b := newBed(t, "memory-hog-"+c.name, func(s *setup) {
				s.agent.Settings = fmt.Sprintf("evictionHard: {memory.available: %dMi}\nevictionPressureTransitionPeriod: 3s\n"+
					"systemReserved: {memory: %q}\n", memoryThreshold/mib, reserved) + c.settings
			})
			group := b.lab.CgroupRoot()
			if !c.reserved {
				limitMemory(t, group, memoryLimit)
			}
			b.start(t)
			b.awaitNode(t, "is ready for pods", usable)
			undisturbed := b.bystanders(t, 20)

			memory := sample(t, memoryLimit-memoryThreshold, func() (int64, error) { return taken(group) })
			b.create(t, b.pod("hog", c.hog))
			acted := b.evictedAt(t, "hog")
			b.awaitNode(t, "is short of memory", pressed(v1.NodeMemoryPressure, v1.ConditionTrue))
			shownAt := time.Now()
			b.awaitEvicted(t, "hog", fmt.Sprintf("The node was low on resource: memory. Threshold quantity: %dMi, available: ", memoryThreshold/mib))
			failed := time.Now()
			b.await(t, "its memory is free again", func() error {
				if _, _, relieved, peak := memory.now(); relieved.IsZero() {
					return fmt.Errorf("peak %d MiB", peak/mib)
				}
				return nil
			})
			b.awaitNode(t, "has enough memory", pressed(v1.NodeMemoryPressure, v1.ConditionFalse))
			crossed, peaked, relieved, peak := memory.now()
			t.Logf("after less than %d MiB were left: evicting %v, peak %v (%d MiB of %d), enough is free %v, "+
				"the node shows it %v, the pod has failed %v", memoryThreshold/mib, acted.Sub(crossed).Round(time.Millisecond),
				peaked.Sub(crossed).Round(time.Millisecond), peak/mib, memoryLimit/mib, relieved.Sub(crossed).Round(time.Millisecond),
				shownAt.Sub(crossed).Round(time.Millisecond), failed.Sub(crossed).Round(time.Millisecond))
			if took := acted.Sub(crossed); took > quick {
				t.Errorf("evicted %v after memory ran short; want at most %v", took, quick)
			}
			undisturbed()
		})
	}
}

// limitMemory makes a cgroup whose memory is limited.
func limitMemory(t *testing.T, cgroup string, bytes int64) {
	t.Helper()
	file := memoryFile("/", "", "")
	if exists(file) {
		file = filepath.Join(file, cgroup, "memory.limit_in_bytes")
	} else {
		file = filepath.Join("/sys/fs/cgroup", cgroup, "memory.max")
	}
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(strconv.FormatInt(bytes, 10)), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machineMemory is how much there is, in bytes.
func machineMemory(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "MemTotal:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("/proc/meminfo has no MemTotal")
	return 0
}

const fillRate = 20 // MiB per second

// TestDiskLimits: pods that write more than their limits allow are evicted: into a volume, into their log, and into
// their container's own file system.
func TestDiskLimits(t *testing.T) {
	t.Parallel()
	b := newBed(t, "disk-limits", func(s *setup) {
		s.agent.Settings = "evictionHard: {memory.available: 100Mi}\ncontainerLogMaxSize: 4Gi\n"
	})
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	undisturbed := b.bystanders(t, 1)
	const most = 50 * mib
	quantity := *resource.NewQuantity(most, resource.BinarySI)
	limited := func(s *v1.PodSpec) {
		s.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: quantity}
	}
	inside := func(pid int, _ *v1.Pod, file string) (int64, error) {
		info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "root", file))
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	limit := `Pod ephemeral local storage usage exceeds the total limit of containers 50Mi. `
	for _, c := range []struct {
		name    string
		change  func(*v1.PodSpec)
		message string
		size    func(pid int, p *v1.Pod) (int64, error)
	}{
		{
			"volume", changes(work(fmt.Sprintf("fill /v/f %d", fillRate)), inVolume(v1.EmptyDirVolumeSource{SizeLimit: &quantity})),
			`Usage of EmptyDir volume "v" exceeds the limit "50Mi". `,
			func(pid int, p *v1.Pod) (int64, error) { return inside(pid, p, "v/f") },
		},
		{
			"log", changes(work(fmt.Sprintf("flood %d", fillRate)), limited), limit,
			func(_ int, p *v1.Pod) (int64, error) {
				info, err := os.Stat(filepath.Join(b.Logs(), p.Namespace+"_"+p.Name+"_"+string(p.UID), "app/0.log"))
				if err != nil {
					return 0, err
				}
				return info.Size(), nil
			},
		},
		{
			"layer", changes(work(fmt.Sprintf("fill /f %d", fillRate)), limited), limit,
			func(pid int, p *v1.Pod) (int64, error) { return inside(pid, p, "f") },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.create(t, b.pod(c.name, c.change))
			p := b.awaitPod(t, c.name, "runs", phase(v1.PodRunning))
			pid, err := b.containerPID(t, p)
			if err != nil {
				t.Fatal(err)
			}
			disk := sample(t, most, func() (int64, error) { return c.size(pid, p) })
			acted := b.evictedAt(t, c.name)
			b.awaitEvicted(t, c.name, c.message)
			crossed, peaked, _, peak := disk.now()
			t.Logf("evicting %v after it was over its limit of %d MiB; it had %d MiB when it was stopped, %v after that",
				acted.Sub(crossed).Round(10*time.Millisecond), int64(most/mib), peak/mib, peaked.Sub(crossed).Round(10*time.Millisecond))
			if took := acted.Sub(crossed); crossed.IsZero() || took > time.Minute {
				t.Errorf("evicted %v after it was over its limit", took)
			}
		})
	}
	undisturbed()
}

// containerPID is that of a pod's first container.
func (b *bed) containerPID(t *testing.T, p *v1.Pod) (int, error) {
	t.Helper()
	_, id, found := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	if !found {
		return 0, errors.New("it has no container")
	}
	return node.ContainerPID(t.Context(), b.lab, id)
}

// TestDiskFiller: the node's disk is full soon, by a pod that has no limit. The pod is evicted, and the node shows
// the pressure until it is over.
func TestDiskFiller(t *testing.T) {
	t.Parallel()
	const size, share = 200, 20 // MiB, %
	b := newBed(t, "disk-filler", func(s *setup) {
		s.agent.Settings = fmt.Sprintf("evictionHard: {nodefs.available: %d%%}\nevictionPressureTransitionPeriod: 5s\n", share)
	})
	if err := syscall.Mount("tmpfs", b.Root(), "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	undisturbed := b.bystanders(t, 3)

	disk := sample(t, (100-share)*size/100*mib, func() (int64, error) {
		var s syscall.Statfs_t
		err := syscall.Statfs(b.Root(), &s)
		return int64(s.Blocks-s.Bavail) * s.Bsize, err
	})
	b.create(t, b.pod("filler", changes(work(fmt.Sprintf("fill /v/f %d", fillRate)), inVolume(v1.EmptyDirVolumeSource{}))))
	acted := b.evictedAt(t, "filler")
	b.awaitNode(t, "is short of disk", pressed(v1.NodeDiskPressure, v1.ConditionTrue))
	shownAt := time.Now()
	b.awaitEvicted(t, "filler", "The node was low on resource: ephemeral-storage. Threshold quantity: ")
	failed := time.Now()
	b.awaitNode(t, "has enough disk", pressed(v1.NodeDiskPressure, v1.ConditionFalse))
	clear := time.Now()
	crossed, _, relieved, peak := disk.now()
	if crossed.IsZero() || relieved.IsZero() {
		t.Fatalf("less than %d %% were left at %v, enough again at %v", share, crossed, relieved)
	}
	since := func(at time.Time) time.Duration { return at.Sub(crossed).Round(10 * time.Millisecond) }
	t.Logf("after less than %d %% were left: evicting %v, the node shows it %v, enough is free %v, the pod has failed %v, "+
		"the node shows no more %v; %d MiB of %d were in use", share, since(acted), since(shownAt), since(relieved),
		since(failed), since(clear), peak/mib, size)
	if took := since(acted); took > 5*time.Second {
		t.Errorf("evicted %v after the disk ran short", took)
	}
	undisturbed()
	var taint v1.Taint
	b.awaitNode(t, "has no taint", func(n *v1.Node) error {
		for _, taint = range n.Spec.Taints {
			if taint.Key == v1.TaintNodeDiskPressure {
				return fmt.Errorf("it has the taint %s", taint.Key)
			}
		}
		return nil
	})
	b.create(t, b.pod("after", work("sleep")))
	b.awaitPod(t, "after", "is ready", ready)
}
