package imagepull

import "time"

// Bucket limits how many pulls begin (registryPullQPS, registryBurst): burst at once, and then qps in a second. A
// kubelet fails a pull that comes too early; here it gets a turn. The zero value has no limit.
type Bucket struct {
	qps, burst float64
	// tokens are how many pulls may begin at time at; less than 0: how many have a turn after that.
	tokens float64
	at     time.Time
}

// NewBucket makes a full one. A qps of 0 is no limit. A burst is at least one.
func NewBucket(qps, burst int32) Bucket {
	b := Bucket{qps: float64(max(qps, 0)), burst: float64(max(burst, 1))}
	b.tokens = b.burst
	return b
}

// Full says whether a turn can be taken that nobody misses: no pull began lately, and none waits.
func (b *Bucket) Full(now time.Time) bool {
	if b.qps == 0 {
		return true
	}
	b.fill(now)
	return b.tokens >= b.burst
}

// fill adds what has come since.
func (b *Bucket) fill(now time.Time) {
	if !b.at.IsZero() && now.After(b.at) {
		b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.qps)
	}
	if b.at.IsZero() || now.After(b.at) {
		b.at = now
	}
}

// Turn takes the next turn, and says when it is: now, or later.
func (b *Bucket) Turn(now time.Time) time.Time {
	if b.qps == 0 {
		return now
	}
	b.fill(now)
	b.tokens--
	if b.tokens >= 0 {
		return now
	}
	return b.at.Add(time.Duration(-b.tokens / b.qps * float64(time.Second)))
}
