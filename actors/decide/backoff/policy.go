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
