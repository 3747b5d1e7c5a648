package invariants

import (
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/observed"
)

// Violation is an invariant that did not hold.
type Violation struct {
	// ID is that of the rule: I01.
	ID string
	// Pod is whose it is, zero if it is the node's.
	Pod  observed.PodRef
	What string
	At   time.Time
}

func (v Violation) String() string {
	if v.Pod.UID == "" {
		return fmt.Sprintf("%s: %s", v.ID, v.What)
	}
	return fmt.Sprintf("%s: pod %s: %s", v.ID, v.Pod, v.What)
}
