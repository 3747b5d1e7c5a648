package status

import (
	"math"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/apipod"
	"github.com/troupe-dev/troupe/actors/decide/backoff"
	"github.com/troupe-dev/troupe/actors/kernel"
	"github.com/troupe-dev/troupe/actors/port"
)

// outcome is how the last call of a pod ended. Each call that ends may change it to any other.
//
//	notAccepted ──worked──► accepted ──no answer in time──► unanswered ──another error──► notAccepted, and back
type outcome uint8

const (
	// notAccepted: with an error, or there was no call yet.
	notAccepted outcome = iota
	accepted
	unanswered
)

func (o outcome) String() string { return [...]string{"notAccepted", "accepted", "unanswered"}[o] }

// outcomeOf is that of a call with this error.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return accepted
	case port.KindOf(err) == port.Deadline:
		return unanswered
	default:
		return notAccepted
	}
}

// answered applies the result of a call.
func (s *status) answered(ctx *kernel.Context[Message], m answered) {
	begun, mine := s.calls[m.id]
	if !mine {
		return
	}
	delete(s.calls, m.id)
	r := s.of[m.uid]
	unheard := s.unheard(ctx, r, begun.at, m.err)
	if r != nil && r.call == m.id {
		r.call, r.last = 0, outcomeOf(m.err)
		switch {
		case m.err == nil:
			s.succeeded(r, m)
		case !unheard:
			s.refused(ctx, r, m)
		}
		s.tidy(m.uid, r)
		s.advance(ctx, m.uid)
	}
	s.next(ctx)
}

// unheard reports whether a call reached no working apiserver, and counts that. r is the pod's
// record, nil if there is none left.
func (s *status) unheard(ctx *kernel.Context[Message], r *record, begun time.Time, err error) bool {
	kind, understood := port.KindOf(err), err == nil
	switch {
	case understood:
	case kind == port.Other:
		if s.alone(ctx, r, begun) {
			return false
		}
	case kind == port.Deadline:
		if s.heard.After(begun) {
			return false // others were heard meanwhile: only this call failed
		}
	case kind == port.Unavailable, kind == port.Canceled, kind == port.Panic, kind == port.Unauthorized,
		kind == port.TooManyRequests:
	default:
		understood = true
	}
	if understood {
		if r != nil {
			r.troubled = 0
		}
		if s.away > 0 {
			ctx.Log().Info().Int("pods", len(s.waiting)+len(s.failedLast)).Msg("the apiserver accepts pod status updates again")
		}
		s.away, s.heard = 0, ctx.Now()
		return false
	}
	s.doubt = kind == port.Other
	if s.away == 0 {
		log := ctx.Log().Warn()
		if kind == port.Unavailable || kind == port.Unauthorized {
			log = ctx.Log().Debug() // the watch logs it once for all
		}
		log.Str("error", err.Error()).Msg("cannot write pod status to the apiserver; retrying")
	}
	if s.away == 0 || !s.retrying {
		s.away++
	}
	if !s.retrying {
		s.retrying = true
		wait := backoff.Retry(s.deps.Backoff, s.away)
		// All nodes must not call at once when it is back.
		ctx.After(wait/2+time.Duration(ctx.Rand().Int64N(int64(wait/2)+1)), retry{})
	}
	return true
}

// alone reports whether an unspecific error concerns only one pod: others were heard since its
// call began, or since its last such error.
func (s *status) alone(ctx *kernel.Context[Message], r *record, begun time.Time) bool {
	if r == nil {
		return true
	}
	before := r.troubled
	r.troubled = ctx.Now().UnixNano()
	return s.heard.After(begun) || before != 0 && s.heard.UnixNano() > before
}

// succeeded applies the apiserver's new object.
func (s *status) succeeded(r *record, m answered) {
	if m.what != apipod.Read {
		r.failures, r.retryAt = 0, 0 // a read after each conflict is no end of conflicts
	}
	if m.what == apipod.Delete {
		r.deleted = r.object != nil && r.object.UID == m.object.UID
		return
	}
	if r.object == nil || r.object.UID != m.object.UID {
		return // another pod has its name meanwhile
	}
	if m.what == apipod.Read {
		r.unread = false
		if m.got.UID != m.object.UID {
			r.object = nil
			return
		}
	}
	// A read shows what is there now. If it is older than what was known when it began, the apiserver's store
	// was restored from a backup.
	restored := m.what == apipod.Read && r.object == m.object
	older := apipod.Compare(r.object.ResourceVersion, m.got.ResourceVersion) > 0
	if older && !restored {
		return // changed again since
	}
	if m.what == apipod.Read && (older || m.got.DeletionTimestamp == nil) {
		r.deleted = false // it is there again
	}
	r.object = m.got
	if m.what == apipod.Write {
		if r.written != m.want {
			r.acks = 0
		}
		r.written, r.acks = m.want, min(r.acks+1, 2)
		if r.want == m.want {
			r.changed = 0
		}
	}
}

// refused handles a pod whose status, or deletion, the apiserver refuses.
func (s *status) refused(ctx *kernel.Context[Message], r *record, m answered) {
	kind := port.KindOf(m.err)
	if kind == port.NotFound {
		if r.object != nil && r.object.UID == m.object.UID {
			r.object = nil
		}
		return
	}
	if r.failures < math.MaxUint16 {
		r.failures++
	}
	if kind == port.Conflict {
		// It has changed: read it at once, unless the watch has reported it meanwhile.
		known := r.object != nil && r.object.ResourceVersion != m.object.ResourceVersion
		r.unread = r.unread || !known
		if r.failures == 1 {
			return
		}
	}
	if kind == port.Invalid && m.what == apipod.Write {
		s.rejected(ctx, r, m)
	}
	r.retryAt = ctx.Now().Add(backoff.Retry(s.deps.Refused, int(r.failures))).UnixNano()
	log := ctx.Log().Debug()
	if r.failures == 1 {
		log = ctx.Log().Warn()
	}
	log.Str("pod", m.object.Namespace+"/"+m.object.Name).Str("call", verbs[m.what]).Str("error",
		m.err.Error()).Msg("the apiserver rejected a pod request; retrying")
}

// statusRejected is the reason of the event that tells what the apiserver says of a status (whynot knows it).
const statusRejected = "StatusRejected"

// rejected counts how often a last status was invalid. The pod's events say it the first time, and when the pod is
// deleted without it.
func (s *status) rejected(ctx *kernel.Context[Message], r *record, m answered) {
	if r.final && m.want == r.want {
		r.rejected++
	}
	message := "The apiserver rejected the status of the pod: "
	switch {
	case r.rejected == apipod.MostRejected:
		message = "The pod is deleted without its last status, which the apiserver rejected: "
	case r.rejected != 1 && r.failures != 1:
		return
	}
	about := *m.object
	about.UID = m.uid // of a static pod, not of its mirror
	s.deps.Events.Record(port.Event{
		Pod: &about, Warning: true, Reason: statusRejected, Message: message + m.err.Error(), At: ctx.Now(),
	})
}
