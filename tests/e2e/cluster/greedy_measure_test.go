package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/tests/check"
	"github.com/troupe-dev/troupe/tests/e2e/lab"
	"github.com/troupe-dev/troupe/tests/e2e/node"
)

// inCgroup makes a program that is another one, started in a cgroup.
func inCgroup(t *testing.T, binary, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	text := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", dir, binary)
	check.Fatal(t, os.WriteFile(file, []byte(text), 0o755)) //nolint:gosec // a program
	return file
}

// limitedCgroup is a memory cgroup (v1) with a limit.
func limitedCgroup(t *testing.T, name string, bytes int64) string {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/memory", name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no cgroup v1 for memory: %v", err)
	}
	t.Cleanup(func() {
		check.Error(t, lab.Eventually(context.Background(), patience, "the cgroup is gone", func() error { return os.Remove(dir) }))
	})
	check.Fatal(t, os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.FormatInt(bytes, 10)), 0o644))
	return dir
}

// starts is how long plain pods took to be ready.
type starts []time.Duration

func (s starts) at(part float64) time.Duration {
	return slices.Sorted(slices.Values(s))[int(part*float64(len(s)-1))].Round(10 * time.Millisecond)
}

// ratio is how much longer the median took than that of others.
func (s starts) ratio(others starts) float64 { return s.at(0.5).Seconds() / others.at(0.5).Seconds() }

func (s starts) String() string { return fmt.Sprintf("%v | %v", s.at(0.5), s.at(0.9)) }

// plainPods starts a pod each second.
func (p *pace) plainPods(t *testing.T, prefix string, n int) starts {
	t.Helper()
	asked := map[string]time.Time{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := range n {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		asked[name] = time.Now()
		p.bed.create(t, p.bed.pod(name, work("sleep")))
		<-tick.C
	}
	took := p.await(t, "ready", p.ready, asked)
	for name := range asked {
		p.bed.remove(t, name)
	}
	return took
}

// TestGreedyPods prints how long plain pods take to start beside a pod that takes as much of the agent as it can, and how
// much memory the agent has then. The table is in docs/benchmarks.md.
//
//tier:all a measure, run with TROUPE_MEASURE
func TestGreedyPods(t *testing.T) {
	lab.Asked(t, "TROUPE_MEASURE", "it measures, and its bars are for a machine that does nothing else")
	lab.Need(t, lab.MountNFS)
	const limit = 128 << 20
	for i, a := range greedyAttacks(t) {
		for _, limited := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/limited=%v", i, limited), func(t *testing.T) {
				name := fmt.Sprintf("greedy-%d-%v", i, limited)
				b := newBed(t, name, onServed, callable(t), func(s *setup) {
					s.plain = true
					if limited {
						s.cgroup = limitedCgroup(t, name, limit)
					}
				})
				b.start(t)
				b.awaitNode(t, "is ready for pods", usable)
				b.measure(t, a, limited)
			})
		}
	}
}

// begin makes what an attack needs, and its pods.
func (b *bed) begin(t *testing.T, prefix string, a attack) (names []string) {
	t.Helper()
	if a.prepare != nil {
		a.prepare(t, b)
	}
	for i := range max(a.pods, 1) {
		names = append(names, fmt.Sprint(prefix, "-", i))
		b.create(t, b.pod(names[i], a.change))
	}
	return names
}

// endAll removes pods, and waits until they are gone.
func (b *bed) endAll(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		b.remove(t, name)
	}
	for _, name := range names {
		b.awaitGone(t, name)
	}
}

// measure runs plain pods alone, and beside the attack.
func (b *bed) measure(t *testing.T, a attack, limited bool) {
	t.Helper()
	const pods = 10
	pid, p := b.PID(), b.paced(t)
	alone := p.plainPods(t, "alone", pods)
	before, heap := b.taken(t), b.held(t)
	stop := b.sample(t)
	names := b.begin(t, "greedy", a)
	beside := p.plainPods(t, "beside", pods)
	for _, name := range names {
		b.await(t, "the agent has done with "+name, func() error {
			if limited && a.refused != "" {
				return b.said(t, name, a.refused)
			}
			return a.over(b.get(t, name))
		})
	}
	peak, held := stop(), b.held(t)
	b.endAll(t, names)
	var after memory
	b.await(t, "the agent needs less again", func() error {
		after = b.taken(t)
		return check.That(after.resident < before.resident+mostGreed, "%d MiB", after.resident>>20)
	})
	t.Logf("\n| %s | %v | %v | %.2f | %v, %v, %v | %d → %d |", a.name, alone, beside, beside.ratio(alone),
		before, peak, after, heap>>20, held>>20)
	if b.PID() != pid || b.Exit() != nil {
		t.Errorf("the agent has ended: %v", b.Exit())
	}
	check.AtMost(t, beside.at(0.9), alone.at(0.9)+2*time.Second, "the start of nine of ten plain pods")
	check.AtMost(t, peak.resident, before.resident+mostGreed, "the agent's memory")
}

// mostGreed is how much memory a greedy pod may make the agent take.
const mostGreed = 64 << 20

// TestGreedyPodsAgentKilled kills the agent three times while it has all greedy pods: as soon as it knows them, while
// plain pods start, and as soon as it is back. Then all comes to what it comes to anyhow, and plain pods start.
//
//tier:all size: all greedy pods at once
func TestGreedyPodsAgentKilled(t *testing.T) {
	lab.Need(t, lab.MountNFS)
	// A kernel starts no program with arguments and variables that are this long.
	b := newBed(t, "greedy-killed", func(s *setup) { s.served, s.plain = true, true })
	b.start(t)
	b.awaitNode(t, "is ready for pods", usable)
	all := greedyAttacks(t)
	names := make([][]string, len(all))
	for i, a := range all {
		names[i] = b.begin(t, fmt.Sprint("greedy-", i), a)
	}
	b.await(t, "the agent knows the pods", func() error {
		view := check.Must(b.Pods(t.Context()))
		for _, name := range slices.Concat(names...) {
			if !slices.ContainsFunc(view.Pods, func(p node.Pod) bool { return p.Name == name }) {
				return errors.New("it does not know " + name)
			}
		}
		return nil
	})
	for _, plain := range []string{"", "plain-0", ""} {
		if plain != "" {
			b.create(t, b.pod(plain, work("sleep")))
			b.awaitPod(t, plain, "is ready", ready)
			b.create(t, b.pod("later-"+plain, work("sleep")))
		}
		b.kill(t)
		b.start(t)
	}
	for _, name := range []string{"plain-0", "later-plain-0"} {
		p := b.awaitPod(t, name, "is ready", ready)
		check.Count(t, p.Status.ContainerStatuses[0].RestartCount, 0, name+" was restarted %d times")
	}
	for i, a := range all {
		for _, name := range names[i] {
			b.awaitPod(t, name, "is as far as it gets", a.over)
		}
	}
	b.endAll(t, slices.Concat(names...))
	check.Error(t, b.Exit())
}

// held is what is in use on the agent's heap, without garbage, and without what a sync.Pool has, which the second
// collection takes.
func (b *bed) held(t *testing.T) int64 {
	t.Helper()
	b.collected(t)
	return b.collected(t)
}

// collected is what is in use on the agent's heap after a collection.
func (b *bed) collected(t *testing.T) (bytes int64) {
	t.Helper()
	client, at := b.client(t)
	answer := check.Value(client.Get(at + "/debug/pprof/heap?gc=1&debug=1"))(t)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if n, _ := fmt.Sscanf(lines.Text(), "# HeapAlloc = %d", &bytes); n == 1 { //nolint:errcheck // the count says it
			return bytes
		}
	}
	t.Fatalf("the agent does not say what is on its heap: %s", answer.Status)
	return 0
}

// memory is how much of it a process has, in bytes: resident, and what of that are files, which is its program.
type memory struct{ resident, files int64 }

func (m memory) String() string { return fmt.Sprintf("%d (%d)", m.resident>>20, m.files>>20) }

// taken is the agent's.
func (b *bed) taken(t *testing.T) memory {
	t.Helper()
	return memory{b.memory(t, "VmRSS"), b.memory(t, "RssFile")}
}

// sample notes the memory of the agent until it is stopped; it gives the most.
func (b *bed) sample(t *testing.T) (stop func() memory) {
	t.Helper()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	var most memory
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if m := b.taken(t); m.resident > most.resident {
				most = m
			}
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	stop = sync.OnceValue(func() memory {
		close(ended)
		wg.Wait()
		return most
	})
	t.Cleanup(func() { stop() })
	return stop
}

// said is nil when an event of a pod has these words.
func (b *bed) said(t *testing.T, pod, words string) error {
	t.Helper()
	list, err := b.admin.CoreV1().Events(b.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		return err
	}
	var texts []string
	for i := range list.Items {
		if text := list.Items[i].Message; strings.Contains(text, words) {
			return nil
		} else {
			texts = append(texts, text)
		}
	}
	return errors.New("no event says that; there are: " + strings.Join(texts, "; "))
}
