package cluster

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/troupe-dev/troupe/tests/e2e/lab"
)

// pace tells how long pods of a namespace take to become ready and to go, as a watch sees it.
type pace struct {
	bed   *bed
	mu    sync.Mutex
	ready map[string]time.Time
	gone  map[string]time.Time
	ended bool // the watch has, for whatever reason
}

// paced begins to watch.
func (b *bed) paced(t *testing.T) *pace {
	t.Helper()
	p := &pace{bed: b, ready: map[string]time.Time{}, gone: map[string]time.Time{}}
	list, err := b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.admin.CoreV1().Pods(b.name).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			p.see(e)
		}
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
	}()
	return p
}

func (p *pace) see(e watch.Event) {
	now := time.Now()
	pod, is := e.Object.(*v1.Pod)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !is:
	case e.Type == watch.Deleted:
		p.gone[pod.Name] = now
	case p.ready[pod.Name].IsZero() && ready(pod) == nil:
		p.ready[pod.Name] = now
	}
}

// await waits until something was seen of all pods, and says how long after it was asked for.
func (p *pace) await(t *testing.T, what string, seen map[string]time.Time, asked map[string]time.Time) (took []time.Duration) {
	t.Helper()
	p.bed.await(t, "all pods are "+what, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		took = nil
		for name, at := range asked {
			if seen[name].IsZero() {
				return errors.Join(fmt.Errorf("pod %s is not", name), p.over())
			}
			took = append(took, seen[name].Sub(at))
		}
		return nil
	})
	return took
}

func (p *pace) over() error {
	if p.ended {
		return errors.New("the watch of pods has ended")
	}
	return nil
}

// comeAndGo are medians of pods that started, and were deleted, all at once.
type comeAndGo struct{ start, stop time.Duration }

func (c comeAndGo) String() string {
	return fmt.Sprintf("starts take %v, stops %v", c.start.Round(time.Millisecond), c.stop.Round(time.Millisecond))
}

// round has n pods come and go.
func (p *pace) round(t *testing.T, prefix string, n int, change func(*v1.PodSpec)) comeAndGo {
	t.Helper()
	created, deleted := map[string]time.Time{}, map[string]time.Time{}
	for i := range n {
		name := fmt.Sprintf("%s-%02d", prefix, i)
		created[name] = time.Now()
		p.bed.create(t, p.bed.pod(name, change))
	}
	started := p.await(t, "ready", p.ready, created)
	for name := range created {
		deleted[name] = time.Now()
		p.bed.remove(t, name)
	}
	ended := p.await(t, "gone", p.gone, deleted)
	return comeAndGo{lab.Median(started), lab.Median(ended)}
}

// wait is what is too long beside something that should not matter. It is no measurement, as other tests run beside it: a
// pod that waited for a call that hangs would wait for its deadline, which is two minutes.
func (c comeAndGo) wait() comeAndGo {
	return comeAndGo{2*c.start + 10*time.Second, 2*c.stop + 10*time.Second}
}

// over fails a test if pods beside something took too long.
func (c comeAndGo) over(t *testing.T, beside string, alone comeAndGo) {
	t.Helper()
	t.Logf("beside %s %v; without it %v", beside, c, alone)
	if most := alone.wait(); c.start > most.start || c.stop > most.stop {
		t.Errorf("beside %s, of other pods %v; want at most %v", beside, c, most)
	}
}
