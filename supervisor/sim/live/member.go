package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
	"github.com/troupe-dev/troupe/supervisor/sim/live/sharing"
)

// member is this process among those that share the nodes. It holds a lease of its
// own, which it renews, and for each slot that it runs the lease of the slot, which
// is written only when it changes hands: a slot's holder is who it says as long as
// the holder's own lease is good.
//
//	joining ──own lease is written──► member ──not renewed in time──► fenced: no node runs
//	                                   │  ▲                              │
//	                                   │  └────── renewed again ─────────┘
//	                                 TERM         (each slot is claimed again)
//	                                   ▼
//	                                leaving: nodes stop, slots are given back, own lease is deleted
//
// What a slot had when it was fenced is kept: if no other process had it meanwhile, its
// machines continue, else they are discarded.
type member struct {
	config *Config
	pool   *pool
	slots  []*slot
	wake   chan struct{}

	mu sync.Mutex
	// leases are those of the simulation by name, as they were told or written last,
	// sights what follows from those of processes.
	leases map[string]*coordinationv1.Lease
	sights map[string]sharing.Sight
	listed bool
	// renewed is when the last renewal that worked was begun; zero before the first.
	renewed time.Time
	fenced  bool
	// term counts the times that it was fenced: what was begun in an earlier one
	// does not count.
	term  int
	stats struct{ claimed, fenced int }
}

// slot is a part of the nodes.
type slot struct {
	index    int
	machines []*simNode
	// running: they run here. Invariant: only if the slot's lease names this process
	// and it is not fenced.
	running bool
	// wrote is the version of the slot's lease that this process wrote last: as long
	// as it is that, no other process had the slot.
	wrote string
}

func newMember(c *Config, p *pool) *member {
	m := &member{
		config: c, pool: p, wake: make(chan struct{}, 1), fenced: true,
		leases: map[string]*coordinationv1.Lease{}, sights: map[string]sharing.Sight{},
	}
	for i := range c.slots() {
		s := &slot{index: i}
		first, end := sharing.Nodes(i, c.slots(), c.Nodes)
		for n := first; n < end; n++ {
			s.machines = append(s.machines, newMachine(p, n))
		}
		m.slots = append(m.slots, s)
	}
	return m
}

func (m *member) processLease() string { return m.config.Name + "-process-" + m.config.Identity }

func (m *member) slotLease(i int) string { return fmt.Sprintf("%s-slot-%02d", m.config.Name, i) }

// join writes this process' lease for the first time. An apiserver that refuses
// refuses the next time as well, and it is better to end at once. A lease that is
// there is a predecessor's of that name, or that of a process that lives: then it
// changes.
func (m *member) join(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, m.config.LeaseDuration)
	defer cancel()
	err := m.writeOwn(call, time.Now())
	switch port.KindOf(err) {
	case port.NotFound, port.Forbidden, port.Invalid, port.Unauthorized, port.Unsupported:
		return err
	case port.AlreadyExists:
	default: // tried again
		return nil
	}
	m.config.Log.Info().Dur("for",
		m.config.LeaseDuration).Msg("a lease of this --identity exists; waiting to see whether its process is alive")
	t := time.NewTimer(m.config.LeaseDuration)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	call, cancel = context.WithTimeout(ctx, m.config.LeaseDuration)
	defer cancel()
	if err := m.writeOwn(call, time.Now()); port.KindOf(err) == port.Conflict {
		return fmt.Errorf("process %s of simulation %s/%s is already running: choose another --identity", m.config.Identity,
			m.config.Namespace, m.config.Name)
	}
	return nil
}

// run holds leases and runs nodes until ctx ends, and then gives all back. before
// is called in between, while the nodes still run.
func (m *member) run(ctx context.Context, before func()) {
	watching, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	m.config.API.Watch(watching, port.Selection{Kind: port.LeaseKind, Namespace: m.config.Namespace}, m.told,
		func(error) { close(ended) })
	var beside sync.WaitGroup
	beside.Go(func() { m.renew(watching) })
	beside.Go(func() { m.guard(watching) })
	for ctx.Err() == nil {
		t := time.NewTimer(m.round())
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-t.C:
		}
		t.Stop()
	}
	before()
	m.mu.Lock()
	plan := sharing.Decide(m.viewLocked(true))
	m.mu.Unlock()
	m.release(plan.Release)
	stop()
	<-ended
	beside.Wait()
	m.leave()
}

// told takes in what the watch of the leases tells.
func (m *member) told(c port.APIChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch c := c.(type) {
	case port.APIReplaced:
		there := map[string]bool{}
		for _, o := range c.Objects {
			there[o.GetName()] = true
			m.seeLocked(o.(*coordinationv1.Lease))
		}
		for name := range m.leases { // order-free: each for itself
			if !there[name] {
				m.goneLocked(name)
			}
		}
		m.listed = true
	case port.APISet:
		m.seeLocked(c.Object.(*coordinationv1.Lease))
	case port.APIDeleted:
		m.goneLocked(c.Object.GetName())
	case port.APIBroken:
		return
	}
	m.wakeUp()
}

func (m *member) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default: // it will wake up anyway
	}
}

func (m *member) seeLocked(l *coordinationv1.Lease) {
	if l.Labels[simulationKey] != m.config.Name {
		return
	}
	if have := m.leases[l.Name]; have != nil && have.UID == l.UID &&
		apipod.Compare(have.ResourceVersion, l.ResourceVersion) >= 0 {
		return
	}
	m.leases[l.Name] = l
	if _, is := l.Labels[slotKey]; !is && l.Spec.HolderIdentity != nil && l.Spec.LeaseDurationSeconds != nil {
		id := *l.Spec.HolderIdentity
		m.sights[id] = m.sights[id].See(l.ResourceVersion,
			time.Duration(*l.Spec.LeaseDurationSeconds)*time.Second, time.Now())
	}
}

func (m *member) goneLocked(name string) {
	l := m.leases[name]
	delete(m.leases, name)
	if l == nil || l.Spec.HolderIdentity == nil {
		return
	}
	if _, is := l.Labels[slotKey]; !is {
		delete(m.sights, *l.Spec.HolderIdentity)
	}
}

// renew keeps the own lease good until ctx ends.
func (m *member) renew(ctx context.Context) {
	every := m.config.LeaseDuration / 5
	failed := false
	for ctx.Err() == nil {
		began := time.Now()
		call, cancel := context.WithTimeout(ctx, m.config.LeaseDuration/2)
		err := m.writeOwn(call, began)
		cancel()
		pause := every - time.Since(began)
		m.mu.Lock()
		switch {
		case err == nil:
			m.renewed = began
			if m.fenced {
				m.fenced = false
				m.wakeUp()
			}
			failed = false
		case ctx.Err() == nil:
			pause = every / 4
			if !failed {
				m.config.Log.Warn().Str("lease", m.processLease()).Str("error",
					err.Error()).Msg("cannot renew the lease of this process; retrying")
			}
			failed = true
		}
		m.mu.Unlock()
		t := time.NewTimer(max(pause, 0))
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// writeOwn writes this process' lease.
func (m *member) writeOwn(ctx context.Context, now time.Time) error {
	m.mu.Lock()
	have := m.leases[m.processLease()]
	m.mu.Unlock()
	seconds, at := int32(m.config.LeaseDuration/time.Second), metav1.NewMicroTime(now)
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: m.config.Namespace, Name: m.processLease(),
			Labels: map[string]string{simulationKey: m.config.Name}, Annotations: map[string]string{shapeKey: m.config.shape()},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &m.config.Identity, LeaseDurationSeconds: &seconds,
			AcquireTime: &at, RenewTime: &at},
	}
	if have != nil {
		l = have.DeepCopy()
		l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = &at, &seconds
	}
	_, err := m.write(ctx, l, have == nil)
	return err
}

// write creates or updates a lease. What the apiserver has instead, if it refuses,
// is read.
func (m *member) write(ctx context.Context, l *coordinationv1.Lease, fresh bool) (version string, err error) {
	got, err := answer.Of(ctx, func(done func(port.APIObject, error)) {
		if fresh {
			m.config.API.Create(ctx, l, done)
		} else {
			m.config.API.Update(ctx, l, done)
		}
	})
	switch kind := port.KindOf(err); {
	case err == nil:
		version = got.GetResourceVersion()
	case kind == port.Conflict, kind == port.AlreadyExists:
		there, e := answer.Of(ctx, func(done func(port.APIObject, error)) { m.config.API.Get(ctx, port.APIKeyOf(l), done) })
		if e != nil {
			return "", err
		}
		got = there
	case kind == port.NotFound: // another client deleted it: it is created again next time
		m.mu.Lock()
		m.goneLocked(l.Name)
		m.mu.Unlock()
		return "", err
	default:
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seeLocked(got.(*coordinationv1.Lease))
	return version, err
}

// guard sees to it, whatever else the process waits for, that no node runs here
// beyond the fence.
func (m *member) guard(ctx context.Context) {
	for {
		m.mu.Lock()
		pause := m.config.LeaseDuration / 5
		if !m.fenced {
			pause = time.Until(sharing.Fence(m.renewed, m.config.LeaseDuration))
		}
		m.mu.Unlock()
		t := time.NewTimer(max(pause, 0))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
			m.fence()
		}
	}
}

// fence stops all nodes if their time is over: others may count this process as
// gone soon.
func (m *member) fence() {
	m.mu.Lock()
	if m.fenced || time.Now().Before(sharing.Fence(m.renewed, m.config.LeaseDuration)) {
		m.mu.Unlock()
		return
	}
	m.fenced = true
	m.term++
	m.stats.fenced++
	var stop []*slot
	for _, s := range m.slots {
		if s.running {
			s.running = false
			stop = append(stop, s)
		}
	}
	m.mu.Unlock()
	m.config.Log.Error().Int("slots",
		len(stop)).Msg("the lease of this process expired; its nodes stop in this process until the lease is renewed")
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stopAll(now, stop)
}

func stopAll(ctx context.Context, slots []*slot) {
	var all sync.WaitGroup
	for _, s := range slots {
		for _, machine := range s.machines {
			all.Go(func() { machine.stop(ctx) })
		}
	}
	all.Wait()
}

// round decides and does, and gives the time until the next look.
func (m *member) round() time.Duration {
	const soon, rarely = 200 * time.Millisecond, 5 * time.Second
	sure := m.readEnded()
	m.mu.Lock()
	if m.fenced || !m.listed {
		m.mu.Unlock()
		return rarely // it is woken up
	}
	plan, term, next := sharing.Decide(m.viewLocked(false)), m.term, m.nextLocked(rarely)
	// A claim replaces the very version that the decision was made by.
	claims := make([]claim, len(plan.Claim))
	for i, s := range plan.Claim {
		claims[i] = claim{slot: m.slots[s], lease: m.leases[m.slotLease(s)]}
	}
	m.mu.Unlock()
	m.release(plan.Release)
	if !m.claim(claims, term) || !sure {
		return soon
	}
	m.forget()
	return next
}

// viewLocked is what the decision needs to know.
func (m *member) viewLocked(leaving bool) sharing.View {
	v := sharing.View{Me: m.config.Identity, Leaving: leaving, Holders: make([]string, len(m.slots))}
	for id, s := range m.sights { // order-free: it is sorted there
		if !s.Gone() {
			v.Members = append(v.Members, id)
		}
	}
	for i, s := range m.slots {
		if l := m.leases[m.slotLease(i)]; l != nil && l.Spec.HolderIdentity != nil {
			v.Holders[i] = *l.Spec.HolderIdentity
			if v.Holders[i] == v.Me && !s.running {
				v.Stopped = append(v.Stopped, i)
			}
		}
	}
	return v
}

// nextLocked is when the next process may be gone.
func (m *member) nextLocked(most time.Duration) time.Duration {
	for _, s := range m.sights { // order-free: a minimum
		if d := time.Until(s.Ends()); d > 0 {
			most = min(most, d+time.Millisecond)
		}
	}
	return most
}

// leave deletes this process' lease. Nothing runs here any more.
func (m *member) leave() {
	m.mu.Lock()
	l := m.leases[m.processLease()]
	m.mu.Unlock()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.config.LeaseDuration/2)
	defer cancel()
	_, err := answer.Of(ctx, func(done func(struct{}, error)) {
		m.config.API.Delete(ctx, port.APIDelete{Key: port.APIKeyOf(l), UID: l.UID}, func(err error) { done(struct{}{}, err) })
	})
	if err != nil && port.KindOf(err) != port.NotFound {
		m.config.Log.Warn().Str("error", err.Error()).Msg("cannot delete the lease of this process; it expires by itself")
	}
}
