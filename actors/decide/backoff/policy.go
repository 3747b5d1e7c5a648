// Package backoff decides how long to wait before the next try.
package backoff

import "time"

// Policy is an exponential backoff: Base, doubled each time, Max at the most.
type Policy struct {
	Base time.Duration
	Max  time.Duration
	// Reset is how long a container must have run for its next crash to count
	// as the first again.
	Reset time.Duration
}

// Crash is what is remembered of a container's crashes.
type Crash struct {
	// Attempt is the incarnation whose end was counted last.
	Attempt uint32
	// Delay is how long after that end the next one may start; zero at the
	// first crash.
	Delay time.Duration
	// Noted is true once the BackOff event for this crash was given.
	Noted bool
}
