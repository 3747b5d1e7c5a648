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

// measure runs plain pods alone, and beside the attack.
func (b *bed) measure(t *testing.T, a attack, limited bool) {
	t.Helper()
	const pods = 10
	if a.prepare != nil {
		a.prepare(t, b)
	}
	pid, p := b.PID(), b.paced(t)
	alone := p.plainPods(t, "alone", pods)
	before, heap := b.resident(t), b.held(t)
	stop := b.sample(t)
	names := make([]string, max(a.pods, 1))
	for i := range names {
		names[i] = fmt.Sprint("greedy-", i)
		b.create(t, b.pod(names[i], a.change))
	}
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
	for _, name := range names {
		b.remove(t, name)
	}
	for _, name := range names {
		b.awaitGone(t, name)
	}
	b.await(t, "the agent needs less again", func() error {
		return check.That(b.resident(t) < before+64<<20, "%d MiB", b.resident(t)>>20)
	})
	mib := func(bytes int64) int64 { return bytes >> 20 }
	t.Logf("\n| %s | %v | %v | %d | %d | %d | %d → %d |", a.name, alone, beside, mib(before), mib(peak), mib(b.resident(t)),
		mib(heap), mib(held))
	if b.PID() != pid || b.Exit() != nil {
		t.Errorf("the agent has ended: %v", b.Exit())
	}
	check.AtMost(t, beside.at(0.9), alone.at(0.9)+2*time.Second, "the start of nine of ten plain pods")
}

// held is what is in use on the agent's heap, without garbage.
func (b *bed) held(t *testing.T) (bytes int64) {
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

// sample notes the memory of the agent until it is stopped; it gives the most.
func (b *bed) sample(t *testing.T) (stop func() int64) {
	t.Helper()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	var most int64
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, b.resident(t))
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceValue(func() int64 {
		close(ended)
		wg.Wait()
		return most
	})
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
