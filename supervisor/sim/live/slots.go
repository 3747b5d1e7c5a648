package live

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/port/answer"
)

// handover bounds how long a slot that is given away may wait for its writes.
const handover = 2 * time.Second

// release stops what runs in slots, and gives them back.
func (m *member) release(which []int) {
	if len(which) == 0 {
		return
	}
	var stop []*slot
	m.mu.Lock()
	for _, i := range which {
		if s := m.slots[i]; s.running {
			s.running = false
			stop = append(stop, s)
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), handover)
	defer cancel()
	stopAll(ctx, stop)
	write, cancel := context.WithTimeout(context.Background(), m.config.LeaseDuration/2)
	defer cancel()
	nobody := ""
	m.each(len(which), func(n int) {
		i := which[n]
		m.mu.Lock()
		l := m.leases[m.slotLease(i)]
		m.mu.Unlock()
		if l == nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != m.config.Identity {
			return // another process has it
		}
		l = l.DeepCopy()
		l.Spec.HolderIdentity = &nobody
		if _, err := m.write(write, l, false); err != nil {
			m.config.Log.Warn().Str("lease", l.Name).Str("error", err.Error()).
				Msg("cannot give up the simulated nodes of this process; another process takes them when its lease expires")
		}
		m.slots[i].wrote = ""
	})
	for _, i := range which {
		for _, machine := range m.slots[i].machines {
			machine.discard()
		}
	}
	n := 0
	for _, s := range stop {
		n += len(s.machines)
	}
	m.config.Log.Info().Int("nodes", n).Msg("released nodes")
}

// each does f n times, some at a time.
func (m *member) each(n int, f func(int)) {
	const atOnce = 16
	var all sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			f(i)
			<-room
		})
	}
	all.Wait()
}

// claim is a slot to take, with its last known lease, nil for none.
type claim struct {
	slot  *slot
	lease *coordinationv1.Lease
	// version is that of the lease once it was taken, empty if it was not.
	version string
	// mine: no other process had it since this process wrote it last.
	mine bool
}

// claim takes slots, and starts their nodes. It reports whether none was refused.
func (m *member) claim(claims []claim, term int) bool {
	if len(claims) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.config.LeaseDuration/2)
	defer cancel()
	m.each(len(claims), func(i int) {
		c := &claims[i]
		c.mine = c.lease != nil && c.lease.ResourceVersion == c.slot.wrote
		var err error
		if c.version, err = m.take(ctx, c); err == nil {
			return
		}
		if kind := port.KindOf(err); kind != port.Conflict && kind != port.AlreadyExists {
			m.config.Log.Warn().Str("lease", m.slotLease(c.slot.index)).Str("error",
				err.Error()).Msg("cannot acquire a slot of nodes; retrying")
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term != term || m.fenced {
		return false
	}
	n, all := 0, true
	for i := range claims {
		c := &claims[i]
		if c.version == "" {
			all = false
			continue
		}
		c.slot.wrote, c.slot.running = c.version, true
		n += len(c.slot.machines)
		// Under the lock: a fence comes before all of them or after.
		for _, machine := range c.slot.machines {
			if !c.mine {
				machine.discard()
			}
			machine.start()
		}
	}
	m.stats.claimed += n
	if n > 0 {
		m.config.Log.Info().Int("nodes", n).Int("of", m.config.Nodes).Msg("running nodes")
	}
	return all
}

// take writes this process into the lease of a slot.
func (m *member) take(ctx context.Context, c *claim) (version string, err error) {
	at, transitions := metav1.NewMicroTime(time.Now()), int32(0)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.config.Namespace, Name: m.slotLease(c.slot.index),
		Labels: map[string]string{simulationKey: m.config.Name, slotKey: strconv.Itoa(c.slot.index)},
	}}
	if c.lease != nil {
		l = c.lease.DeepCopy()
		if n := l.Spec.LeaseTransitions; n != nil {
			transitions = *n
		}
		if !c.mine {
			transitions++
		}
	}
	l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.LeaseTransitions = &m.config.Identity, &at, &transitions
	return m.write(ctx, l, c.lease == nil)
}

// readEnded reads the leases of processes that should have ended: the watch, which told of no change, may be late, as
// after a time without an apiserver. It reports whether all were read; whoever was not counts as living.
func (m *member) readEnded() bool {
	var due []*coordinationv1.Lease
	m.mu.Lock()
	now := time.Now()
	for id, s := range m.sights { // order-free: each for itself
		if id == m.config.Identity || s.Gone() || now.Before(s.Ends()) {
			continue
		}
		if l := m.leases[m.config.Name+"-process-"+id]; l != nil {
			due = append(due, l)
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), m.config.LeaseDuration/2)
	defer cancel()
	var missed atomic.Bool
	m.each(len(due), func(i int) {
		asked := time.Now()
		key := port.APIKeyOf(due[i])
		got, err := answer.Of(ctx, func(done func(port.APIObject, error)) { m.config.API.Get(ctx, key, done) })
		m.mu.Lock()
		defer m.mu.Unlock()
		switch kind := port.KindOf(err); {
		case err == nil:
			l := got.(*coordinationv1.Lease)
			m.seeLocked(l)
			id := *due[i].Spec.HolderIdentity
			if s := m.sights[id]; s.Version == l.ResourceVersion {
				m.sights[id] = s.Unchanged(asked)
			}
		case kind == port.NotFound:
			m.goneLocked(due[i].Name)
		default:
			missed.Store(true)
		}
	})
	return !missed.Load()
}

// forgetAfter is how many durations after its end the lease of a process that left
// without a word is deleted.
const forgetAfter = 4

// forget deletes the leases of processes that are long gone.
func (m *member) forget() {
	var gone []port.APIDelete
	m.mu.Lock()
	for id, s := range m.sights { // order-free: each for itself
		if id == m.config.Identity || !s.Gone() || time.Since(s.Ends()) < forgetAfter*s.Duration {
			continue
		}
		if l := m.leases[m.config.Name+"-process-"+id]; l != nil {
			gone = append(gone, port.APIDelete{Key: port.APIKeyOf(l), UID: l.UID})
		}
		delete(m.sights, id) // tried once: the next process tries again
	}
	m.mu.Unlock()
	for _, d := range gone {
		ctx, cancel := context.WithTimeout(context.Background(), m.config.LeaseDuration/2)
		_, err := answer.Of(ctx, func(done func(struct{}, error)) {
			m.config.API.Delete(ctx, d, func(err error) { done(struct{}{}, err) })
		})
		cancel()
		if err != nil && port.KindOf(err) != port.NotFound {
			m.config.Log.Warn().Str("lease", d.Key.Name).Str("error",
				err.Error()).Msg("cannot delete the lease of a stopped process")
		}
	}
}
