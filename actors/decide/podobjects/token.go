package podobjects

import "time"

// maxTokenAge is after how long a token is renewed, however long it would live.
const maxTokenAge = 24 * time.Hour

// RenewAt is when a token that was issued at one time and expires at another is
// to be renewed: when a fifth of its life is left, or after a day, and earlier
// than that by spread of 10 s, which is a number from 0 to 1 and keeps the pods
// of a node from asking all at once. (KEP-1205; a reader has to read the file
// again once in a while, and at the latest then finds a token with the rest of
// its life before it.)
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
