// Package status is the actor that writes pod statuses to the apiserver. It knows the last
// acknowledged status of each pod, and the writes under way.
//
//	podset ──Show, Shows, Forget──► status ──Patch, Delete, Get──► apiserver
//	apipods, mirrors ──Object, Objects, Gone──► status ──Outlived──► mirrors
//
// apipod decides what to write and when. A pod has one call at a time; all pods together
// have a bounded number. While the apiserver is away, only one call at a time tries to reach it.
// As soon as it answers, all pending statuses are written.
//
//	        an answer, whatever it says
//	    ┌───────────────────────────────┐
//	    ▼                               │
//	listening ──no answer──► away: one call at a time, after a backoff
//
// An answer with an unspecific error (an internal error, an HTML page of a proxy)
// counts as no answer. An apiserver whose store is down returns such errors, maybe
// for minutes, and all status must be written as soon as it works again. But the
// error may also concern one pod, for example if a webhook fails for its status.
// So only pods whose own call failed back off. If a pod keeps failing while others
// succeed, the failure is that pod's, not the apiserver's.
//
// After a restart the actor has no state: others send it the status and the objects
// of all pods again, and it reads each pod from the apiserver before it writes.
package status

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
	"github.com/troupe-dev/troupe/actors/portcall"
)

// API is what the actor uses of port.API.
type API interface {
	Get(ctx context.Context, k port.APIKey, done func(port.APIObject, error))
	Patch(ctx context.Context, p port.APIPatch, done func(port.APIObject, error))
	Delete(ctx context.Context, d port.APIDelete, done func(error))
}

// Deps are what the actor needs.
type Deps struct {
	API    API
	Events port.Recorder
	// Restarted is called when an incarnation after the first begins, or when messages were
	// missed: everything must be sent again.
	Restarted func()
	// Outlived goes to mirrors: the static pod of this mirror runs, but the mirror has ended.
	Outlived func(mirror types.UID)
	// Backoff is the time between calls while the apiserver is away. Refused is the same for one
	// pod whose status the apiserver refuses.
	Backoff, Refused backoff.Policy
	// Load reports the write load of all users of the connection (apipod.WriteInput); nil for a
	// low one. It must not block.
	Load func() (busy, crowded bool)
	// Calls is how many calls may be under way at once.
	Calls int
	// Deadline bounds a call, Probe a call that tests whether the apiserver is back.
	Deadline, Probe time.Duration
}

// New makes the constructor of the actor.
func New(deps *Deps) func() kernel.Behavior[Message] {
	return func() kernel.Behavior[Message] {
		return &status{deps: deps, of: map[types.UID]*record{}, calls: map[kernel.EffectID]begun{}}
	}
}

type status struct {
	deps *Deps
	of   map[types.UID]*record
	// resyncUntil: until then, messages about a pod may be older than its last write, because this
	// actor restarted or missed messages.
	resyncUntil time.Time
	// optimisticUntil: until then, writes of an earlier agent or incarnation may still arrive. So each
	// write must be based on the newest version or fail.
	optimisticUntil time.Time
	// calls are those under way. waiting are pods with something to write and no free call, first
	// come first served; failedLast are those of them whose last call failed.
	calls               map[kernel.EffectID]begun
	waiting, failedLast []types.UID
	// away counts the calls since the apiserver last answered, at heard. retrying: the timer for
	// the next call runs. doubt: it answers, but only with unspecific errors.
	away     int
	heard    time.Time
	retrying bool
	doubt    bool
}

// begun is a call under way: since when, and whether the last call of its pod failed.
type begun struct {
	at         time.Time
	failedLast bool
}

// record is one pod. There are thousands: keep it small.
type record struct {
	// object is the newest known, want the desired status, written the last acknowledged status.
	object  *v1.Pod
	want    *v1.PodStatus
	written *v1.PodStatus
	// call is the effect under way, 0 for none.
	call kernel.EffectID
	// Times in nanoseconds since 1970, 0 for never: see apipod.WriteInput.
	changed, lastWrite, retryAt int64
	// timer is when the pod is next due, 0 for none.
	timer int64
	// troubled is when its last call got an unspecific error, 0 if a later call did not.
	troubled int64

	failures uint16
	// acks is how often written was acknowledged; 2 means twice or more. rejected: see apipod.WriteInput.
	acks     uint8
	rejected uint8
	final    bool
	deleted  bool
	unread   bool
	queued   bool
	last     outcome
}

// failedLast: its last call failed, so the next one may take as long as a call can.
func (r *record) failedLast() bool { return r.last == unanswered || r.failures > 0 }

// settled: the desired status was written twice, and nothing else was written since. Once is not
// enough: an earlier write whose answer was lost may have worked, and the next patch was computed
// without it.
func (r *record) settled() bool { return r.written != nil && r.written == r.want && r.acks > 1 }

// Start implements kernel.Behavior.
func (s *status) Start(ctx *kernel.Context[Message]) {
	s.optimisticUntil = ctx.Now().Add(optimisticFor)
	if ctx.Incarnation() > 1 {
		s.resync(ctx)
	}
}

// Overflowed implements kernel.OverflowHandler: any message may be lost, so all are sent again.
func (s *status) Overflowed(ctx *kernel.Context[Message]) {
	s.of, s.waiting, s.failedLast = map[types.UID]*record{}, nil, nil
	s.resync(ctx)
}

// Resync implements kernel.Resyncer.
func (s *status) Resync(*kernel.Context[Message]) { s.deps.Restarted() }

const (
	// resyncFor is the longest time until everything was sent again.
	resyncFor = time.Minute
	// optimisticFor is longer than an apiserver works on a write.
	optimisticFor = time.Minute
)

func (s *status) resync(ctx *kernel.Context[Message]) { s.resyncUntil = ctx.Now().Add(resyncFor) }

// Receive implements kernel.Behavior.
func (s *status) Receive(ctx *kernel.Context[Message], m Message) {
	switch m := m.(type) {
	case Show:
		s.show(ctx, m)
	case Shows:
		for _, one := range m.All {
			s.show(ctx, one)
		}
	case Object:
		s.seen(ctx, m)
	case Objects:
		for _, one := range m.All {
			s.seen(ctx, one)
		}
	case Gone:
		if r := s.of[m.UID]; r != nil && r.object != nil && r.object.UID == m.Object {
			r.object = nil
			s.tidy(m.UID, r)
		}
	case Forget:
		if r := s.of[m.UID]; r != nil {
			r.want, r.written = nil, nil
			s.tidy(m.UID, r)
		}
	case Unwritten:
		m.Reply(s.unwritten(ctx))
	case due:
		if r := s.of[m.uid]; r != nil && r.timer == m.at { // else an earlier timer replaced it
			r.timer = 0
			s.advance(ctx, m.uid)
		}
	case answered:
		s.answered(ctx, m)
	case retry:
		s.retrying = false
		s.next(ctx)
	}
}

// show takes the status of a pod, and writes it when it is time to.
func (s *status) show(ctx *kernel.Context[Message], m Show) {
	r := s.get(ctx, m.UID)
	if m.Status != r.written && (r.changed == 0 || apipod.Renews(r.object, r.want, m.Status)) {
		r.changed = ctx.Now().UnixNano()
	}
	if r.final != m.Final {
		r.rejected, r.failures, r.retryAt = 0, 0, 0 // a last status is tried at once
	}
	r.want, r.final = m.Status, m.Final
	if r.timer != 0 && !m.Final && apipod.Gathered(r.object, m.Status, ctx.Now(), timeOf(r.timer)) {
		return
	}
	s.advance(ctx, m.UID)
}

// seen takes the apiserver's object of a pod, and goes on with it.
func (s *status) seen(ctx *kernel.Context[Message], m Object) {
	s.object(ctx, m)
	s.advance(ctx, m.UID)
}

// unwritten counts the pods with a call under way, or with a status to write.
func (s *status) unwritten(ctx *kernel.Context[Message]) (n int) {
	for _, r := range s.of { // order-free: a count
		if r.call != 0 || r.queued {
			n++
			continue
		}
		switch s.step(ctx, r).Do {
		case apipod.Read, apipod.Write, apipod.Wait:
			n++
		case apipod.Rest, apipod.Delete, apipod.Replace:
		}
	}
	return n
}

func (s *status) get(ctx *kernel.Context[Message], uid types.UID) *record {
	r := s.of[uid]
	if r == nil {
		r = &record{unread: ctx.Now().Before(s.resyncUntil)}
		s.of[uid] = r
	}
	return r
}

// tidy forgets a pod that has no status to write, or no object and no sender that still reports
// it.
func (s *status) tidy(uid types.UID, r *record) {
	if r.want == nil && r.object == nil {
		delete(s.of, uid)
	}
}

// object applies the apiserver's object, unless it is older than the known one.
func (s *status) object(ctx *kernel.Context[Message], m Object) {
	r := s.get(ctx, m.UID)
	if old := r.object; old != nil && old.UID == m.Pod.UID {
		if c := apipod.Compare(old.ResourceVersion, m.Pod.ResourceVersion); c == 0 || c > 0 && !m.Restored {
			r.unread = r.unread || c > 0 && m.Listed
			return
		} else if c > 0 {
			r.deleted = false // it is there again
		}
	} else {
		r.deleted, r.failures, r.retryAt, r.rejected = false, 0, 0, 0
	}
	r.object, r.written, r.acks = m.Pod, nil, 0
}

// advance does the next step for a pod.
func (s *status) advance(ctx *kernel.Context[Message], uid types.UID) {
	r := s.of[uid]
	if r == nil || r.call != 0 || r.queued {
		return
	}
	step := s.step(ctx, r)
	switch step.Do {
	case apipod.Rest:
		return
	case apipod.Replace:
		s.deps.Outlived(r.object.UID)
		return
	case apipod.Wait:
		if at := step.Until.UnixNano(); r.timer == 0 || at < r.timer {
			r.timer = at
			ctx.After(step.Until.Sub(ctx.Now()), due{uid, at})
		}
		return
	case apipod.Read, apipod.Write, apipod.Delete:
	}
	if !s.room(r) {
		r.queued = true
		if r.failedLast() {
			s.failedLast = append(s.failedLast, uid)
		} else {
			s.waiting = append(s.waiting, uid)
		}
		return
	}
	s.call(ctx, uid, r, step)
}

// step decides what to do for a pod.
func (s *status) step(ctx *kernel.Context[Message], r *record) apipod.WriteStep {
	busy, crowded := false, false
	if s.deps.Load != nil {
		busy, crowded = s.deps.Load()
	}
	return apipod.NextWrite(apipod.WriteInput{
		Now: ctx.Now(), Object: r.object, Unread: r.unread, Want: r.want, Settled: r.settled(),
		Final: r.final, Rejected: r.rejected, Deleted: r.deleted, Busy: busy, Crowded: crowded, Changed: timeOf(r.changed),
		LastWrite: timeOf(r.lastWrite), RetryAt: timeOf(r.retryAt),
	})
}

// room reports whether another call may begin, for that pod.
func (s *status) room(r *record) bool {
	if s.away > 0 && (!s.doubt || r.troubled != 0) {
		return len(s.calls) == 0 && !s.retrying
	}
	if len(s.calls) >= s.deps.Calls || !r.failedLast() {
		return len(s.calls) < s.deps.Calls
	}
	failedLast := 0
	for _, c := range s.calls { // order-free: a count
		if c.failedLast {
			failedLast++
		}
	}
	return failedLast < max(s.deps.Calls/failedShare, 1)
}

// failedShare: of all calls, this fraction may be of pods whose last call failed. The status of other
// pods does not wait for an admission webhook that does not answer for these.
const failedShare = 4

// next continues waiting pods while there is room.
//
// While one call at a time tests whether the apiserver is back, it is that of a pod whose last call was
// answered: it may be away for others only.
func (s *status) next(ctx *kernel.Context[Message]) {
	if s.away > 0 {
		i := slices.IndexFunc(s.waiting, func(uid types.UID) bool { r := s.of[uid]; return r != nil && r.last == accepted })
		if i > 0 {
			uid := s.waiting[i]
			s.waiting = slices.Insert(slices.Delete(s.waiting, i, i+1), 0, uid)
		}
	}
	s.nextOf(ctx, &s.waiting)
	s.nextOf(ctx, &s.failedLast)
}

func (s *status) nextOf(ctx *kernel.Context[Message], queue *[]types.UID) {
	for len(*queue) > 0 {
		uid := (*queue)[0]
		r := s.of[uid]
		if r != nil && r.queued && !s.room(r) {
			return
		}
		if *queue = (*queue)[1:]; len(*queue) == 0 {
			*queue = nil
		}
		if r != nil && r.queued {
			r.queued = false
			s.advance(ctx, uid)
		}
	}
}

// call starts a call to the apiserver.
func (s *status) call(ctx *kernel.Context[Message], uid types.UID, r *record, step apipod.WriteStep) {
	o := r.object
	key := port.APIKey{Kind: port.PodKind, Namespace: o.Namespace, Name: o.Name}
	a := answered{uid: uid, what: step.Do, object: o, want: r.want}
	var run func(context.Context, func(port.APIObject, error))
	switch step.Do {
	case apipod.Read:
		run = func(c context.Context, done func(port.APIObject, error)) { s.deps.API.Get(c, key, done) }
	case apipod.Write:
		to := *o
		to.Status = step.Status
		r.lastWrite = ctx.Now().UnixNano()
		p := port.APIPatch{Key: key, From: o, To: &to, Status: true, Newest: ctx.Now().Before(s.optimisticUntil)}
		run = func(c context.Context, done func(port.APIObject, error)) { s.deps.API.Patch(c, p, done) }
	case apipod.Delete:
		d := port.APIDelete{Key: key, UID: o.UID, Grace: new(int64)}
		run = func(c context.Context, done func(port.APIObject, error)) {
			s.deps.API.Delete(c, d, func(err error) { done(nil, err) })
		}
	case apipod.Rest, apipod.Wait, apipod.Replace:
		panic("no call: " + step.Do.String())
	}
	deadline := s.deps.Deadline
	if s.away > 0 {
		deadline = s.deps.Probe
	}
	r.call = portcall.Do(ctx, kernel.Effect[Message]{
		Kind: verbs[step.Do], Object: key.Namespace + "/" + key.Name, For: string(uid), Lane: string(uid), Deadline: deadline,
	}, run, func(id kernel.EffectID, got port.APIObject, err error) Message {
		a := a
		a.id, a.err = id, err
		if err == nil && got != nil {
			a.got = got.(*v1.Pod)
		}
		return a
	})
	s.calls[r.call] = begun{ctx.Now(), r.failedLast()}
}

var verbs = map[apipod.WriteVerb]string{apipod.Read: "GetPod", apipod.Write: "PatchPodStatus",
	apipod.Delete: "DeletePod"}

func timeOf(nanos int64) time.Time {
	if nanos == 0 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}
