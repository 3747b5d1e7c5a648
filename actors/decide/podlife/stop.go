package podlife

import "time"

// Stop is how a pod is taken down.
type Stop struct {
	// At is when the grace period began to count.
	At time.Time
	// Grace is how long containers have from At; it may be shortened later.
	Grace time.Duration
	// Reason and Message go into the pod's status if Fail is set (Evicted,
	// DeadlineExceeded, …); Why is for the Killing event.
	Reason, Message string
	Why             string
	// Fail says that the pod's phase becomes Failed whatever its containers say.
	Fail bool
}

// Shortened is the stop of a pod that is being stopped, once it is asked to stop
// again. A later stop can only make the end come sooner: one that ends later
// changes nothing. The time and the reason of the first one stay.
//
// A later stop by force (its grace is 0) leaves no grace at all, also when the grace
// period is over and containers have not stopped. If the clock was set back since the
// first stop, the later one counts from the first.
func (s Stop) Shortened(later Stop) Stop {
	if later.Grace <= 0 {
		s.Grace = 0
		return s
	}
	s.Grace = min(s.Grace, max(later.At.Sub(s.At), 0)+later.Grace)
	return s
}
