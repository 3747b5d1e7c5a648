package live

import (
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/port"
)

// podStats counts what the nodes of this process are told and write.
type podStats struct {
	mu   sync.Mutex
	pods map[types.UID]*podStat
	// starts are how long pods took to be Ready since they were first heard of.
	starts []time.Duration
	// renewed is when each node's lease was, by this process; worst is the longest
	// time between two renewals.
	renewed map[string]time.Time
	worst   time.Duration
	late    int
	crashes int
	// lost are the dropped events.
	lost int
}

// podStat is what is known of one pod.
type podStat struct {
	node     string
	seen     time.Time
	running  bool
	ready    bool
	wasReady bool
	restarts int
}

func newPodStats() *podStats {
	return &podStats{pods: map[types.UID]*podStat{}, renewed: map[string]time.Time{}}
}

// dropped notes that an event could not be written, or had to make room.
func (c *podStats) dropped() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost++
}

// told takes in what a node's watch of its pods tells.
func (c *podStats) told(node string, change port.APIChange, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch change := change.(type) {
	case port.APIReplaced:
		there := map[types.UID]bool{}
		for _, o := range change.Objects {
			there[o.GetUID()] = true
			c.pod(o.(*v1.Pod), now)
		}
		for uid, p := range c.pods { // order-free: each for itself
			if p.node == node && !there[uid] {
				delete(c.pods, uid)
			}
		}
	case port.APISet:
		c.pod(change.Object.(*v1.Pod), now)
	case port.APIDeleted:
		delete(c.pods, change.Object.GetUID())
	case port.APIBroken:
	}
}

func (c *podStats) pod(p *v1.Pod, now time.Time) {
	k := c.pods[p.UID]
	ready := isReady(p)
	if k == nil {
		// One that is ready already was started by another process.
		k = &podStat{node: p.Spec.NodeName, seen: now, wasReady: ready}
		c.pods[p.UID] = k
	}
	k.running, k.ready, k.restarts = p.Status.Phase == v1.PodRunning, ready, 0
	for i := range p.Status.ContainerStatuses {
		k.restarts += int(p.Status.ContainerStatuses[i].RestartCount)
	}
	if ready && !k.wasReady {
		k.wasReady = true
		c.starts = append(c.starts, now.Sub(k.seen))
	}
}

func isReady(p *v1.Pod) bool {
	for i := range p.Status.Conditions {
		if k := &p.Status.Conditions[i]; k.Type == v1.PodReady {
			return k.Status == v1.ConditionTrue
		}
	}
	return false
}

// lease notes that a node's lease was renewed.
func (c *podStats) lease(node string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.renewed[node]; ok {
		gap := now.Sub(before)
		c.worst = max(c.worst, gap)
		if gap > nodeLease {
			c.late++
		}
	}
	c.renewed[node] = now
}

// left forgets a node that another process runs from now on.
func (c *podStats) left(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.renewed, node)
	for uid, p := range c.pods { // order-free: each for itself
		if p.node == node {
			delete(c.pods, uid)
		}
	}
}

func (c *podStats) crashed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crashes++
}

// into writes what was counted into a summary.
func (c *podStats) into(s *Summary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods { // order-free: sums
		s.Pods++
		if p.running {
			s.PodsRunning++
		}
		if p.ready {
			s.PodsReady++
		}
		s.Restarts += p.restarts
	}
	slices.Sort(c.starts)
	at := func(q float64) float64 {
		if len(c.starts) == 0 {
			return 0
		}
		return float64(c.starts[int(q*float64(len(c.starts)-1))]) / float64(time.Millisecond)
	}
	s.Start.P50, s.Start.P90, s.Start.P99 = at(0.5), at(0.9), at(0.99)
	s.LeaseGapSeconds, s.LeasesLate, s.Crashes, s.EventsDropped = c.worst.Seconds(), c.late, c.crashes, c.lost
}
