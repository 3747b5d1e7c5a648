package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
	"github.com/troupe-dev/troupe/tests/e2e/shortage"
)

const mib = shortage.MiB

// sample reads a number until the test ends.
func sample(t *testing.T, level int64, read func() (int64, error)) *shortage.Level {
	l := shortage.Watch(level, read)
	t.Cleanup(l.Stop)
	return l
}

// evictedAt waits for the agent's event of an eviction, and returns when it was there.
func (b *bed) evictedAt(t *testing.T, name string) time.Time {
	t.Helper()
	b.await(t, "pod "+name+" is being evicted", func() error {
		events := check.Must(b.EventsOf(t.Context(), b.name+"/"+name))
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

// annotatedEvicted waits until the apiserver has the event of an eviction for a shortage of the node, and compares its
// annotations with the message of the pod's status: both say how much which containers used.
func (b *bed) annotatedEvicted(t *testing.T, p *v1.Pod, starved string) {
	t.Helper()
	var annotations map[string]string
	b.await(t, "the apiserver has the event Evicted of pod "+p.Name, func() error {
		list := check.Must(b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{
			FieldSelector: "reason=Evicted,involvedObject.name=" + p.Name,
		}))
		if len(list.Items) == 0 {
			return errors.New("there is none")
		}
		annotations = list.Items[0].Annotations
		return nil
	})
	var names, used []string
	for part := range strings.SplitSeq(p.Status.Message, ". ") {
		if name, rest, is := strings.Cut(strings.TrimPrefix(part, "Container "), " was using "); is {
			amount, _, _ := strings.Cut(rest, ", ")
			names, used = append(names, name), append(used, amount)
		}
	}
	want := map[string]string{
		"starved_resource":           starved,
		"offending_containers":       strings.Join(names, ","),
		"offending_containers_usage": strings.Join(used, ","),
	}
	if !maps.Equal(annotations, want) {
		t.Errorf("pod %s: the event Evicted has the annotations %v, want %v; the status says %q", p.Name, annotations, want,
			p.Status.Message)
	}
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
		c := condition(n, kind)
		return check.That(c.Status == want, "%s is %s: %s", kind, c.Status, c.Message)
	}
}

// tainted is nil if a node has the taint for a disk that is short, or has it not.
func tainted(want bool) func(*v1.Node) error {
	return func(n *v1.Node) error {
		has := slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeDiskPressure })
		if has != want {
			return fmt.Errorf("its taints are %v", n.Spec.Taints)
		}
		return nil
	}
}

func changes(list ...func(*v1.PodSpec)) func(*v1.PodSpec) {
	return func(s *v1.PodSpec) {
		for _, c := range list {
			c(s)
		}
	}
}

// TestMemoryHog: of several pods on a node one takes all memory. It is evicted before the kernel's OOM killer
// chooses anybody, and the others do not notice.
//
//tier:real
func TestMemoryHog(t *testing.T) {
	t.Parallel()
	const quick = 5 * time.Second // much more than it takes: see what is logged
	anonymous := work(shortage.Hog)
	shared := changes(work("fill /v/f 150"), shortage.InVolume(v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}))
	for _, c := range []struct {
		name string
		hog  func(*v1.PodSpec)
		// notices: the kernel is asked to tell when memory runs short. Otherwise only looks find that.
		notices bool
		// reserved: the node has less memory for pods as the rest is reserved, not as its own cgroup is limited.
		reserved bool
		// others is how many pods run beside it.
		others int
	}{
		{"noticed", anonymous, true, false, 8},
		{"measured", anonymous, false, false, 4},
		{"volume", shared, true, false, 4},
		{"reserved", anonymous, true, true, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			reserved := "100Mi"
			if c.reserved {
				reserved = check.Value(shortage.Reserved())(t)
			}
			port := check.Value(lab.FreePort())(t)
			b := newBed(t, "memory-hog-"+c.name, func(s *setup) {
				s.agent.Settings = shortage.MemorySettings(reserved) + fmt.Sprintf("readOnlyPort: %d\n", port)
				if !c.notices {
					s.agent.Settings += "kernelMemcgNotification: false\n"
				}
			})
			group := b.lab.CgroupRoot()
			if !c.reserved {
				check.Fatal(t, shortage.LimitMemory(group))
			}
			b.start(t)
			b.awaitNode(t, "is ready for pods", usable)
			undisturbed := b.bystanders(t, c.others)

			// The agent may end the hog between two looks: so they count from a little below the threshold.
			level := int64(shortage.MemoryLimit - shortage.MemoryThreshold - 32*mib)
			memory := sample(t, level, func() (int64, error) { return shortage.Taken(group) })
			before := notices(t, port)
			b.create(t, b.pod("hog", c.hog))
			acted := b.evictedAt(t, "hog")
			if n := notices(t, port) - before; (n > 0) != c.notices && (!c.notices || noticesEarly()) {
				t.Errorf("the kernel gave notice %d times before the eviction; it was asked to: %v", n, c.notices)
			}
			b.awaitNode(t, "is short of memory", pressed(v1.NodeMemoryPressure, v1.ConditionTrue))
			shownAt := time.Now()
			hog := b.awaitEvicted(t, "hog", fmt.Sprintf("The node was low on resource: memory. Threshold quantity: %dMi, available: ", shortage.MemoryThreshold/mib))
			failed := time.Now()
			check.Has(t, hog.Status.Message, "Container app was using ", "pod hog: its message does not say how much it used")
			b.annotatedEvicted(t, hog, "memory")
			b.await(t, "its memory is free again", func() error {
				if seen := memory.Seen(); seen.Relieved.IsZero() {
					return fmt.Errorf("peak %d MiB", seen.Peak/mib)
				}
				return nil
			})
			b.awaitNode(t, "has enough memory", pressed(v1.NodeMemoryPressure, v1.ConditionFalse))
			seen := memory.Seen()
			since := func(at time.Time) time.Duration { return at.Sub(seen.Crossed).Round(time.Millisecond) }
			t.Logf("after little more than %d MiB were left: evicting %v, peak %v (%d MiB of %d), enough is free %v, "+
				"the node shows it %v, the pod has failed %v", shortage.MemoryThreshold/mib, since(acted), since(seen.Peaked),
				seen.Peak/mib, shortage.MemoryLimit/mib, since(seen.Relieved), since(shownAt), since(failed))
			if took := since(acted); took > quick {
				t.Errorf("evicted %v after memory ran short; want at most %v", took, quick)
			}
			undisturbed()
		})
	}
}

// notices is how often the kernel has told an agent that memory may run short.
func notices(t *testing.T, port int) (n uint64) {
	t.Helper()
	shown := parsed(t, fetch(t, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", port), ""))
	for _, m := range labelled(shown, "troupe_effect_duration_seconds", "kind=WatchMemory") {
		n += m.Histogram.GetSampleCount()
	}
	return n
}

// noticesEarly says whether the kernel tells as soon as memory falls below a threshold: cgroup v2 has memory pressure
// alone, which comes later, and maybe after a look.
func noticesEarly() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err != nil
}

// TestDiskLimits: pods that write more than their limits allow, 100 MiB per second after they have been idle for long,
// are evicted: into a volume, into their log, and into their container's own file system. They exceed their limits by
// what they write until the next look at most, and no other pod is disturbed.
//
//tier:all waits for minutes, and DiskFiller has the eviction
func TestDiskLimits(t *testing.T) {
	t.Parallel()
	b := newBed(t, "disk-limits", func(s *setup) {
		s.agent.Settings = "evictionHard: {memory.available: 100Mi}\ncontainerLogMaxSize: 4Gi\n"
	})
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	undisturbed := b.bystanders(t, 1)
	const (
		most = 50 * mib
		rate = 100
		// rest is longer than a new pod is counted at each look.
		rest = 45 * time.Second
		// look is the time between looks, and its own on a busy machine (docs/invariants.md, I31). layers is that
		// between the runtime's counts of writable layers.
		look, layers = 15 * time.Second, 10 * time.Second
	)
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
	cases := []struct {
		name    string
		change  func(*v1.PodSpec)
		message string
		bound   time.Duration
		size    func(pid int, p *v1.Pod) (int64, error)
	}{
		{
			"volume", changes(work(fmt.Sprintf("sleep %v then fill /v/f %d", rest, rate)), shortage.InVolume(v1.EmptyDirVolumeSource{SizeLimit: &quantity})),
			`Usage of EmptyDir volume "v" exceeds the limit "50Mi". `, look,
			func(pid int, p *v1.Pod) (int64, error) { return inside(pid, p, "v/f") },
		},
		{
			"log", changes(work(fmt.Sprintf("sleep %v then flood %d", rest, rate)), limited), limit, look,
			func(_ int, p *v1.Pod) (int64, error) {
				info, err := os.Stat(filepath.Join(b.Logs(), p.Namespace+"_"+p.Name+"_"+string(p.UID), "app/0.log"))
				if err != nil {
					return 0, err
				}
				return info.Size(), nil
			},
		},
		{
			"layer", changes(work(fmt.Sprintf("sleep %v then fill /f %d", rest, rate)), limited), limit, look + layers,
			func(pid int, p *v1.Pod) (int64, error) { return inside(pid, p, "f") },
		},
	}
	t.Run("at once", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				b.create(t, b.pod(c.name, c.change))
				p := b.awaitPod(t, c.name, "runs", phase(v1.PodRunning))
				pid := check.Value(b.containerPID(t, p))(t)
				disk := sample(t, most, func() (int64, error) { return c.size(pid, p) })
				b.await(t, "pod "+c.name+" is over its limit", func() error {
					if disk.Seen().Crossed.IsZero() {
						return fmt.Errorf("it has %d MiB", disk.Seen().Peak/mib)
					}
					return nil
				})
				acted := b.evictedAt(t, c.name)
				b.awaitEvicted(t, c.name, c.message)
				seen := disk.Seen()
				wrote := seen.Peaked.Sub(seen.Crossed)
				t.Logf("evicting %v after it was over its limit of %d MiB; it had %d MiB when it was stopped, %v after that, "+
					"and wrote %.0f MiB per second", acted.Sub(seen.Crossed).Round(10*time.Millisecond), int64(most/mib), seen.Peak/mib,
					wrote.Round(10*time.Millisecond), float64(seen.Peak-most)/mib/wrote.Seconds())
				if took := acted.Sub(seen.Crossed); took > c.bound {
					t.Errorf("evicted %v after it was over its limit; want at most %v", took, c.bound)
				}
				// It has a second to end.
				if bound := most + rate*mib*int64((c.bound+time.Second)/time.Second); seen.Peak > bound {
					t.Errorf("it had %d MiB; want at most %d", seen.Peak/mib, bound/mib)
				}
			})
		}
	})
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
// the pressure until it is over. The controller manager taints the node for as long.
//
//tier:real
func TestDiskFiller(t *testing.T) {
	t.Parallel()
	b := newBed(t, "disk-filler", func(s *setup) { s.agent.Settings = shortage.DiskSettings() })
	check.Fatal(t, shortage.SmallDisk(b.Root()))
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	undisturbed := b.bystanders(t, 3)

	disk := sample(t, shortage.DiskLevel, func() (int64, error) { return shortage.DiskUsed(b.Root()) })
	b.create(t, b.pod("filler", changes(work(shortage.Fill), shortage.InVolume(v1.EmptyDirVolumeSource{}))))
	acted := b.evictedAt(t, "filler")
	b.awaitNode(t, "is short of disk", pressed(v1.NodeDiskPressure, v1.ConditionTrue))
	shownAt := time.Now()
	b.awaitNode(t, "has the taint that keeps pods away", tainted(true))
	taintedAt := time.Now()
	filler := b.awaitEvicted(t, "filler", "The node was low on resource: ephemeral-storage. Threshold quantity: ")
	failed := time.Now()
	b.annotatedEvicted(t, filler, "ephemeral-storage")
	b.awaitNode(t, "has enough disk", pressed(v1.NodeDiskPressure, v1.ConditionFalse))
	clear := time.Now()
	seen := disk.Seen()
	if seen.Crossed.IsZero() || seen.Relieved.IsZero() {
		t.Fatalf("less than %d %% were left at %v, enough again at %v", shortage.DiskShare, seen.Crossed, seen.Relieved)
	}
	since := func(at time.Time) time.Duration { return at.Sub(seen.Crossed).Round(10 * time.Millisecond) }
	t.Logf("after less than %d %% were left: evicting %v, the node shows it %v, it has the taint %v, enough is free %v, "+
		"the pod has failed %v, the node shows no more %v; %d MiB of %d were in use", shortage.DiskShare, since(acted),
		since(shownAt), since(taintedAt), since(seen.Relieved), since(failed), since(clear), seen.Peak/mib, shortage.DiskSize)
	if took := since(acted); took > 5*time.Second {
		t.Errorf("evicted %v after the disk ran short", took)
	}
	undisturbed()
	b.awaitNode(t, "has no taint", tainted(false))
	b.create(t, b.pod("after", work("sleep")))
	b.awaitPod(t, "after", "is ready", ready)
}
