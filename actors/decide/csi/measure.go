package csi

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/decide/usage"
)

// Measure are the parameters of NodeGetVolumeStats, for one publication.
type Measure struct {
	Key
	Target
	// Volumes are its names in the pod: a claim can be named twice.
	Volumes       []string
	Inline, Block bool
	// Health: the condition of the volume counts, if the driver knows it (feature gate CSIVolumeHealth, KEP-1432).
	Health bool
}

// Amount is what a driver says of bytes or inodes.
type Amount struct{ Total, Available, Used int64 }

// Health is what a driver says of the condition of a volume.
type Health struct {
	Abnormal bool
	Message  string
}

// Usage is the answer of NodeGetVolumeStats. An amount that a driver does not give is zero, as in a kubelet. Health is
// nil if the driver does not know it, or if it does not count.
type Usage struct {
	Bytes, Inodes Amount
	Health        *Health
}

// Disk is the usage in numbers that can be true: a negative one is unknown.
func (u Usage) Disk(at time.Time) usage.Disk {
	return usage.Disk{
		At: at, Capacity: natural(u.Bytes.Total), Available: natural(u.Bytes.Available), Used: natural(u.Bytes.Used),
		Inodes: natural(u.Inodes.Total), InodesFree: natural(u.Inodes.Available), InodesUsed: natural(u.Inodes.Used),
	}
}

func natural(n int64) *uint64 {
	if n < 0 {
		return nil
	}
	return new(uint64(n))
}

// Turn is a publication whose figures its driver is asked for again and again.
type Turn struct {
	Key
	Target
	// at is when the driver answered last; zero: never.
	at time.Time
	// busy: it was asked and has not answered. over: the publication is gone.
	busy, over bool
}

// Turns are the publications of one driver, in the order in which it is asked about them: those that it never was asked
// about, and then those for which its answer is the oldest. Each call costs the same, however many there are. The zero
// value is empty.
type Turns struct {
	// fresh and waiting have gone that are over, which are at most half of them.
	//
	// Invariant: at is zero in fresh only. The order of waiting is that of the answers, by whatever clock.
	fresh, waiting []*Turn
	gone           int
	// busy counts those that the driver has not answered for. They are in neither list.
	busy int
}

// Check says that the invariant does not hold.
func (q *Turns) Check() error {
	for _, t := range q.fresh {
		if !t.at.IsZero() {
			return fmt.Errorf("csi: fresh: at is zero in fresh only: %s was answered for", t.Key)
		}
	}
	for _, t := range q.waiting {
		if t.at.IsZero() {
			return fmt.Errorf("csi: waiting: at is zero in fresh only: %s was not answered for", t.Key)
		}
	}
	return nil
}

// Add adds a publication.
func (q *Turns) Add(t *Turn) { q.fresh = append(q.fresh, t) }

// Answered notes that the driver has answered for one of Due.
func (q *Turns) Answered(t *Turn, now time.Time) {
	q.busy--
	t.busy, t.at = false, now
	q.waiting = append(q.waiting, t)
}

// Drop takes a publication out, and reports whether the driver has not answered for it: then another one may be due.
func (q *Turns) Drop(t *Turn) (busy bool) {
	if t.over = true; t.busy {
		q.busy--
		return true
	}
	if q.gone++; 2*q.gone > len(q.fresh)+len(q.waiting) {
		over := func(t *Turn) bool { return t.over }
		q.fresh, q.waiting, q.gone = slices.DeleteFunc(q.fresh, over), slices.DeleteFunc(q.waiting, over), 0
	}
	return false
}

// Due are the turns to be taken now, a period after the answer, while at most most of them have no answer. again is
// when the next one is due; zero: when something changes.
func (q *Turns) Due(now time.Time, period time.Duration, most int) (begin []*Turn, again time.Time) {
	for {
		from := &q.fresh
		if len(q.fresh) == 0 {
			from = &q.waiting
		}
		if len(*from) == 0 {
			return begin, again
		}
		t := (*from)[0]
		if due := t.at.Add(period); !t.over && !t.at.IsZero() && due.After(now) {
			return begin, due
		}
		if !t.over && q.busy >= most {
			return begin, again
		}
		(*from)[0], *from = nil, (*from)[1:]
		if t.over {
			q.gone--
			continue
		}
		q.busy++
		t.busy = true
		begin = append(begin, t)
	}
}
