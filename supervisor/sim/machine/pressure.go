package machine

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/eviction"
	"github.com/troupe-dev/troupe/actors/decide/observed"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/simport"
)

// Capacity is what a machine has, in bytes. What is zero is unknown, but for ImageFS: zero means that images and
// writable layers are on NodeFS.
type Capacity struct{ Memory, NodeFS, ImageFS uint64 }

// Growth is a use that grows while a container runs: from Bytes, by Rate bytes per second, up to Max. A Max
// below Bytes counts as Bytes.
type Growth struct{ Bytes, Rate, Max uint64 }

// Use is what a container uses. Memory is free when it ends, a writable layer and logs when it is removed. Volumes are
// what it writes to volumes of its pod, which is free when they are unmounted.
type Use struct{ Memory, Layer, Logs, Volumes Growth }

// taken is what an incarnation of a container uses, and how fast its memory may grow.
type taken struct{ memory, layer, logs, volumes, rate uint64 }

func (t *taken) add(o taken) {
	t.memory, t.layer, t.logs = t.memory+o.memory, t.layer+o.layer, t.logs+o.logs
	t.volumes, t.rate = t.volumes+o.volumes, t.rate+o.rate
}

// Pressure measures a machine on which containers use what SetUse says. Inodes and processes are unknown.
type Pressure struct {
	Calls
	// Truth says what the runtime has: inspected pods, and images. Set before the first call.
	Truth func() (observed.Runtime, []observed.Image)
	// Mounted says whether volumes of a pod are mounted. Set before the first call; nil for always.
	Mounted func(uid types.UID) bool
	// NoNotices: the kernel can't say when memory runs short.
	NoNotices bool
	// Measured counts the measurements of pods.
	Measured int

	capacity Capacity
	uses     map[user]use
}

// user is a container of a pod.
type user struct{ namespace, pod, container string }

// use is what a container uses since an instant, or its start if that is later.
type use struct {
	Use
	since time.Time
}

var _ port.Pressure = (*Pressure)(nil)

func newPressure(clock simport.Clock) *Pressure {
	return &Pressure{Calls: Calls{clock: clock}, uses: map[user]use{}}
}

// SetCapacity replaces what the machine has.
func (p *Pressure) SetCapacity(c Capacity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = c
}

// SetUse says what a container uses from now on, or from its next start if it does not run.
func (p *Pressure) SetUse(namespace, pod, container string, u Use) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uses[user{namespace, pod, container}] = use{u, p.clock.Now()}
}

// at is the use after a time.
func (g Growth) at(d time.Duration) uint64 {
	return min(g.Bytes+uint64(float64(g.Rate)*max(d, 0).Seconds()), max(g.Bytes, g.Max))
}

func (p *Pressure) of(c *observed.Container) (t taken) {
	u, is := p.uses[user{c.Pod.Namespace, c.Pod.Name, c.Name}]
	if !is || c.StartedAt.IsZero() {
		return t
	}
	since, until := u.since, p.clock.Now()
	if c.StartedAt.After(since) {
		since = c.StartedAt
	}
	if c.State == observed.ContainerRunning {
		t.memory, t.rate = u.Memory.at(until.Sub(since)), u.Memory.Rate
	} else {
		until = c.FinishedAt
	}
	d := until.Sub(since)
	t.layer, t.logs = u.Layer.at(d), u.Logs.at(d)
	if p.Mounted == nil || p.Mounted(c.Pod.UID) {
		t.volumes = u.Volumes.at(d)
	}
	return t
}

// all adds up what all containers use.
func (p *Pressure) all(seen *observed.Runtime) (t taken) {
	for i := range seen.Pods {
		for j := range seen.Pods[i].Containers {
			t.add(p.of(&seen.Pods[i].Containers[j]))
		}
	}
	return t
}

func left(capacity, used uint64) eviction.Left {
	return eviction.Left{Available: capacity - min(used, capacity), Capacity: capacity, Known: capacity > 0}
}

func disk(device string, capacity, used uint64) eviction.Disk {
	if capacity == 0 {
		return eviction.Disk{}
	}
	return eviction.Disk{Device: device, Bytes: left(capacity, used)}
}

// Left implements port.Pressure.
func (p *Pressure) Left(ctx context.Context, done func(eviction.Reading, error)) {
	var r eviction.Reading
	p.do(ctx, Call{Verb: "MeasureNode"}, hostLatency, func(err error) { done(r, err) }, func() error {
		r = p.read()
		return nil
	})
}

// Read is what is left now, without a call.
func (p *Pressure) Read() eviction.Reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read()
}

func (p *Pressure) read() eviction.Reading {
	seen, images := p.Truth()
	t := p.all(&seen)
	for i := range images {
		t.layer += images[i].SizeBytes
	}
	onNode := t.logs + t.volumes
	c := p.capacity
	r := eviction.Reading{At: p.clock.Now(), Memory: left(c.Memory, t.memory)}
	if c.ImageFS == 0 {
		r.NodeFS = disk("nodefs", c.NodeFS, t.layer+onNode)
		r.ImageFS = r.NodeFS
	} else {
		r.NodeFS, r.ImageFS = disk("nodefs", c.NodeFS, onNode), disk("imagefs", c.ImageFS, t.layer)
	}
	r.LogFS = r.NodeFS // and the runtime does not say where layers are, as containerd
	return r
}

// Use implements port.Pressure.
func (p *Pressure) Use(ctx context.Context, pods []*v1.Pod, want port.PodUse, done func([]eviction.Use, error)) {
	uses := make([]eviction.Use, len(pods))
	p.do(ctx, Call{Verb: "MeasurePods"}, hostLatency, func(err error) { done(uses, err) }, func() error {
		p.Measured++
		seen, _ := p.Truth()
		of := map[types.UID]*observed.RuntimePod{}
		for i := range seen.Pods {
			of[seen.Pods[i].Ref.UID] = &seen.Pods[i]
		}
		for i, pod := range pods {
			uses[i].UID = pod.UID
			if o := of[pod.UID]; o != nil {
				p.usePod(o, want, &uses[i])
			}
		}
		return nil
	})
}

// usePod adds up what a pod uses: older incarnations count for the container of their name.
func (p *Pressure) usePod(o *observed.RuntimePod, want port.PodUse, u *eviction.Use) {
	at := map[string]int{}
	for i := range o.Containers {
		c := &o.Containers[i]
		t := p.of(c)
		n, is := at[c.Name]
		if !is {
			n = len(u.Containers)
			at[c.Name] = n
			u.Containers = append(u.Containers, eviction.ContainerUse{Name: c.Name})
		}
		if want.Memory {
			u.Memory += t.memory
			u.Containers[n].Memory += t.memory
		}
		if want.Disk {
			u.Containers[n].Layer.Bytes += t.layer
			u.Containers[n].Logs.Bytes += t.logs
			u.Other.Bytes += t.volumes
		}
	}
}

// How often the simulated kernel looks whether memory runs short: at the instant in which it may, but within these.
const (
	soonestNotice = time.Millisecond
	latestNotice  = time.Second
)

// WatchMemory implements port.Pressure. A notice of a use that begins by itself may be a second late.
func (p *Pressure) WatchMemory(ctx context.Context, threshold uint64, done func(error)) {
	p.do(ctx, Call{Verb: "WatchMemory"}, hostLatency, func(err error) {
		if err != nil {
			done(err)
			return
		}
		p.watch(ctx, threshold, done)
	}, func() error {
		if p.NoNotices {
			return &port.Error{Kind: port.Unsupported, Verb: "WatchMemory", Detail: "the simulated kernel gives no notices"}
		}
		return nil
	})
}

func (p *Pressure) watch(ctx context.Context, threshold uint64, done func(error)) {
	if ctx.Err() != nil {
		done(&port.Error{Kind: port.Canceled, Verb: "WatchMemory", Detail: "the caller gave up"})
		return
	}
	p.mu.Lock()
	seen, _ := p.Truth()
	t := p.all(&seen)
	available := left(p.capacity.Memory, t.memory).Available
	p.mu.Unlock()
	if available < threshold {
		done(nil)
		return
	}
	next := latestNotice
	if t.rate > 0 {
		seconds := float64(available-threshold) / float64(t.rate)
		next = min(next, max(soonestNotice, time.Duration(min(seconds, 1)*float64(time.Second))))
	}
	p.clock.AfterFunc(next, func() { p.watch(ctx, threshold, done) })
}
