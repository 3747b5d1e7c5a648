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

// comparison are rounds with something that should not matter, each between two without.
type comparison struct{ without, with []comeAndGo }

// turns has pods come and go, without something, with it, without it, and so on, until there was enough of it.
func (p *pace) turns(t *testing.T, most, n int, change func(*v1.PodSpec), enough func(comparison) bool, begin, end func(turn int)) (c comparison) {
	t.Helper()
	c.without = append(c.without, p.round(t, "without-0", n, change))
	for i := range most {
		begin(i)
		c.with = append(c.with, p.round(t, fmt.Sprint("with-", i), n, change))
		end(i)
		c.without = append(c.without, p.round(t, fmt.Sprint("without-", i+1), n, change))
		t.Logf("turn %d: with it %v; without it %v, %v", i, c.with[i], c.without[i], c.without[i+1])
		if enough(c) {
			break
		}
	}
	return c
}

// ratios are of each turn, compared with the rounds before and after it. allow is left out of what was measured with it.
func (c comparison) ratios(of func(comeAndGo) time.Duration, allow time.Duration) (all []float64) {
	for i, with := range c.with {
		usual := (of(c.without[i]) + of(c.without[i+1])) / 2
		all = append(all, (of(with)-allow).Seconds()/usual.Seconds())
	}
	return all
}

// least is the smallest ratio of any turn: what takes a share longer does so in each turn, other work of the machine only
// in some.
func (c comparison) least(of func(comeAndGo) time.Duration, allow time.Duration) float64 {
	return slices.Min(c.ratios(of, allow))
}

// middle is the median ratio, for many turns.
func (c comparison) middle(of func(comeAndGo) time.Duration) float64 {
	all := slices.Sorted(slices.Values(c.ratios(of, 0)))
	return all[len(all)/2]
}

func starts(c comeAndGo) time.Duration { return c.start }
func stops(c comeAndGo) time.Duration  { return c.stop }

// check fails a test if pods took longer than limit allows in all turns.
func (c comparison) check(t *testing.T, limit float64, allow time.Duration) {
	t.Helper()
	t.Logf("the least ratios: starts %.2f, stops %.2f", c.least(starts, 0), c.least(stops, 0))
	if r := c.least(starts, allow); r > limit {
		t.Errorf("in each turn, other pods took longer to start, at least %.2f × the usual and %v; want %.2f", r, allow, limit)
	}
	if r := c.least(stops, allow); r > limit {
		t.Errorf("in each turn, other pods took longer to stop, at least %.2f × the usual and %v; want %.2f", r, allow, limit)
	}
}
