package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/troupe-dev/troupe/tests/check"
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
	list := check.Value(b.admin.CoreV1().Pods(b.name).List(t.Context(), metav1.ListOptions{}))(t)
	// The apiserver ends the watch of a client that is slow, as one is beside many tests.
	w := check.Value(watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: b.admin.CoreV1().Pods(b.name).Watch,
	}))(t)
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
	return check.That(!p.ended, "the watch of pods has ended")
}

// comeAndGo is how long three quarters of some pods took to start, and to stop, at most.
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
	return comeAndGo{most(started), most(ended)}
}

// most is what three quarters of them took at most; of two or three, all.
func most(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[(3*len(all)-1)/4]
}

// wait is how much longer than usual pods may take beside something bad. A pod that waits for a call that hangs waits for its
// deadline, which is two minutes. Shorter delays are not measured here, as other tests run at the same time.
const wait = time.Minute

// within fails a test if pods took longer than without something bad, by more than other tests can be the reason for.
func (c comeAndGo) within(t *testing.T, alone comeAndGo) {
	t.Helper()
	t.Logf("beside something bad %v; without it %v", c, alone)
	const slack = 10 * time.Second
	if c.start > 2*alone.start+slack || c.stop > 2*alone.stop+slack {
		t.Errorf("beside something bad %v; without it %v", c, alone)
	}
}

// unhindered fails a test if pods took too long beside something bad.
func (c comeAndGo) unhindered(t *testing.T, bad string, alone comeAndGo) {
	t.Helper()
	t.Logf("beside %s %v; without it %v", bad, c, alone)
	if c.start > alone.start+wait || c.stop > alone.stop+wait {
		t.Errorf("beside %s %v; without it %v", bad, c, alone)
	}
}
