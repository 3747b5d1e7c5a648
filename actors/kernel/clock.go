package kernel

import "time"

// Clock is the only source of time of an actor.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f once, after d, outside of any actor: f only posts messages. stop reports
	// whether it prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// WallClock is the time of the machine.
type WallClock struct{}

// Now implements Clock.
func (WallClock) Now() time.Time { return time.Now() }

// AfterFunc implements Clock.
func (WallClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}
