// Package backoff decides how long to wait before the next try.
package backoff

import "time"

// Policy is an exponential backoff: Base, doubled each time, up to Max.
type Policy struct {
	Base time.Duration
	Max  time.Duration
	// Reset is how long a container must run so that its next crash counts as the first again.
	Reset time.Duration
}

// Crash is the record of a container's crashes.
type Crash struct {
	// Attempt is the last incarnation whose end was counted.
	Attempt uint32
	// Delay is how long after that end the next incarnation may start; zero for the first crash.
	Delay time.Duration
	// Noted is true once the BackOff event for this crash was emitted.
	Noted bool
	// None: no incarnation up to this one counts.
	None bool
	// AtOnce: the next incarnation need not wait for Delay, which only counts for those after it.
	AtOnce bool
}

// Failures are those of one thing in a row; zero for none, as it is again after a success.
type Failures struct {
	Count int
	// At and Message are those of the last failure. Without At it is due at once.
	At      time.Time
	Message string
}

// Failed counts one more failure.
func (f Failures) Failed(now time.Time, message string) Failures {
	return Failures{Count: f.Count + 1, At: now, Message: message}
}

// RetryAt is when to try again; zero, which means at once, without a failure.
func (f Failures) RetryAt(p Policy) time.Time {
	if f.Count == 0 {
		return time.Time{}
	}
	return f.At.Add(Retry(p, f.Count))
}
