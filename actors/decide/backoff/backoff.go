package backoff

import "time"

// Next counts the end of an incarnation. Crash.Delay says how long after that end the next one may
// start.
//
// prev is the record of this container, nil if it is lost (the agent restarted). attempt is the
// incarnation that ended, ran its run time.
//
//	first crash, or ran ≥ Reset   0: restart at once
//	then                          Base, 2·Base, 4·Base, … Max
//
// Without a record, the attempt number stands for the number of crashes. That never shortens the
// delay of a crash loop. It lengthens the delay once, for a container that crashed often long ago.
//
// Counting the same attempt twice returns prev.
func (p Policy) Next(prev *Crash, attempt uint32, ran time.Duration) Crash {
	switch {
	case prev != nil && prev.Attempt == attempt:
		return *prev
	case p.Reset > 0 && ran >= p.Reset:
		return Crash{Attempt: attempt}
	case prev != nil && prev.None:
		return Crash{Attempt: attempt}
	case prev != nil:
		return Crash{Attempt: attempt, Delay: p.after(prev.Delay)}
	default:
		return Crash{Attempt: attempt, Delay: p.nth(int64(attempt))}
	}
}

// Spare is the record after the end of an incarnation that does not count: the next one starts at once, and what is
// counted after it goes on from what was counted before.
func (p Policy) Spare(prev *Crash, attempt uint32) Crash {
	switch {
	case prev != nil:
		return Crash{Attempt: attempt, Delay: prev.Delay, None: prev.None, AtOnce: true}
	case attempt == 0:
		return Crash{None: true, AtOnce: true}
	default:
		return Crash{Attempt: attempt, Delay: p.nth(int64(attempt)), AtOnce: true}
	}
}

// Retry is the delay after the count-th failure in a row: Base after the first, doubled each time,
// up to Max; 0 for no failure.
func Retry(p Policy, count int) time.Duration { return p.nth(int64(count)) }

// after is the delay that follows d.
func (p Policy) after(d time.Duration) time.Duration {
	if d <= 0 {
		return min(p.Base, p.Max)
	}
	if d > p.Max/2 {
		return p.Max
	}
	return 2 * d
}

// nth is 0 for n ≤ 0, then Base·2^(n-1), up to Max.
func (p Policy) nth(n int64) time.Duration {
	if n <= 0 {
		return 0
	}
	d := min(p.Base, p.Max)
	for ; n > 1 && d < p.Max; n-- {
		d = p.after(d)
	}
	return d
}
