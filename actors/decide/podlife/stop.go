package podlife

import "time"

// Stop is why and how a pod is taken down.
type Stop struct {
	// At is the start of the grace period.
	At time.Time `json:"at,omitzero"`
	// Grace is the time that containers have from At; it may be shortened later. 0 is by force: their preStop hooks and
	// stop signals have two seconds (podplan).
	Grace time.Duration `json:"grace,omitempty"`
	// Reason and Message go into the pod's status if Fail is set (Evicted, DeadlineExceeded, …). Why
	// is for the Killing event.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Why     string `json:"why,omitempty"`
	// Decided is when the node decided to end, for Reason, a pod that was being stopped already; zero: at At.
	Decided time.Time `json:"decided,omitzero"`
	// Disruption, if not empty, is the message of the condition DisruptionTarget: the node ends the pod to
	// protect itself or other pods (KEP-3329).
	Disruption string `json:"disruption,omitempty"`
	// Fail: the pod's phase becomes Failed whatever the state of its containers.
	Fail bool `json:"fail,omitempty"`
	// ByExit: unless all its containers exit with 0. Then it becomes Succeeded, for the same reason.
	ByExit bool `json:"byExit,omitempty"`
	// Ended: the pod has come to its end, and nobody asked for the stop.
	Ended bool `json:"ended,omitempty"`
}

// ReasonOverdue is the reason of the event of a pod that the node ends, and that takes too long.
const ReasonOverdue = "ExceededGracePeriod"

// ByNode says whether the node ends the pod by its own decision: an eviction, a preemption, its
// shutdown.
func (s *Stop) ByNode() bool { return s.Fail && !s.Ended }

// DecidedAt is when it was decided to end the pod for Reason.
func (s *Stop) DecidedAt() time.Time {
	if s.Decided.IsZero() {
		return s.At
	}
	return s.Decided
}

// Merged is the stop of a pod that is asked to stop again: Shortened, and if only the later stop is a decision of the
// node, it says why the pod ends. So a pod that is evicted while it is being deleted has failed. The first decision of
// the node stays, and what a pod that has come to its end by itself has ended for.
func (s Stop) Merged(later Stop) Stop {
	out := s.Shortened(later)
	if later.ByNode() && !s.Fail && !s.Ended {
		out.Reason, out.Message, out.Disruption, out.Fail = later.Reason, later.Message, later.Disruption, true
		out.Decided, out.ByExit = later.DecidedAt(), later.ByExit
	}
	return out
}

// Shortened is the stop of a pod that is asked to stop again. A later stop can only end it sooner;
// one that ends later changes nothing. The start and the reason of the first one stay.
//
// A later stop by force (grace 0) leaves no grace at all, even if the grace period is over and
// containers still run. The stop begins with it then, unless it would end later than before. If the clock was set back
// since the first stop, the later one counts from the first.
func (s Stop) Shortened(later Stop) Stop {
	if later.Grace <= 0 {
		if s.Grace > 0 {
			s.force(later.At)
		}
		return s
	}
	s.Grace = min(s.Grace, max(later.At.Sub(s.At), 0)+later.Grace)
	return s
}

// Forced is how long a stop by force takes.
const Forced = 2 * time.Second

// force leaves no grace from a time on.
func (s *Stop) force(at time.Time) {
	if ends := s.At.Add(s.Grace - Forced); ends.Before(at) {
		at = ends
	}
	if at.After(s.At) {
		if s.ByNode() {
			s.Decided = s.DecidedAt()
		}
		s.At = at
	}
	s.Grace = 0
}
