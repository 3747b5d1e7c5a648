package podobjects

import "time"

// maxTokenAge is the age at which a token is renewed, even if it is valid for longer.
const maxTokenAge = 24 * time.Hour

// RenewAt is when to renew a token: when a fifth of its life is left, or after a day, minus up to
// 10 s. spread, a number from 0 to 1, sets that part, so that the pods of a node don't all ask at
// once. (KEP-1205; a reader must reopen the file from time to time, and then finds a valid token.)
//
// asked is the life that was asked for, 0 for none. A token lives no longer than that by the clock of the apiserver. If
// it ends later by ours, the apiserver's is ahead, and when that is mended, the token is not valid for as long.
func RenewAt(issued, expires time.Time, asked time.Duration, spread float64) time.Time {
	life := expires.Sub(issued)
	if asked > 0 {
		life = min(life, asked)
	}
	at := issued.Add(min(life-life/5, maxTokenAge) - time.Duration(spread*float64(10*time.Second)))
	if at.Before(issued) {
		return issued
	}
	return at
}

// leeway is by how much an apiserver lets clocks differ when it looks at a token.
const leeway = time.Minute

// FromTheFuture says whether the wall clock was set back, so far that a token which was issued before that may not be
// valid yet.
func FromTheFuture(issued, now time.Time) bool { return issued.Round(0).Sub(now.Round(0)) > leeway }
