package podobjects

import "time"

// maxTokenAge is the age at which a token is renewed, even if it is valid for longer.
const maxTokenAge = 24 * time.Hour

// RenewAt is when to renew a token: when a fifth of its life is left, or after a day, minus up to
// 10 s. spread, a number from 0 to 1, sets that part, so that the pods of a node don't all ask at
// once. (KEP-1205; a reader must reopen the file from time to time, and then finds a valid token.)
func RenewAt(issued, expires time.Time, spread float64) time.Time {
	life := expires.Sub(issued)
	at := expires.Add(-life / 5)
	if day := issued.Add(maxTokenAge); day.Before(at) {
		at = day
	}
	at = at.Add(-time.Duration(spread * float64(10*time.Second)))
	if at.Before(issued) {
		return issued
	}
	return at
}
